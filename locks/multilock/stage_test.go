// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
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
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// The paths of the objects on the API server.
const (
	MapsPath   = "/api/v1/namespaces/ns/configmaps"
	MapPath    = MapsPath + "/lock"
	PodsPath   = "/api/v1/namespaces/ns/pods/"
	LeasesPath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
	LeasePath  = LeasesPath + "/lock"
)

// Stage is an API server with candidates and legacy pods, in a bubble of
// virtual time.
type Stage struct {
	*electiontest.Stage
	Server *apitest.Server
	Sent   []string // verb and path of all requests
	Refuse func(verb, path string) bool
}

// Seat is one candidate.
type Seat struct {
	*electiontest.Seat
	Way *Way // nil in mode lease
}

// Way is a candidate's connection to the API server. Once it is cut, the server never
// answers a new request on it, but running watches continue.
type Way struct {
	http.Handler
	Cut   atomic.Bool
	Muted atomic.Int64 // how often the running watches fell silent permanently
}

// ServeHTTP passes a request on.
func (w *Way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if w.Cut.Load() {
		<-r.Context().Done()
		return
	}
	w.Handler.ServeHTTP(&voice{rw, w, w.Muted.Load()}, r)
}

// voice is an answer that falls silent when the watches running with it do.
type voice struct {
	http.ResponseWriter
	way   *Way
	since int64
}

func (v *voice) Write(p []byte) (int, error) {
	if v.way.Muted.Load() != v.since {
		return len(p), nil
	}
	return v.ResponseWriter.Write(p)
}

func (v *voice) Flush() { v.ResponseWriter.(http.Flusher).Flush() }

// Ends stops the candidate and waits until it has stopped.
func (c *Seat) Ends() {
	c.Stop()
	_ = c.Wait()
}

// Scenario runs f in a bubble of virtual time.
func Scenario(t *testing.T, f func(s *Stage)) {
	t.Helper()
	electiontest.Scenario(t, func(on *electiontest.Stage) {
		s := &Stage{Stage: on, Server: apitest.NewServer()}
		s.Server.Before = func(verb, path string) (int, apitest.Object) {
			s.Sent = append(s.Sent, verb+" "+path)
			if s.Refuse != nil && s.Refuse(verb, path) {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		f(s)
	})
}

func (s *Stage) must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// RefuseTo refuses requests with that verb whose path has this at its end; none for an empty verb.
func (s *Stage) RefuseTo(verb, end string) {
	s.Refuses(func(v, path string) bool { return v == verb && strings.HasSuffix(path, end) })
}

// Refuses refuses the requests for which f is true from now on; a nil f refuses none.
func (s *Stage) Refuses(f func(verb, path string) bool) {
	s.Server.Mu.Lock()
	defer s.Server.Mu.Unlock()
	s.Refuse = f
}

// Runs adds a pod.
func (s *Stage) Runs(name string) {
	s.Server.Put(PodsPath+name, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "op"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

// Holds adds a legacy pod, and makes the ConfigMap its lock.
func (s *Stage) Holds(pod string) {
	s.Runs(pod)
	s.Server.Delete(MapPath)
	s.Server.Put(MapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "lock", Namespace: "ns", UID: types.UID("map-of-" + pod),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("uid-" + pod)}},
	}})
}

// Start starts a candidate in a new pod of that name, and waits until it has settled (M7) and all
// goroutines are idle.
func (s *Stage) Start(name string, change ...func(*shield.Config)) *Seat {
	s.T.Helper()
	s.Runs(name)
	to := &Way{Handler: s.Server}
	defer synctest.Wait()
	defer time.Sleep(5 * time.Second)
	return s.Elect(s.Shield(name, to, change...), name, to)
}

// Leader starts a candidate that leads.
func (s *Stage) Leader(name string) *Seat {
	s.T.Helper()
	c := s.Start(name)
	c.Leads()
	return c
}

