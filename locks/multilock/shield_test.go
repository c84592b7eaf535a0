// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
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
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const (
	mapPath   = "/api/v1/namespaces/ns/configmaps/lock"
	podsPath  = "/api/v1/namespaces/ns/pods/"
	leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"
)

// stage is an API server with candidates and legacy pods, in a bubble of
// virtual time.
type stage struct {
	t       *testing.T
	server  *apitest.Server
	history electiontest.History
	seats   []*seat
	sent    []string // verb and path of all requests
	refuse  func(verb, path string) bool
}

// seat is one candidate.
type seat struct {
	*election.Elector
	pod     string
	way     *way
	cancel  context.CancelFunc
	done    chan error
	leading chan election.Term
	ended   chan error
}

// way is a candidate's way to the API server. What is sent on it once it is
// cut is never answered; a watch that runs goes on.
type way struct {
	http.Handler
	cut atomic.Bool
}

func (w *way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if w.cut.Load() {
		<-r.Context().Done()
		return
	}
	w.Handler.ServeHTTP(rw, r)
}

func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, server: apitest.NewServer()}
		s.server.Before = func(verb, path string) (int, apitest.Object) {
			s.sent = append(s.sent, verb+" "+path)
			if s.refuse != nil && s.refuse(verb, path) {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		f(s)
		for _, c := range s.seats {
			c.cancel()
		}
		for _, c := range s.seats {
			<-c.done
		}
		if err := s.history.Check(); err != nil {
			t.Error(err)
		}
	})
}

// refuseTo refuses requests with that verb and path; none for an empty verb.
func (s *stage) refuseTo(verb, path string) {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	s.refuse = func(v, p string) bool { return v == verb && p == path }
}

// runs adds a pod.
func (s *stage) runs(name string) {
	s.server.Put(podsPath+name, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "op"}},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

// holds makes the ConfigMap the lock of a legacy pod.
func (s *stage) holds(pod string) {
	s.server.Put(mapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "lock", Namespace: "ns", UID: types.UID("map-of-" + pod),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("uid-" + pod)}},
	}})
}

