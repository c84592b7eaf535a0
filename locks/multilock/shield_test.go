// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
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
	"github.com/zonelect/zonelect/locks"
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
	*electiontest.Stage
	server *apitest.Server
	sent   []string // verb and path of all requests
	refuse func(verb, path string) bool
}

// seat is one candidate.
type seat struct {
	*electiontest.Seat
	way *way // nil in mode lease
}

// way is a candidate's way to the API server. What is sent on it once it is
// cut is never answered; a watch that runs goes on.
type way struct {
	http.Handler
	cut   atomic.Bool
	muted atomic.Int64 // how often the watches that ran fell silent, for good
}

func (w *way) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if w.cut.Load() {
		<-r.Context().Done()
		return
	}
	w.Handler.ServeHTTP(&voice{rw, w, w.muted.Load()}, r)
}

// voice is an answer that falls silent with the watches of its time.
type voice struct {
	http.ResponseWriter
	way   *way
	since int64
}

func (v *voice) Write(p []byte) (int, error) {
	if v.way.muted.Load() != v.since {
		return len(p), nil
	}
	return v.ResponseWriter.Write(p)
}

func (v *voice) Flush() { v.ResponseWriter.(http.Flusher).Flush() }

func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	electiontest.Scenario(t, func(on *electiontest.Stage) {
		s := &stage{Stage: on, server: apitest.NewServer()}
		s.server.Before = func(verb, path string) (int, apitest.Object) {
			s.sent = append(s.sent, verb+" "+path)
			if s.refuse != nil && s.refuse(verb, path) {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		f(s)
	})
}

// refuseTo refuses requests with that verb and path; none for an empty verb.
func (s *stage) refuseTo(verb, path string) {
	s.refuses(func(v, p string) bool { return v == verb && p == path })
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
	s.T.Helper()
	s.runs(name)
	to := &way{Handler: s.server}
	lock, candidate := s.shield(name, to, change...)
	return s.elect(lock, candidate, to)
}

// shield is the lock of a candidate in that pod.
func (s *stage) shield(name string, to http.Handler, change ...func(*multilock.ShieldConfig)) (*multilock.Shield, locks.Candidate) {
	s.T.Helper()
	candidate := locks.Candidate{Identity: name, Zone: "z-" + name}
	config := multilock.ShieldConfig{
		Lease:     lease.Config{Client: apitest.Wire(s.T, to, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		Core:      apitest.Wire(s.T, to, corev1.SchemeGroupVersion),
		Apps:      apitest.Wire(s.T, to, appsv1.SchemeGroupVersion),
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
		s.T.Fatal(err)
	}
	return lock, candidate
}

func (s *stage) elect(lock locks.Lock, candidate locks.Candidate, to *way) *seat {
	s.T.Helper()
	c := &seat{s.Seat(election.Config{Lock: lock, Candidate: candidate, HeadStart: atOnce}), to}
	c.Start()
	return c
}

// waits says that c does not lead for a while, and why.
func (s *stage) waits(c *seat, why string) {
	s.T.Helper()
	time.Sleep(time.Minute)
	c.Idles()
	if got := c.Status().Waiting; !strings.Contains(got, why) {
		s.T.Errorf("%s waits for %q, want %q", c.Status().Identity, got, why)
	}
}

// configMap is what stands in the legacy lock's place.
func (s *stage) configMap() ownerref.Record {
	s.T.Helper()
	m, err := ownerref.New(ownerref.Config{Core: apitest.Wire(s.T, s.server, corev1.SchemeGroupVersion), Namespace: "ns", Name: "lock"})
	if err != nil {
		s.T.Fatal(err)
	}
	r, err := m.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return r
}

// shielded says that a shield stands, of so many presences.
func (s *stage) shielded(presences int) {
	s.T.Helper()
	r := s.configMap()
	if r.Kind != ownerref.Shield || !r.Shield.Armed || len(r.Shield.Presences) != presences {
		s.T.Errorf("there stands %+v, want an armed shield of %d presences", r, presences)
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
	s.T.Helper()
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	a, _ := s.server.Objects[leasePath]["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	if a["zonelect.dev/phase"] != want {
		s.T.Errorf("the phase on the Lease is %v, want %s", a["zonelect.dev/phase"], want)
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
		if _, took := a.Leads(); took != 0 {
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
		a.Leads()
		b := s.start("b")
		s.forget()
		a.Stop()
		if _, took := b.Leads(); took != 0 {
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
		s.start("a").Leads()
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
		if _, took := a.Leads(); took > time.Second {
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
		a.Leads()
	})
}

func TestALeaderMakesAShieldAnewThatSomebodyDeleted(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.start("b")
		s.server.Delete(mapPath)
		synctest.Wait()
		a.Stays()
		s.shielded(2)
	})
}

func TestM8ATermEndsWhereTheShieldCannotBeMadeAgain(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.refuseTo("create", mapPath[:len(mapPath)-len("/lock")])
		s.server.Delete(mapPath)
		if took, cause := a.Loses(); took != 0 || !errors.Is(cause, multilock.ErrLegacy) {
			t.Errorf("the term ended after %v: %v", took, cause)
		}
	})
}

// slow serves what creates ConfigMaps a second later, if anybody waits for it.
type slow struct{ http.Handler }

func (l slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			return
		}
	}
	l.Handler.ServeHTTP(w, r)
}

