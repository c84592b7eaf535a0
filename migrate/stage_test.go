// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"net/http"
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

// stage is an API server with candidates and legacy pods, in a bubble of virtual time.
type stage struct {
	*electiontest.Stage
	*migrate.Migration
	server *apitest.Server
	seats  []*seat
	config migrate.Config

	denied []string // what the user may not: update or read (any other verb), and a part of a path
	// wrote holds the tool's writes; before, if set, is called before each write, and asks before each request.
	wrote        []string
	before, asks func()
}

// seat is one candidate.
type seat struct {
	*electiontest.Seat
	pod string
}

func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	electiontest.Scenario(t, func(on *electiontest.Stage) {
		s := &stage{Stage: on, server: apitest.NewServer()}
		s.config = migrate.Config{
			Core:         apitest.Wire(s.T, s, corev1.SchemeGroupVersion),
			Coordination: apitest.Wire(s.T, s, coordinationv1.SchemeGroupVersion),
			Apps:         apitest.Wire(s.T, s, appsv1.SchemeGroupVersion),
			Namespace:    "ns", Lock: "lock", Selector: "app=op",
		}
		s.Migration = s.with("app=op")
		f(s)
	})
}

// ServeHTTP serves the tool.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, denied := range s.denied {
		verb, part, _ := strings.Cut(denied, " ")
		if (r.Method == http.MethodPut) == (verb == "update") && strings.Contains(r.URL.Path, part) {
			code, body := apitest.Forbidden(verb, r.URL.Path)
			apitest.Reply(w, code, body)
			return
		}
	}
	if s.asks != nil {
		s.asks()
	}
	if r.Method != http.MethodGet {
		if s.before != nil {
			s.before()
		}
		s.wrote = append(s.wrote, r.Method+" "+r.URL.Path)
	}
	s.server.ServeHTTP(w, r)
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
	if r := s.report(); r.Legacy.Holder == "pod/"+pod {
		s.server.Delete(mapPath)
	}
	synctest.Wait()
}

// joins lets a candidate in a new pod of that name campaign until it has settled (M7) and all is quiet.
func (s *stage) joins(name string, change ...func(*shield.Config)) *seat {
	s.T.Helper()
	s.runs(name)
	config := shield.Config{Config: s.candidate(name), PodSelector: "app=op"}
	for _, f := range change {
		f(&config)
	}
	lock, err := shield.New(config)
	must(s.T, err)
	defer synctest.Wait()
	defer time.Sleep(5 * time.Second) // M7
	return s.elect(lock, config.Candidate)
}