// start lets a candidate in a new pod of that name campaign until all is quiet.
func (s *stage) start(name string, change ...func(*multilock.ShieldConfig)) *seat {
	s.t.Helper()
	s.runs(name)
	to := &way{Handler: s.server}
	candidate := election.Candidate{Identity: name, Zone: "z-" + name}
	config := multilock.ShieldConfig{
		Lease:     lease.Config{Client: apitest.Wire(s.t, to, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		Core:      apitest.Wire(s.t, to, corev1.SchemeGroupVersion),
		Apps:      apitest.Wire(s.t, to, appsv1.SchemeGroupVersion),
		Candidate: candidate,
		Pod:       ownerref.Owner{Kind: ownerref.Pod, Name: name, UID: types.UID("uid-" + name)},
		Selector:  "app=op",
		Settle:    -1,
	}
	for _, f := range change {
		f(&config)
	}
	lock, err := multilock.NewShield(config)
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.elect(lock, candidate)
	c.way = to
	return c
}

func (s *stage) elect(lock election.Lock, candidate election.Candidate) *seat {
	s.t.Helper()
	c := &seat{pod: candidate.Identity, done: make(chan error, 1), leading: make(chan election.Term, 100), ended: make(chan error, 100)}
	var err error
	if c.Elector, err = election.New(election.Config{Lock: lock, Candidate: candidate}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	c.cancel = cancel
	s.seats = append(s.seats, c)
	go func() {
		c.done <- c.Run(ctx, s.history.Lead(func(ctx context.Context, term election.Term) error {
			c.leading <- term
			<-ctx.Done()
			c.ended <- context.Cause(ctx)
			return ctx.Err()
		}))
	}()
	synctest.Wait()
	return c
}

// leads waits for c's next term and returns how long that took.
func (s *stage) leads(c *seat) time.Duration {
	s.t.Helper()
	start := time.Now()
	select {
	case <-c.leading:
		synctest.Wait()
		return time.Since(start)
	case <-time.After(time.Hour):
		s.t.Errorf("%s does not lead within an hour: %+v", c.pod, c.Status())
		return time.Hour
	}
}

// ends waits for the end of c's term and returns its cause.
func (s *stage) ends(c *seat) (time.Duration, error) {
	s.t.Helper()
	start := time.Now()
	select {
	case err := <-c.ended:
		return time.Since(start), err
	case <-time.After(time.Hour):
		s.t.Errorf("the term of %s does not end within an hour", c.pod)
		return time.Hour, nil
	}
}

// waits says that c does not lead for a while, and why.
func (s *stage) waits(c *seat, why string) {
	s.t.Helper()
	time.Sleep(time.Minute)
	select {
	case <-c.leading:
		s.t.Errorf("%s leads", c.pod)
	default:
	}
	if got := c.Status().Waiting; !strings.Contains(got, why) {
		s.t.Errorf("%s waits for %q, want %q", c.pod, got, why)
	}
}

func (s *stage) stays(c *seat) {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-c.ended:
		s.t.Errorf("the term of %s has ended: %v", c.pod, err)
	default:
	}
}

// configMap is what stands in the legacy lock's place.
func (s *stage) configMap() ownerref.Record {
	s.t.Helper()
	m, err := ownerref.New(ownerref.Config{Core: apitest.Wire(s.t, s.server, corev1.SchemeGroupVersion), Namespace: "ns", Name: "lock"})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := m.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// shielded says that a shield stands, of so many presences.
func (s *stage) shielded(presences int) {
	s.t.Helper()
	r := s.configMap()
	if r.Kind != ownerref.Shield || !r.Shield.Armed || len(r.Shield.Presences) != presences {
		s.t.Errorf("there stands %+v, want an armed shield of %d presences", r, presences)
	}
}

// phase writes a phase to the Lease, as a migration tool does.
func (s *stage) phase(phase string, step int) {
	s.server.Change(leasePath, func(o apitest.Object) {
		a := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		a["zonelect.dev/phase"], a["zonelect.dev/phase-step"] = phase, strconv.Itoa(step)
	})
	synctest.Wait()
}

// holder is who holds the Lease.
func (s *stage) holder() string {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	holder, _ := s.server.Objects[leasePath]["spec"].(apitest.Object)["holderIdentity"].(string)
	return holder
}

func (s *stage) phaseIs(want string) {
	s.t.Helper()
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	a, _ := s.server.Objects[leasePath]["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	if a["zonelect.dev/phase"] != want {
		s.t.Errorf("the phase on the Lease is %v, want %s", a["zonelect.dev/phase"], want)
	}
}

// asked counts the requests since the last call whose verb and path have that
// in them.
func (s *stage) asked(what string) int {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	n := 0
	for _, request := range s.sent {
		if strings.Contains(request, what) {
			n++
		}
	}
	return n
}

func (s *stage) forget() {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	s.sent = nil
}

func TestWithoutLegacyPodsACandidateLeadsAtOnceUnderAnArmedShield(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		if took := s.leads(a); took != 0 {
			t.Errorf("a leads after %v", took)
		}
		s.start("b")
		s.start("c")
		s.shielded(3)
		s.phaseIs("dual")
	})
}

func TestAFailoverAmongCandidatesWritesTheLeaseAlone(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		s.forget()
		a.cancel()
		if took := s.leads(b); took != 0 {
			t.Errorf("b leads %v after the release", took)
		}
		for _, verb := range []string{"create", "update", "delete"} {
			if n := s.asked(verb + " " + mapPath[:len(mapPath)-len("/lock")]); n != 0 {
				t.Errorf("%d times %s of the ConfigMap", n, verb)
			}
		}
	})
}

func TestAnIdleCandidateOfAMigrationAsksForNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		s.leads(s.start("a"))
		s.start("b")
		time.Sleep(time.Second)
		s.forget()
		time.Sleep(4 * time.Minute)
		if writes, all := s.asked("update "+leasePath), s.asked(""); writes < 119 || all-writes > 8 {
			t.Errorf("%d renewals and %d other requests in four minutes: %v", writes, all-writes, s.sent)
		}
	})
}

func TestACandidateWaitsForTheLegacyLeaderAndLeadsWhenItsPodIsGone(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		a := s.start("a")
		s.waits(a, "old")
		if r := s.configMap(); r.Kind != ownerref.Legacy {
			t.Errorf("there stands %+v", r)
		}
		s.server.Delete(podsPath + "old")
		if took := s.leads(a); took > time.Second {
			t.Errorf("a leads %v after the legacy pod was gone", took)
		}
		s.shielded(1)
	})
}

