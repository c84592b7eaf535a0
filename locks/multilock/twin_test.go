// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	phases "github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/twin"
)

const legacyPath = "/api/v1/namespaces/ns/endpoints/lock"

// phaseStage has candidates and legacy electors, in a bubble of virtual time.
type phaseStage struct {
	*Stage
	step   int
	legacy *annotation.Lock // a separate connection to the legacy record
}

// phaseSeat is one candidate.
type phaseSeat struct {
	*Seat
	twin *twin.Lock
}

// die cuts the candidate's connection.
func (c *phaseSeat) die() {
	c.Way.Cut.Store(true)
	c.Way.Muted.Add(1)
}

func phaseScenario(t *testing.T, f func(s *phaseStage)) {
	t.Helper()
	Scenario(t, func(stage *Stage) {
		config := annotation.Config{Client: stage.Config("", stage.Server).Core, Kind: annotation.Endpoints, Namespace: "ns", Name: "lock"}
		legacy, err := annotation.New(config)
		stage.must(err)
		f(&phaseStage{Stage: stage, step: 1, legacy: legacy})
	})
}

// lock returns the lock of a candidate in a pod of that name.
func (s *phaseStage) lock(name string, to http.Handler, change ...func(*twin.Config)) *twin.Lock {
	s.T.Helper()
	c := twin.Config{Config: s.Config(name, to), Kind: annotation.Endpoints}
	for _, f := range change {
		f(&c)
	}
	lock, err := twin.New(c)
	s.must(err)
	return lock
}

func inMode(mode multilock.Mode) func(*twin.Config) { return func(c *twin.Config) { c.Mode = mode } }

// start starts a candidate, and waits until all goroutines are idle.
func (s *phaseStage) start(name string, change ...func(*twin.Config)) *phaseSeat {
	s.T.Helper()
	s.Runs(name)
	way := &Way{Handler: s.Server}
	lock := s.lock(name, way, change...)
	return &phaseSeat{s.Elect(lock, name, way), lock}
}

// leader starts a candidate that leads at once.
func (s *phaseStage) leader(name string, change ...func(*twin.Config)) *phaseSeat {
	s.T.Helper()
	c := s.start(name, change...)
	s.leads(c, 0)
	return c
}

// phase sets the phase on the Lease, as a migration tool does. It lets a second pass
// first: a leader that mended its record less than a second ago mends it no sooner.
func (s *phaseStage) phase(phase record.Phase) {
	time.Sleep(time.Second)
	synctest.Wait()
	s.step++
	s.Phase(string(phase), s.step)
}

func (s *phaseStage) held(by string) {
	s.T.Helper()
	holders := cmp.Or(s.onLegacy().Holder, "nobody") + ", " + cmp.Or(record.HolderOf(s.OnLease().Version), "nobody")
	if holders != by {
		s.T.Errorf("held by %q, want %q", holders, by)
	}
}

// leads checks that c leads within d.
func (s *phaseStage) leads(c *phaseSeat, within time.Duration) {
	s.T.Helper()
	if _, took := c.Leads(); took > within {
		s.T.Errorf("%s leads after %v, want %v", c.Status().Identity, took, within)
	}
}

// writes checks that there are as many writes of the legacy object as of the Lease in ten renew intervals,
// or none if the Lease counts alone.
func (s *phaseStage) writes(alone bool) {
	s.T.Helper()
	s.Forget()
	time.Sleep(10 * timing.DefaultRenewInterval)
	legacy, lease := s.Asked("update "+legacyPath), s.Asked("update "+LeasePath)
	if lease < 8 || alone != (legacy == 0) || !alone && legacy < 8 {
		s.T.Errorf("%d writes of the legacy object and %d of the Lease", legacy, lease)
	}
}

// onLegacy returns the record of the legacy object.
func (s *phaseStage) onLegacy() locks.Record {
	s.T.Helper()
	return s.read(s.legacy).Record
}

// put writes a record onto the legacy object.
func (s *phaseStage) put(r locks.Record) {
	s.T.Helper()
	_, err := s.legacy.Write(s.T.Context(), s.read(s.legacy).Version, r)
	s.must(err)
	synctest.Wait()
}

// take has a legacy elector take the legacy object, and leave the details of others.
func (s *phaseStage) take(holder string) {
	r := s.onLegacy()
	r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = holder, timing.DefaultLeaseDuration, time.Now(), time.Now()
	s.put(r)
}