// Config returns the configuration of a candidate in a pod of that name.
func (s *Stage) Config(name string, to http.Handler) multilock.Config {
	return multilock.Config{
		Lease:     lease.Config{Client: apitest.Wire(s.T, to, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		Core:      apitest.Wire(s.T, to, corev1.SchemeGroupVersion),
		Candidate: locks.Candidate{Identity: name, Zone: "z-" + name},
		Pod:       ownerref.Owner{Name: name, UID: types.UID("uid-" + name)},
		Timing:    timing.Timing{}.WithDefaults(),
	}
}

// Shield returns the lock of a candidate in that pod.
func (s *Stage) Shield(name string, to http.Handler, change ...func(*shield.Config)) *shield.Lock {
	s.T.Helper()
	config := shield.Config{Config: s.Config(name, to), Apps: apitest.Wire(s.T, to, appsv1.SchemeGroupVersion), PodSelector: "app=op"}
	for _, f := range change {
		f(&config)
	}
	lock, err := shield.New(config)
	s.must(err)
	return lock
}

// StartPlain starts a candidate in mode lease, and waits until all goroutines are idle.
func (s *Stage) StartPlain(name string, change ...func(*multilock.Config)) *Seat {
	s.T.Helper()
	return s.Elect(s.Plain(name, change...), name, nil)
}

// Plain is a candidate in mode lease: its lock and what keeps its presence.
type Plain struct {
	*lease.Lock
	*presence.Keeper
}

// Plain returns the lock of a candidate in mode lease, in a pod of that name.
func (s *Stage) Plain(name string, change ...func(*multilock.Config)) *Plain {
	s.T.Helper()
	s.Runs(name)
	config := s.Config(name, s.Server)
	for _, f := range change {
		f(&config)
	}
	keeper := candidate.NewKeeper(config, presence.Alone, false, nil)
	lock, err := phase.NewLease(config.Lease, config.Core, config.Timing, keeper)
	s.must(err)
	return &Plain{lock, keeper}
}

// Elect starts a candidate of that name with that lock, and waits until all goroutines are idle.
func (s *Stage) Elect(lock locks.Lock, name string, to *Way) *Seat {
	s.T.Helper()
	candidate := locks.Candidate{Identity: name, Zone: "z-" + name}
	c := &Seat{s.Seat(election.Config{Lock: lock, Candidate: candidate, TakeoverDelay: AtOnce}), to}
	c.Start()
	return c
}

// Waits checks that c does not lead for a minute, and what it waits for.
func (s *Stage) Waits(c *Seat, why string) {
	s.T.Helper()
	time.Sleep(time.Minute)
	c.Idles()
	if got := c.Status().Waiting; !strings.Contains(got, why) {
		s.T.Errorf("%s waits for %q, want %q", c.Status().Identity, got, why)
	}
}

// ConfigMap returns the ConfigMap in the legacy lock's place.
func (s *Stage) ConfigMap() ownerref.Record {
	s.T.Helper()
	m, err := ownerref.New(ownerref.Config{Core: apitest.Wire(s.T, s.Server, corev1.SchemeGroupVersion), Namespace: "ns", Name: "lock"})
	s.must(err)
	r, err := m.Read(s.T.Context())
	s.must(err)
	return r
}

// Stands checks what kind of ConfigMap exists.
func (s *Stage) Stands(want ownerref.Kind) {
	s.T.Helper()
	if r := s.ConfigMap(); r.Kind != want {
		s.T.Errorf("there stands %+v, want one that is %s", r, want)
	}
}

// Phase writes a phase to the Lease, as a migration tool does.
func (s *Stage) Phase(phase string, step int) {
	s.Server.Change(LeasePath, func(o apitest.Object) {
		a := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		a["zonelect.dev/phase"], a["zonelect.dev/phase-step"] = phase, strconv.Itoa(step)
	})
	synctest.Wait()
}

// OnLease returns the Lease as it is read.
func (s *Stage) OnLease() locks.Snapshot {
	s.T.Helper()
	l, err := lease.New(s.Config("", s.Server).Lease)
	s.must(err)
	now, err := l.Read(s.T.Context())
	s.must(err)
	return now
}

// Asked counts the requests since the last Forget whose verb and path contain what.
func (s *Stage) Asked(what string) int {
	s.Server.Mu.Lock()
	defer s.Server.Mu.Unlock()
	n := 0
	for _, request := range s.Sent {
		if strings.Contains(request, what) {
			n++
		}
	}
	return n
}

// Forget forgets the requests so far.
func (s *Stage) Forget() {
	s.Server.Mu.Lock()
	defer s.Server.Mu.Unlock()
	s.Sent = nil
}

// AtOnce is a takeover delay of zero, without the spread of candidates that do not know each
// other.
func AtOnce(election.Takeover) time.Duration { return 0 }

// Presences returns those at the lock.
func (s *Stage) Presences() []presence.Object {
	s.T.Helper()
	synctest.Wait()
	all, err := presence.List(s.T.Context(), apitest.Wire(s.T, s.Server, coordinationv1.SchemeGroupVersion), "ns", "lock")
	s.must(err)
	return all
}