func TestACandidateWaitsForLegacyPodsThatDoNotLeadYet(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		a := s.start("a")
		s.waits(a, "old")
		if r := s.configMap(); r.Kind != ownerref.Absent {
			t.Errorf("there stands %+v: a legacy pod could lead, and nothing may keep it from that", r)
		}
		s.server.Delete(podsPath + "old")
		s.leads(a)
	})
}

func TestALeaderMakesAShieldAnewThatSomebodyDeleted(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.start("b")
		s.server.Delete(mapPath)
		synctest.Wait()
		s.stays(a)
		s.shielded(2)
	})
}

func TestATermEndsAtOnceWhenALegacyPodTakesTheLock(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.runs("old")
		s.server.Delete(mapPath)
		s.holds("old")
		took, cause := s.ends(a)
		if took != 0 || !errors.Is(cause, multilock.ErrLegacy) || !strings.Contains(cause.Error(), "old") {
			t.Errorf("the term ended after %v: %v", took, cause)
		}
		s.waits(a, "old")
		s.server.Delete(podsPath + "old")
		s.leads(a)
	})
}

func TestALeaderPutsItsPresenceBack(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.server.Change(mapPath, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["ownerReferences"] = []any{}
		})
		synctest.Wait()
		s.stays(a)
		s.shielded(1)
	})
}

func TestASealOutlivesTheLease(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.phase("sealed", 2)
		s.stays(a)
		if r := s.configMap(); r.Kind != ownerref.Sealed {
			t.Fatalf("there stands %+v", r)
		}
		s.server.Delete(leasePath)
		synctest.Wait()
		s.stays(a)
		s.phaseIs("sealed")
		a.cancel()
		<-a.done
		a.done <- nil
		s.server.Delete(leasePath)
		b := s.start("b")
		s.leads(b)
		s.phaseIs("sealed")
	})
}

func TestARollbackGivesTheShieldBackToAllPresences(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.phase("sealed", 2)
		s.start("b")
		s.phase("dual", 3)
		s.stays(a)
		s.shielded(2)
	})
}

func TestInPhaseLegacyTheLeaderStopsAndTakesTheShieldDown(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		s.phase("legacy", 2)
		_, cause := s.ends(a)
		if !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the cause is %v", cause)
		}
		s.waits(a, "legacy")
		s.waits(b, "legacy")
		if r := s.configMap(); r.Kind != ownerref.Absent {
			t.Errorf("there stands %+v", r)
		}
		s.phase("dual", 3)
		select {
		case <-a.leading:
		case <-b.leading:
		case <-time.After(time.Minute):
			t.Error("nobody leads after the phase is dual again")
		}
	})
}

func TestAShieldThatADeadLeaderLeftInPhaseLegacyIsTakenDownWhenItsLeaseHasRunOut(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		a.way.cut.Store(true)
		s.phase("legacy", 2)
		a.cancel()
		time.Sleep(14 * time.Second)
		s.shielded(2) // a may lead still, as far as b can know
		s.waits(b, "legacy")
		if r := s.configMap(); r.Kind != ownerref.Absent {
			t.Errorf("there stands %+v", r)
		}
		if got := s.holder(); got != "" {
			t.Errorf("%s holds the Lease", got)
		}
		s.phase("dual", 3)
		s.leads(b)
		s.shielded(1)
	})
}

func TestALeaderThatIsCutOffWhenItWouldTakeTheShieldDownStopsAllTheSame(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		a.way.cut.Store(true)
		s.phase("legacy", 2)
		a.cancel()
		select {
		case err := <-a.done:
			a.done <- err
		case <-time.After(time.Minute):
			t.Error("it has not stopped a minute later")
			a.way.cut.Store(false)
		}
	})
}

func TestAShieldThatIsLeftOverIsNotedToBeOfTheNewPhaseBeforeAnybodyLeads(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		b := s.start("b")
		a.way.cut.Store(true)
		s.phase("legacy", 2)
		a.cancel()
		s.phase("dual", 3)
		s.leads(b)
		if r := s.configMap(); r.Shield.Stage.Step != 3 {
			t.Errorf("a removal that was sent in phase legacy could still land on %+v", r)
		}
	})
}