// read returns what a read of a lock shows.
func (s *phaseStage) read(lock locks.Lock) locks.Snapshot {
	s.T.Helper()
	now, err := lock.Read(s.T.Context())
	s.must(err)
	return now
}

// ours is a renewal by a candidate, and theirs one by a legacy elector, which has left in place the details that a candidate
// once wrote.
func ours(holder string, second int) locks.Record { return renewal(holder, holder, second) }

func theirs(holder string, second int) locks.Record { return renewal(holder, "long gone", second) }

func renewal(holder, wrote string, second int) locks.Record {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	return locks.Record{
		Holder: holder, LeaseDuration: timing.DefaultLeaseDuration, AcquireTime: noon, RenewTime: noon.Add(time.Duration(second) * time.Second),
		Details: locks.Details{Holder: wrote, Token: 7},
	}
}

func emptied(r locks.Record, lease time.Duration) locks.Record {
	r.Holder, r.LeaseDuration = "", lease
	return r
}

// onLegacyAlone refuses all requests for the legacy object.
func onLegacyAlone(_, path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(legacyPath, "/lock"))
}

func TestLeadershipGoesOnFromDualToCleanAndBack(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.leader("a"), s.start("b")
		stage, legacy := record.Stage{Phase: record.PhaseDual, Step: 1}, record.Legacy{Resource: "endpoints", Name: "lock", Elected: true}
		if got := s.OnLease().Version; record.StageOf(got) != stage || record.LegacyOf(got) != legacy {
			t.Errorf("the Lease says %+v", got.Opaque)
		}
		for range 2 {
			s.held("a, a")
			s.phase(record.PhaseClean)
			s.held("nobody, a")
			s.writes(true)
			s.held("nobody, a")
			s.phase(record.PhaseDual)
			s.held("a, a") // at once
			s.writes(false)
		}
		a.Stays()
		s.phase(record.PhaseClean)
		a.Ends()
		s.leads(b, time.Second)
		s.held("nobody, b")
	})
}

// TestATakeoverFollowsThePhaseThatItFinds, even one that changed in the last moment of the dead leader.
func TestATakeoverFollowsThePhaseThatItFinds(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.leader("a"), s.start("b")
		a.die()
		s.phase(record.PhaseClean)
		s.held("a, a")
		s.leads(b, timing.DefaultLeaseDuration)
		s.held("nobody, b") // the dead leader's record is removed
		c := s.start("c")
		b.die()
		s.phase(record.PhaseDual)
		s.leads(c, timing.DefaultLeaseDuration)
		s.held("c, c")
	})
}

// TestACandidateThatBelievesInDualTakesNothingInClean: it lands only half a write.
func TestACandidateThatBelievesInDualTakesNothingInClean(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, believes := s.start("a"), s.read(s.start("b").twin)
		s.Refuses(onLegacyAlone) // nobody tidies
		s.phase(record.PhaseClean)
		s.Refuses(nil)
		_, err := s.lock("b", s.Server).Write(s.T.Context(), believes.Version, ours("b", 1))
		if err == nil || !strings.Contains(err.Error(), "nothing is renewed") {
			t.Errorf("it wrote, with %v", err)
		}
		s.held("b, a")
		time.Sleep(time.Minute)
		a.Stays()
	})
}

func TestWhatACandidateBelievesToBeCleanIsNotWrittenInDual(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.phase(record.PhaseClean)
		believes := s.read(b.twin)
		s.phase(record.PhaseDual)
		if _, err := b.twin.Write(s.T.Context(), believes.Version, ours("b", 1)); !errors.Is(err, locks.ErrConflict) {
			t.Errorf("it wrote, with %v", err)
		}
		s.held("a, a")
		a.Stays()
	})
}

// TestNobodyIsMadeTheHolderInAPhaseThatForbidsIt: the first read may return before the guardian reports.
func TestNobodyIsMadeTheHolderInAPhaseThatForbidsIt(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		s.start("a")
		for phase, mode := range map[record.Phase]multilock.Mode{record.PhaseLegacy: multilock.Auto, record.PhaseClean: multilock.Dual} {
			s.phase(phase)
			lock := s.lock("b", s.Server, inMode(mode))
			if _, err := lock.Write(s.T.Context(), s.read(lock).Version, ours("b", 1)); !errors.Is(err, phases.ErrPhase) {
				t.Errorf("%s: it wrote, with %v", phase, err)
			}
		}
	})
}