// TestM3WhatAHolderSendsEndsWithItsTerm: another may hold the Lease when it lands.
func TestM3WhatAHolderSendsEndsWithItsTerm(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *multilock.ShieldConfig) {
			c.Core = apitest.Wire(s.T, slow{s.server}, corev1.SchemeGroupVersion)
		})
		term, _ := a.Leads()
		a.way.cut.Store(true)
		time.Sleep(term.TrustedFor() - time.Second/2)
		s.server.Delete(mapPath)
		a.Loses()
		time.Sleep(5 * time.Second)
		if r := s.configMap(); r.Kind != ownerref.Absent {
			t.Errorf("after the term there stands %+v", r)
		}
	})
}

func TestATermEndsAtOnceWhenALegacyPodTakesTheLock(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.runs("old")
		s.server.Delete(mapPath)
		s.holds("old")
		took, cause := a.Loses()
		if took != 0 || !errors.Is(cause, multilock.ErrLegacy) || !strings.Contains(cause.Error(), "old") {
			t.Errorf("the term ended after %v: %v", took, cause)
		}
		s.waits(a, "old")
		s.server.Delete(podsPath + "old")
		a.Leads()
	})
}

func TestALeaderPutsItsPresenceBack(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.server.Change(mapPath, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["ownerReferences"] = []any{}
		})
		synctest.Wait()
		a.Stays()
		s.shielded(1)
	})
}

func TestASealOutlivesTheLease(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.phase("sealed", 2)
		a.Stays()
		if r := s.configMap(); r.Kind != ownerref.Sealed {
			t.Fatalf("there stands %+v", r)
		}
		s.server.Delete(leasePath)
		synctest.Wait()
		a.Stays()
		s.phaseIs("sealed")
		a.Stop()
		_ = a.Wait()
		s.server.Delete(leasePath)
		b := s.start("b")
		b.Leads()
		s.phaseIs("sealed")
	})
}

func TestARollbackGivesTheShieldBackToAllPresencesThatKeepOne(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.phase("sealed", 2)
		s.start("b")
		s.startPlain("plain")
		if n := len(s.presences()); n != 3 {
			t.Fatalf("there are %d presences", n)
		}
		s.phase("dual", 3)
		a.Stays()
		s.shielded(2) // that of mode lease would keep it up when the others have gone back
	})
}