func TestCleanRemovesTheConfigMapAndLeadershipGoesOn(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.phase("sealed", 2)
		s.phase("clean", 3)
		s.stays(a)
		if r := s.configMap(); r.Kind != ownerref.Absent {
			t.Errorf("there stands %+v", r)
		}
	})
}

func TestACandidateWhosePodIsGoneStops(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.server.Delete(podsPath + "a")
		for _, presence := range s.configMap().Shield.Presences {
			s.server.Delete("/apis/coordination.k8s.io/v1/namespaces/ns/leases/" + presence.Name)
		}
		_, cause := s.ends(a)
		err := <-a.done
		if !errors.Is(cause, multilock.ErrPodGone) || !errors.Is(err, multilock.ErrPodGone) {
			t.Errorf("the cause is %v, Run returned %v", cause, err)
		}
		a.done <- nil
	})
}

func TestAMissingPermissionIsNamedAndTheCandidateRecovers(t *testing.T) {
	for what, fragment := range map[string][]string{
		"list pods":        {"list", "pods"},
		"create configmap": {"create", "configmaps"},
		"create presence":  {"create", "leases"},
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.refuse = func(verb, path string) bool {
					return verb == fragment[0] && strings.Contains(path, "/"+fragment[1])
				}
				a := s.start("a")
				time.Sleep(time.Minute)
				got := a.Status().Waiting
				if problem := a.Status().Problem; problem != nil {
					got += problem.Error()
				}
				for _, word := range fragment {
					if !strings.Contains(got, word) {
						t.Errorf("it says %q, without %q", got, word)
					}
				}
				s.server.Mu.Lock()
				s.refuse = nil
				s.server.Mu.Unlock()
				s.leads(a)
			})
		})
	}
}

func TestOldCollectorsAreWaitedFor(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *multilock.ShieldConfig) { c.Settle = 7 * time.Second })
		if took := s.leads(a); took != 7*time.Second {
			t.Errorf("a leads after %v", took)
		}
		b := s.start("b", func(c *multilock.ShieldConfig) { c.Settle = 7 * time.Second })
		time.Sleep(10 * time.Second)
		a.cancel()
		if took := s.leads(b); took != 0 {
			t.Errorf("b, long settled, leads %v after the release", took)
		}
	})
}

func TestM12ACandidateThatKnowsTheLeaseAloneDoesNotMix(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		plain := s.startPlain("plain")
		s.waits(plain, "dual")
		s.server.Delete(podsPath + "a")
		a.cancel()
		s.waits(plain, "dual")
		s.server.Delete(mapPath) // by the collector
		s.phase("sealed", 2)
		s.leads(plain)
		s.phase("dual", 3)
		if _, cause := s.ends(plain); !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the cause is %v", cause)
		}
	})
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		plain := s.startPlain("plain")
		s.waits(plain, "old")
		s.server.Delete(mapPath)
		s.leads(plain)
	})
}

func TestM12ACandidateThatKnowsTheLeaseAloneWaitsUntilTheShieldIsSealed(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		s.refuseTo("update", mapPath)
		s.phase("sealed", 2)
		plain := s.startPlain("plain")
		a.cancel()
		s.waits(plain, "not sealed")
		s.refuseTo("", "")
		b := s.start("b")
		s.leads(b)
		if r := s.configMap(); r.Kind != ownerref.Sealed {
			t.Errorf("there stands %+v", r)
		}
		b.cancel()
		s.leads(plain)
	})
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		a.cancel()
		<-a.done
		a.done <- nil
		s.server.Delete(leasePath) // and the phase with it
		plain := s.startPlain("plain")
		s.waits(plain, "not sealed")
		s.server.Delete(mapPath)
		s.leads(plain)
	})
	scenario(t, func(s *stage) {
		a := s.start("a")
		s.leads(a)
		a.cancel()
		s.phase("sealed", 2)
		s.refuseTo("get", mapPath)
		s.leads(s.startPlain("plain"))
	})
}

func (s *stage) startPlain(name string) *seat {
	s.t.Helper()
	lock, err := multilock.NewLeaseOnly(
		lease.Config{Client: apitest.Wire(s.t, s.server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		apitest.Wire(s.t, s.server, corev1.SchemeGroupVersion))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.elect(lock, election.Candidate{Identity: name})
}