func TestOnlyACandidatesRecordIsTakenOffAndTheObjectStays(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		theirOwn := map[string]string{"theirs": "kept"}
		s.Server.Put(legacyPath, &corev1.Endpoints{ //nolint:staticcheck // that is what old locks stand on
			ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "theirs", Labels: theirOwn, Annotations: theirOwn},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}}}, //nolint:staticcheck // the same
		})
		a := s.leader("a")
		s.held("a, a")
		s.phase(record.PhaseClean)
		s.Server.Mu.Lock()
		o := s.Server.Objects[legacyPath]
		s.Server.Mu.Unlock()
		meta := o["metadata"].(apitest.Object)
		kept := fmt.Sprint(meta["annotations"], meta["labels"], len(o["subsets"].([]any)))
		if kept != "map[theirs:kept] map[theirs:kept] 1" {
			t.Errorf("what is left is %v", o)
		}
		s.put(theirs("L", 1))
		s.phase(record.PhaseClean) // once more, so that the leader looks again
		s.held("L, a")             // the record is not a candidate's
		a.Stays()
	})
}

func TestALegacyLockThatIsOutOfReachInCleanIsNoMatter(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.leader("a"), s.start("b")
		s.Refuses(onLegacyAlone)
		s.phase(record.PhaseClean)
		time.Sleep(time.Minute)
		a.Stays()
		a.Ends()
		s.leads(b, time.Second)
		c := s.start("c") // knows nothing yet
		b.Ends()
		s.leads(c, time.Second)
	})
}

// TestOnTheWayBackALegacyLeaderEndsTheTerm, and the cause says who it is.
func TestOnTheWayBackALegacyLeaderEndsTheTerm(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.leader("a")
		s.phase(record.PhaseClean)
		s.put(theirs("L", 1))
		a.Stays()
		s.phase(record.PhaseDual)
		if took, err := a.Loses(); took > 0 || !errors.Is(err, election.ErrLost) || !strings.Contains(err.Error(), "legacy: L") {
			t.Errorf("the term ended after %v with %v", took, err)
		}
		s.put(emptied(theirs("L", 2), time.Second))
		s.leads(a, 2*timing.DefaultLeaseDuration)
		s.held("a, a")
	})
}

// TestS5AReleaseThatHalfLandedIsFinishedUnlessAnotherMayHaveThatHalf: a legacy elector takes the legacy record as
// soon as it is free. A hand may delete what that elector wrote, or empty it.
func TestS5AReleaseThatHalfLandedIsFinishedUnlessAnotherMayHaveThatHalf(t *testing.T) {
	for what, row := range map[string]struct {
		meanwhile func(s *phaseStage)
		held      string
	}{
		"nobody took it":           {func(*phaseStage) {}, "nobody, nobody"},
		"a legacy elector took it": {func(s *phaseStage) { s.put(theirs("L", 1)) }, "L, a"},
		"it was deleted":           {func(s *phaseStage) { s.Server.Delete(legacyPath) }, "nobody, a"},
		"a legacy elector's was emptied": {func(s *phaseStage) {
			s.take("L")
			s.put(emptied(s.onLegacy(), timing.DefaultLeaseDuration))
		}, "nobody, a"},
		"a legacy elector took and released": {func(s *phaseStage) { s.take("L"); s.put(emptied(s.onLegacy(), time.Second)) }, "nobody, nobody"},
	} {
		t.Run(what, func(t *testing.T) {
			phaseScenario(t, func(s *phaseStage) {
				a := s.leader("a")
				time.Sleep(3 * timing.DefaultRenewInterval / 2) // a renewal has noted the token, and none is under way
				var recovered atomic.Bool
				s.Server.Mu.Lock()
				before := s.Server.Before
				s.Server.Before = func(verb, path string) (int, apitest.Object) {
					if verb == "update" && path == LeasePath && !recovered.Load() {
						return http.StatusServiceUnavailable, apitest.Status(http.StatusServiceUnavailable, "", "overloaded", "", "")
					}
					return before(verb, path)
				}
				s.Server.Mu.Unlock()
				a.Stop()
				synctest.Wait()
				s.held("nobody, a")
				row.meanwhile(s)
				recovered.Store(true)
				_ = a.Wait()
				s.held(row.held)
			})
		})
	}
}