// TestACandidateInModeLeaseIsNoLegacyPod: it knows nothing of the ConfigMap, and
// the Lease decides between it and those that do.
func TestACandidateInModeLeaseIsNoLegacyPod(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("plain")
		plain := s.startPlain("plain")
		plain.Leads()
		a := s.start("a")
		a.Idles() // the Lease is held
		plain.Stop()
		if _, took := a.Leads(); took != 0 {
			t.Errorf("a leads %v after the release", took)
		}
		s.shielded(1)
		again := s.startPlain("plain")
		s.waits(again, "dual")
		s.runs("old") // beside them
		a.Stop()
		b := s.start("b")
		b.Leads() // M6: no new list under an armed shield
		s.shielded(2)
	})
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		s.runs("plain")
		plain := s.startPlain("plain")
		s.waits(plain, "old")
		if o := s.presence("plain"); !strings.Contains(o.Waiting, "old") {
			t.Errorf("its presence waits for %q", o.Waiting)
		}
		s.waits(s.start("a"), "old") // a legacy owner counts, whoever has a presence
	})
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		s.startPlain("old") // in the very pod of the legacy leader
		s.waits(s.start("a"), "old")
	})
}

func TestInPhaseLegacyTheLeaderStopsAndTakesTheShieldDown(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		s.phase("legacy", 2)
		_, cause := a.Loses()
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
		case <-a.Leading:
		case <-b.Leading:
		case <-time.After(time.Minute):
			t.Error("nobody leads after the phase is dual again")
		}
	})
}

func TestAShieldThatADeadLeaderLeftInPhaseLegacyIsTakenDownWhenItsLeaseHasRunOut(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		a.way.cut.Store(true)
		s.phase("legacy", 2)
		a.Stop()
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
		b.Leads()
		s.shielded(1)
	})
}

func TestALeaderThatIsCutOffWhenItWouldTakeTheShieldDownStopsAllTheSame(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		a.way.cut.Store(true)
		s.phase("legacy", 2)
		a.Stop()
		start := time.Now()
		if _ = a.Wait(); time.Since(start) > time.Minute {
			t.Errorf("it stopped %v later", time.Since(start))
		}
	})
}

func TestAShieldThatIsLeftOverIsNotedToBeOfTheNewPhaseBeforeAnybodyLeads(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		b := s.start("b")
		a.way.cut.Store(true)
		s.phase("legacy", 2)
		a.Stop()
		s.phase("dual", 3)
		b.Leads()
		if r := s.configMap(); r.Shield.Stage.Step != 3 {
			t.Errorf("a removal that was sent in phase legacy could still land on %+v", r)
		}
	})
}

func TestCleanRemovesTheConfigMapAndLeadershipGoesOn(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.phase("sealed", 2)
		s.phase("clean", 3)
		a.Stays()
		if r := s.configMap(); r.Kind != ownerref.Absent {
			t.Errorf("there stands %+v", r)
		}
	})
}

func TestACandidateWhosePodIsGoneStops(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.server.Delete(podsPath + "a")
		for _, presence := range s.configMap().Shield.Presences {
			s.server.Delete("/apis/coordination.k8s.io/v1/namespaces/ns/leases/" + presence.Name)
		}
		_, cause := a.Loses()
		err := a.Wait()
		if !errors.Is(cause, multilock.ErrPodGone) || !errors.Is(err, multilock.ErrPodGone) {
			t.Errorf("the cause is %v, Run returned %v", cause, err)
		}
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
				a.Leads()
			})
		})
	}
}

func TestOldCollectorsAreWaitedFor(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *multilock.ShieldConfig) { c.Settle = 7 * time.Second })
		if _, took := a.Leads(); took != 7*time.Second {
			t.Errorf("a leads after %v", took)
		}
		b := s.start("b", func(c *multilock.ShieldConfig) { c.Settle = 7 * time.Second })
		time.Sleep(10 * time.Second)
		a.Stop()
		if _, took := b.Leads(); took != 0 {
			t.Errorf("b, long settled, leads %v after the release", took)
		}
	})
}

func TestM7WhoseVersionIsOldOrNotKnownIsWaitedFor(t *testing.T) {
	for version, want := range map[string]time.Duration{
		"": multilock.SettleDefault, "21": multilock.SettleDefault, "34": multilock.SettleDefault, "34+": multilock.SettleDefault, "35": 0, "36+": 0,
	} {
		scenario(t, func(s *stage) {
			log := s.server.Before // nobody asks yet
			s.server.Before = func(verb, path string) (int, apitest.Object) {
				if path == "/version" && version != "" {
					return http.StatusOK, apitest.Object{"major": "1", "minor": version}
				}
				return log(verb, path)
			}
			a := s.start("a", func(c *multilock.ShieldConfig) { c.Settle = 0 })
			if _, took := a.Leads(); took != want {
				t.Errorf("version 1.%s: a leads after %v, want %v", version, took, want)
			}
		})
	}
}

