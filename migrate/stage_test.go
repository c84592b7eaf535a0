// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/migrate"
)

const (
	mapPath    = "/api/v1/namespaces/ns/configmaps/lock"
	podsPath   = "/api/v1/namespaces/ns/pods/"
	setsPath   = "/apis/apps/v1/namespaces/ns/replicasets/"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"
	leasePath  = leasesPath + "lock"
)

// stage is an API server with candidates and legacy pods, in a bubble of
// virtual time.
type stage struct {
	*migrate.Migration
	t       *testing.T
	server  *apitest.Server
	history electiontest.History
	seats   []*seat
	config  migrate.Config

	denied []string // "verb resource" that the user may not
	// wrote holds the tool's writes; before, if set, is called before each write.
	wrote  []string
	before func()
}

// seat is one candidate.
type seat struct {
	*election.Elector
	pod    string
	cancel context.CancelFunc
	done   chan struct{}
}

func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, server: apitest.NewServer()}
		s.config = migrate.Config{
			Core:         apitest.Wire(t, s, corev1.SchemeGroupVersion),
			Coordination: apitest.Wire(t, s, coordinationv1.SchemeGroupVersion),
			Apps:         apitest.Wire(t, s, appsv1.SchemeGroupVersion),
			Namespace:    "ns", Lock: "lock", Selector: "app=op",
		}
		var err error
		if s.Migration, err = migrate.New(s.config); err != nil {
			t.Fatal(err)
		}
		defer s.end()
		f(s)
	})
}

// end stops all candidates, and checks that no two led together.
func (s *stage) end() {
	for _, c := range s.seats {
		c.cancel()
	}
	for _, c := range s.seats {
		<-c.done
	}
	if err := s.history.Check(); err != nil {
		s.t.Error(err)
	}
}

// ServeHTTP serves the tool.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if verb := s.verb(r); slices.Contains(s.denied, verb) {
		code, body := apitest.Forbidden(strings.Fields(verb)[0], r.URL.Path)
		apitest.Reply(w, code, body)
		return
	}
	if r.Method != http.MethodGet {
		s.writes(r)
	}
	s.server.ServeHTTP(w, r)
}

// verb returns "verb resource" of a request that reads or updates.
func (s *stage) verb(r *http.Request) string {
	parts := strings.Split(r.URL.Path, "/")
	at := slices.Index(parts, "namespaces")
	rest := parts[at+2:]
	switch {
	case r.Method == http.MethodPut:
		return "update " + rest[0]
	case len(rest) == 1:
		return "list " + rest[0]
	}
	return "get " + rest[0]
}

// writes notes a write of the tool. The write must leave a spec unchanged.
func (s *stage) writes(r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if s.before != nil {
		s.before()
	}
	s.wrote = append(s.wrote, r.Method+" "+r.URL.Path)
	if r.Method != http.MethodPut {
		return
	}
	var sent apitest.Object
	_ = json.Unmarshal(raw, &sent)
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	now := s.server.Objects[r.URL.Path]
	same := sent["metadata"].(apitest.Object)["resourceVersion"] == now["metadata"].(apitest.Object)["resourceVersion"]
	if same && !reflect.DeepEqual(sent["spec"], now["spec"]) {
		s.t.Errorf("the spec was %v, written is %v", now["spec"], sent["spec"])
	}
}

// runs adds a pod of the operator.
func (s *stage) runs(name string, change ...func(*corev1.Pod)) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "op"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	s.server.Put(podsPath+name, pod)
}

// holds makes the ConfigMap the lock of a legacy pod.
func (s *stage) holds(pod string) {
	s.server.Put(mapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "lock", Namespace: "ns", UID: types.UID("map-of-" + pod),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("uid-" + pod)}},
	}})
}

// vanishes removes a legacy pod, and the lock if it owns that.
func (s *stage) vanishes(pod string) {
	s.server.Delete(podsPath + pod)
	if r := s.report(); strings.HasPrefix(r.ConfigMap.Owner, pod+"/") {
		s.server.Delete(mapPath)
	}
	synctest.Wait()
}