func TestInPhaseLegacyTheLegacyElectorsLeadAndInDualTheyTakeTurns(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.leader("a"), s.start("b")
		time.Sleep(3 * timing.DefaultRenewInterval / 2) // no renewal is under way
		s.phase(record.PhaseLegacy)
		if _, err := a.Loses(); !errors.Is(err, election.ErrWithdrawn) {
			t.Errorf("the term ended with %v", err)
		}
		time.Sleep(timing.DefaultRenewInterval) // the phase may have come between the two halves of the release
		s.held("nobody, nobody")
		for _, c := range []*phaseSeat{a, b, s.start("c")} {
			s.Waits(c.Seat, "the phase on record is legacy")
		}
		s.take("L")
		s.phase(record.PhaseDual)
		time.Sleep(timing.DefaultLeaseDuration - timing.DefaultRenewInterval)
		s.held("L, nobody")
		time.Sleep(2 * timing.DefaultRenewInterval)
		if by := s.onLegacy().Holder; by == "L" || by != record.HolderOf(s.OnLease().Version) {
			t.Errorf("%q has the legacy lock", by)
		}
	})
}

// TestNobodyWaitsForTheLookUpOfALegacyPod that the server does not answer.
func TestNobodyWaitsForTheLookUpOfALegacyPod(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.leader("a", func(c *twin.Config) {
			c.Core = apitest.Wire(s.T, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/pods/L") {
					<-r.Context().Done()
					return
				}
				s.Server.ServeHTTP(w, r)
			}), corev1.SchemeGroupVersion)
		})
		s.put(theirs("L", 1))
		s.phase(record.PhaseLegacy)
		if got := a.Status().Waiting; !strings.Contains(got, "the phase on record is legacy") {
			t.Errorf("it waits for %q", got)
		}
	})
}

// TestSealedByHandIsTakenForDual: a record that ends by time cannot be sealed.
func TestSealedByHandIsTakenForDual(t *testing.T) {
	for _, mode := range []multilock.Mode{multilock.Auto, multilock.Dual} {
		phaseScenario(t, func(s *phaseStage) {
			a := s.leader("a", inMode(mode))
			s.phase(record.PhaseSealed)
			s.writes(false)
			plain := s.StartPlain("plain")
			a.die()
			s.Waits(plain, "the phase on the Lease is sealed")
			s.Server.Delete(LeasePath) // it remembers the phase that it has read
			s.Waits(plain, "the phase on the Lease is sealed")
		})
	}
}

func TestInModeDualACandidateDoesNotGoBeyond(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		d, a := s.leader("d", inMode(multilock.Dual)), s.start("a")
		s.phase(record.PhaseClean)
		if _, err := d.Loses(); !errors.Is(err, election.ErrWithdrawn) || !strings.Contains(err.Error(), "mode auto") {
			t.Errorf("the term ended with %v", err)
		}
		s.leads(a, time.Second)
		s.held("nobody, a")
		e := s.start("e", inMode(multilock.Dual))
		a.Ends()
		s.Waits(d.Seat, "this candidate's mode is dual")
		s.Waits(e.Seat, "this candidate's mode is dual")
	})
}

// TestADeletedLeaseUndoesNoStep for those who have seen it.
func TestADeletedLeaseUndoesNoStep(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.phase(record.PhaseClean)
		is := func(holders string, want record.Stage) {
			s.T.Helper()
			s.held(holders)
			if got := record.StageOf(s.OnLease().Version); got != want {
				t.Errorf("the Lease was recreated with %+v, want %+v", got, want)
			}
		}
		want := record.Stage{Phase: record.PhaseClean, Step: 2}
		s.Server.Delete(LeasePath)
		synctest.Wait()
		is("nobody, a", want)
		a.die()
		s.Server.Delete(LeasePath)
		s.leads(b, timing.DefaultLeaseDuration+time.Second)
		is("nobody, b", want)
		b.Ends()
		a.Ends()
		s.Server.Delete(LeasePath)
		s.leader("c") // has seen no phase: it assumes dual, to be safe
		is("c, c", record.Stage{Phase: record.PhaseDual, Step: 1})
	})
}