func TestM12ACandidateThatKnowsTheLeaseAloneDoesNotMix(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		plain := s.startPlain("plain")
		s.waits(plain, "dual")
		s.server.Delete(podsPath + "a")
		a.Stop()
		s.waits(plain, "dual")
		s.server.Delete(mapPath) // by the collector
		s.phase("sealed", 2)
		plain.Leads()
		s.phase("dual", 3)
		if _, cause := plain.Loses(); !errors.Is(cause, election.ErrWithdrawn) {
			t.Errorf("the cause is %v", cause)
		}
	})
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		plain := s.startPlain("plain")
		s.waits(plain, "old")
		s.server.Delete(mapPath)
		plain.Leads()
	})
}

func TestM12ACandidateThatKnowsTheLeaseAloneWaitsUntilTheShieldIsSealed(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.refuseTo("update", mapPath)
		s.phase("sealed", 2)
		plain := s.startPlain("plain")
		a.Stop()
		s.waits(plain, "not sealed")
		s.refuseTo("", "")
		b := s.start("b")
		b.Leads()
		if r := s.configMap(); r.Kind != ownerref.Sealed {
			t.Errorf("there stands %+v", r)
		}
		b.Stop()
		plain.Leads()
	})
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		a.Stop()
		_ = a.Wait()
		s.server.Delete(leasePath) // and the phase with it
		plain := s.startPlain("plain")
		s.waits(plain, "not sealed")
		s.server.Delete(mapPath)
		plain.Leads()
	})
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		a.Stop()
		s.phase("sealed", 2)
		s.refuseTo("get", mapPath)
		s.startPlain("plain").Leads()
	})
}

// TestM12NobodyOnTheLeaseAloneTakesItAtAVersionThatForbidsIt: the first read may
// be faster than the guardian's word.
func TestM12NobodyOnTheLeaseAloneTakesItAtAVersionThatForbidsIt(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		a.Stop()
		_ = a.Wait()
		plain := s.plain("plain")
		for step, phase := range []string{"dual", "legacy", "sealed"} {
			s.phase(phase, step+2)
			now, err := plain.Read(s.T.Context())
			if err != nil {
				t.Fatal(err)
			}
			now.Record.Holder, now.Record.LeaseDuration = "plain", 15*time.Second
			if _, err := plain.Write(s.T.Context(), now.Version, now.Record); errors.Is(err, multilock.ErrPhase) == (phase == "sealed") {
				t.Errorf("in phase %s it wrote, with %v", phase, err)
			}
		}
	})
}

func (s *stage) startPlain(name string, change ...func(*multilock.LeaseOnlyConfig)) *seat {
	s.T.Helper()
	return s.elect(s.plain(name, change...), locks.Candidate{Identity: name}, nil)
}

// plain is the lock of a candidate in mode lease.
func (s *stage) plain(name string, change ...func(*multilock.LeaseOnlyConfig)) *multilock.LeaseOnly {
	s.T.Helper()
	config := multilock.LeaseOnlyConfig{
		Lease:     lease.Config{Client: apitest.Wire(s.T, s.server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
		Core:      apitest.Wire(s.T, s.server, corev1.SchemeGroupVersion),
		Candidate: locks.Candidate{Identity: name, Zone: "z-" + name},
		Pod:       ownerref.Owner{Kind: ownerref.Pod, Name: name, UID: types.UID("uid-" + name)},
	}
	for _, f := range change {
		f(&config)
	}
	lock, err := multilock.NewLeaseOnly(config)
	if err != nil {
		s.T.Fatal(err)
	}
	return lock
}

// atOnce is a head start that leaves out the spread of candidates that do not
// know each other.
func atOnce(election.Takeover) time.Duration { return 0 }