// candidate is what all candidates have, of one in a pod of that name.
func (s *stage) candidate(name string) multilock.Config {
	return multilock.Config{
		Lease:     lease.Config{Client: apitest.Wire(s.T, s.server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		Core:      apitest.Wire(s.T, s.server, corev1.SchemeGroupVersion),
		Candidate: locks.Candidate{Identity: name, Zone: "z-" + name},
		Pod:       ownerref.Owner{Name: name, UID: types.UID("uid-" + name)},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// poses adds a candidate that does nothing: its pod and its presence.
func (s *stage) poses(name, mode string) {
	s.T.Helper()
	s.runs(name)
	_, err := presence.Ensure(s.T.Context(), apitest.Wire(s.T, s.server, coordinationv1.SchemeGroupVersion), "ns", presence.Object{
		Lock: "lock", Pod: presence.Pod{Name: name, UID: types.UID("uid-" + name)}, Identity: name, Zone: "z1", Mode: mode,
	}, nil, func(context.Context) error { return nil })
	must(s.T, err)
}

// lies adds a Lease that nobody renews.
func (s *stage) lies(holder, phase string) {
	seconds, now := int32(15), metav1.NowMicro()
	s.server.Put(leasePath, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "lease", Annotations: map[string]string{
			"zonelect.dev/phase": phase, "zonelect.dev/phase-step": "1",
			"zonelect.dev/holder": holder, "zonelect.dev/zone": "z1", "zonelect.dev/token": "7",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	})
}

// annotates sets annotations of an object by hand: keys and values.
func (s *stage) annotates(path string, pairs ...string) {
	s.server.Change(path, func(o apitest.Object) {
		for i := 0; i < len(pairs); i += 2 {
			o["metadata"].(apitest.Object)["annotations"].(apitest.Object)[pairs[i]] = pairs[i+1]
		}
	})
	synctest.Wait()
}

func (s *stage) elect(lock locks.Lock, candidate locks.Candidate) *seat {
	atOnce := func(election.Takeover) time.Duration { return 0 }
	c := &seat{s.Seat(election.Config{Lock: lock, Candidate: candidate, TakeoverDelay: atOnce}), candidate.Identity}
	s.seats = append(s.seats, c)
	c.Start()
	return c
}

// leaves ends a candidate and its pod.
func (s *stage) leaves(c *seat) {
	c.Stop()
	_ = c.Wait()
	s.server.Delete(podsPath + c.pod)
	synctest.Wait()
}

func (s *stage) report() migrate.Report {
	s.T.Helper()
	r, err := s.Inspect(s.T.Context())
	must(s.T, err)
	return r
}

// follows waits up to a minute until the candidates have followed.
func (s *stage) follows(want migrate.Phase) migrate.Report {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), time.Minute)
	defer cancel()
	r, err := s.Await(ctx, nil)
	if err != nil || r.Phase != want {
		s.T.Errorf("phase %q, want %s: %v", r.Phase, want, err)
	}
	return r
}

// stalls checks that the candidates have not followed after a time, and that this is why.
func (s *stage) stalls(after time.Duration, why string) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), after)
	defer cancel()
	if _, err := s.Await(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), why) {
		s.T.Errorf("got %v, want %s", err, why)
	}
}

type mover = func(context.Context, migrate.Options) (migrate.Outcome, error)

// goes takes a step, which must be possible, and waits until it is followed.
func (s *stage) goes(by mover, to migrate.Phase, acknowledge ...string) {
	s.T.Helper()
	out, err := by(s.T.Context(), migrate.Options{Acknowledge: acknowledge})
	if err != nil || out.To != to {
		s.T.Fatalf("went to %q, want %s: %v", out.To, to, err)
	}
	s.follows(to)
}

// seals and cleans take the steps forward with nothing in the way.
func (s *stage) seals() {
	s.T.Helper()
	s.goes(s.Advance, migrate.Sealed)
}

func (s *stage) cleans() {
	s.T.Helper()
	s.goes(s.Clean, migrate.Clean, "no-way-back")
}

// refuses checks that a step is refused for these checks, in order, and that the phase
// stays.
func (s *stage) refuses(by mover, o migrate.Options, names ...string) []migrate.Check {
	s.T.Helper()
	before := s.report().Step
	_, err := by(s.T.Context(), o)
	var refusal *migrate.RefusedError
	if !errors.As(err, &refusal) {
		s.T.Fatalf("got %v, want a refusal for %v", err, names)
	}
	var failed []string
	for _, c := range refusal.Failed {
		failed = append(failed, c.Name)
		if c.ToDo == "" || c.Detail == "" || !strings.Contains(err.Error(), c.Detail) || !strings.Contains(err.Error(), c.ToDo) {
			s.T.Errorf("the error %q does not say all of %+v", err, c)
		}
	}
	if after := s.report().Step; !slices.Equal(failed, names) || after != before {
		s.T.Errorf("refused for %v, want %v, at step %d, then %d: %v", failed, names, before, after, err)
	}
	return refusal.Failed
}

// phase writes a phase to the Lease by hand.
func (s *stage) phase(phase, step string) {
	s.annotates(leasePath, "zonelect.dev/phase", phase, "zonelect.dev/phase-step", step)
}

// leading returns the pods of the candidates that lead once they have settled (M7).
func (s *stage) leading() (pods []string) {
	time.Sleep(5 * time.Second)
	synctest.Wait()
	for _, c := range s.seats {
		if c.Status().State == status.StateLeader {
			pods = append(pods, c.pod)
		}
	}
	return pods
}