// joins lets a candidate in a new pod of that name campaign until all is quiet.
func (s *stage) joins(name string, change ...func(*shield.Config)) *seat {
	s.t.Helper()
	s.runs(name)
	candidate := locks.Candidate{Identity: name, Zone: "z-" + name}
	config := shield.Config{
		Config: multilock.Config{
			Lease:     lease.Config{Client: apitest.Wire(s.t, s.server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
			Core:      apitest.Wire(s.t, s.server, corev1.SchemeGroupVersion),
			Candidate: candidate,
			Pod:       ownerref.Owner{Name: name, UID: types.UID("uid-" + name)},
			Version:   "v2",
		},
		PodSelector: "app=op",
		Settle:      -1,
	}
	for _, f := range change {
		f(&config)
	}
	lock, err := shield.New(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.elect(lock, candidate)
}

// poses adds a candidate that does nothing: its pod and its presence.
func (s *stage) poses(name, mode string) {
	s.t.Helper()
	s.runs(name)
	_, err := presence.Ensure(s.t.Context(), apitest.Wire(s.t, s.server, coordinationv1.SchemeGroupVersion), "ns", presence.Object{
		Lock: "lock", Pod: presence.Pod{Name: name, UID: types.UID("uid-" + name)}, Identity: name, Zone: "z1", Mode: mode,
	}, nil, func(context.Context) error { return nil })
	if err != nil {
		s.t.Fatal(err)
	}
}

// lies adds a Lease that nobody renews.
func (s *stage) lies(holder, phase string) {
	seconds, now := int32(15), metav1.NowMicro()
	s.server.Put(leasePath, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "lease", Annotations: map[string]string{
			"zonelect.dev/phase": phase, "zonelect.dev/phase-step": "1", "zonelect.dev/holder": holder, "zonelect.dev/zone": "z1", "zonelect.dev/token": "7",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	})
}

// says sets an annotation of the ConfigMap; empty deletes it.
func (s *stage) says(key, value string) {
	s.server.Change(mapPath, func(o apitest.Object) {
		a, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		if a[key] = value; value == "" {
			delete(a, key)
		}
	})
	synctest.Wait()
}

// joinsPlain starts a candidate in mode lease, in a new pod of that name.
func (s *stage) joinsPlain(name string) *seat {
	s.t.Helper()
	s.runs(name)
	coordination, core, t := apitest.Wire(s.t, s.server, coordinationv1.SchemeGroupVersion), apitest.Wire(s.t, s.server, corev1.SchemeGroupVersion), election.Timing{}.WithDefaults()
	keeper := presence.NewKeeper(presence.KeeperConfig{
		Client: coordination, Core: core, Namespace: "ns", Lock: "lock", Candidate: locks.Candidate{Identity: name},
		Pod: presence.Pod{Name: name, UID: types.UID("uid-" + name)}, Mode: presence.Alone, Timing: t,
	})
	lock, err := phase.NewLease(lease.Config{Client: coordination, Namespace: "ns", Name: "lock"}, core, t, keeper)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.elect(lock, locks.Candidate{Identity: name})
}

func (s *stage) elect(lock locks.Lock, candidate locks.Candidate) *seat {
	s.t.Helper()
	c := &seat{pod: candidate.Identity, done: make(chan struct{})}
	var err error
	if c.Elector, err = election.New(election.Config{Lock: lock, Candidate: candidate, TakeoverDelay: func(election.Takeover) time.Duration { return 0 }}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	c.cancel = cancel
	s.seats = append(s.seats, c)
	go func() {
		defer close(c.done)
		_ = c.Run(ctx, s.history.Lead(func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			return ctx.Err()
		}))
	}()
	synctest.Wait()
	return c
}

// leaves ends a candidate and its pod.
func (s *stage) leaves(c *seat) {
	c.cancel()
	<-c.done
	s.server.Delete(podsPath + c.pod)
	synctest.Wait()
}

func (s *stage) report() migrate.Report {
	s.t.Helper()
	r, err := s.Inspect(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// follows waits up to a minute until the candidates have followed.
func (s *stage) follows(want migrate.Phase) migrate.Report {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r, err := s.Await(ctx, nil)
	if err != nil || r.Phase != want {
		s.t.Errorf("phase %q, want %s: %v", r.Phase, want, err)
	}
	return r
}

type mover = func(context.Context, migrate.Options) (migrate.Outcome, error)

// goes takes a step, which must be possible, and waits until it is followed.
func (s *stage) goes(by mover, to migrate.Phase, acknowledge ...string) {
	s.t.Helper()
	out, err := by(s.t.Context(), migrate.Options{Acknowledge: acknowledge})
	if err != nil || out.To != to {
		s.t.Fatalf("went to %q, want %s: %v", out.To, to, err)
	}
	s.follows(to)
}

// refuses checks that a step is refused for these checks, in order, and that the tool wrote
// nothing.
func (s *stage) refuses(by mover, o migrate.Options, names ...string) []migrate.Check {
	s.t.Helper()
	before := s.report()
	_, err := by(s.t.Context(), o)
	var refusal *migrate.RefusedError
	if !errors.As(err, &refusal) {
		s.t.Fatalf("got %v, want a refusal for %v", err, names)
	}
	var failed []string
	for _, c := range refusal.Failed {
		failed = append(failed, c.Name)
		if c.ToDo == "" || c.Detail == "" || !strings.Contains(err.Error(), c.Detail) || !strings.Contains(err.Error(), c.ToDo) {
			s.t.Errorf("the error %q does not say all of %+v", err, c)
		}
	}
	if !slices.Equal(failed, names) {
		s.t.Errorf("refused for %v, want %v: %v", failed, names, err)
	}
	if after := s.report(); after.Phase != before.Phase || after.Step != before.Step {
		s.t.Errorf("the phase was %s (%d) and is %s (%d)", before.Phase, before.Step, after.Phase, after.Step)
	}
	return refusal.Failed
}

// phase writes a phase to the Lease by hand.
func (s *stage) phase(phase, step string) {
	s.server.Change(leasePath, func(o apitest.Object) {
		a := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		a["zonelect.dev/phase"], a["zonelect.dev/phase-step"] = phase, step
	})
	synctest.Wait()
}

// leading returns the pods of the candidates that lead once all goroutines are idle.
func (s *stage) leading() (pods []string) {
	synctest.Wait()
	for _, c := range s.seats {
		if c.Status().State == status.StateLeader {
			pods = append(pods, c.pod)
		}
	}
	return pods
}
