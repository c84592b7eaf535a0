// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/apitest"
	phases "github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/internal/candidate"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const (
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"
	legacyPath = "/api/v1/namespaces/ns/endpoints/lock"
)

// phaseStage has an API server, candidates and legacy electors, in a bubble of virtual
// time.
type phaseStage struct {
	*electiontest.Stage
	server           *apitest.Server
	step             int
	legacy           *annotation.Lock // a separate connection to the legacy record
	sent             []string         // the paths of requests that change a lock
	refuse, overload func(verb, path string) bool
}

// phaseSeat is one candidate, with a connection to the server that can be cut.
type phaseSeat struct {
	*electiontest.Seat
	way  *cable
	twin *Lock
}

// end stops the candidate and waits until it has stopped.
func (c *phaseSeat) end() {
	c.Stop()
	_ = c.Wait()
}

// cable is a connection to a server. While it is cut, new requests hang, and those under
// way end as with their connection.
type cable struct {
	server http.Handler
	mu     sync.Mutex
	cut    bool
	ends   []context.CancelFunc
}

func (c *cable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c.mu.Lock()
	cut := c.cut
	c.ends = append(c.ends, cancel)
	c.mu.Unlock()
	if cut {
		<-r.Context().Done()
		return
	}
	c.server.ServeHTTP(w, r.WithContext(ctx))
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, end := range c.ends {
		end()
	}
	c.ends = nil
}

func phaseScenario(t *testing.T, f func(s *phaseStage)) {
	t.Helper()
	electiontest.Scenario(t, func(stage *electiontest.Stage) {
		s := &phaseStage{Stage: stage, server: apitest.NewServer(), step: 1}
		s.server.Before = func(verb, path string) (int, apitest.Object) {
			if (path == leasePath || path == legacyPath) && verb == "update" {
				s.sent = append(s.sent, path)
			}
			if s.refuse != nil && s.refuse(verb, path) {
				return apitest.Forbidden(verb, path)
			}
			if s.overload != nil && s.overload(verb, path) {
				return http.StatusServiceUnavailable, apitest.Status(http.StatusServiceUnavailable, "", "overloaded", "", "")
			}
			return 0, nil
		}
		var err error
		if s.legacy, err = annotation.New(annotation.Config{Client: s.core(s.server), Kind: annotation.Endpoints, Namespace: "ns", Name: "lock"}); err != nil {
			s.T.Fatal(err)
		}
		f(s)
	})
}

// refuses sets which requests are forbidden from now on; nil means none.
func (s *phaseStage) refuses(f func(verb, path string) bool) {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	s.refuse = f
}

// overloads is refuses with 503.
func (s *phaseStage) overloads(f func(verb, path string) bool) {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	s.overload = f
}

func (s *phaseStage) core(h http.Handler) rest.Interface {
	return apitest.Wire(s.T, h, corev1.SchemeGroupVersion)
}

func (s *phaseStage) leases(h http.Handler) lease.Config {
	return lease.Config{Client: apitest.Wire(s.T, h, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"}
}

// start starts a candidate in a pod of that name, and waits until all goroutines are
// idle.
func (s *phaseStage) start(name string, change ...func(*Config)) *phaseSeat {
	s.T.Helper()
	s.server.Put("/api/v1/namespaces/ns/pods/"+name, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name)}})
	way := &cable{server: s.server}
	c := Config{
		Config: multilock.Config{
			Lease: s.leases(way), Core: s.core(way),
			Candidate: locks.Candidate{Identity: name}, Pod: ownerref.Owner{Name: name, UID: types.UID("uid-" + name)},
		},
		Kind: annotation.Endpoints,
	}
	for _, f := range change {
		f(&c)
	}
	twin, err := New(c)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { way.set(false) })
	return &phaseSeat{s.elect(twin, name), way, twin}
}

func (s *phaseStage) elect(lock locks.Lock, name string) *electiontest.Seat {
	s.T.Helper()
	c := s.Seat(election.Config{Lock: lock, Candidate: locks.Candidate{Identity: name}, TakeoverDelay: atOnce})
	c.Start()
	return c
}

// phase sets the phase on the Lease, as a migration tool does. It lets a second pass
// first: a leader that mended its record less than a second ago mends it no sooner.
func (s *phaseStage) phase(phase record.Phase) {
	time.Sleep(time.Second)
	synctest.Wait()
	s.step++
	s.server.Change(leasePath, func(o apitest.Object) {
		a := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		a[record.AnnotationPhase], a[record.AnnotationPhaseStep] = string(phase), strconv.Itoa(s.step)
	})
	synctest.Wait()
}

// holders returns the holders of the legacy object and of the Lease.
func (s *phaseStage) holders() string {
	s.T.Helper()
	old, err := s.legacy.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return cmp.Or(old.Record.Holder, "nobody") + ", " + cmp.Or(record.HolderOf(s.onLease().Version), "nobody")
}

func (s *phaseStage) onLease() locks.Snapshot {
	s.T.Helper()
	l, err := lease.New(s.leases(s.server))
	if err != nil {
		s.T.Fatal(err)
	}
	now, err := l.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return now
}

func (s *phaseStage) held(by string) {
	s.T.Helper()
	if got := s.holders(); got != by {
		s.T.Errorf("held by %q, want %q", got, by)
	}
}

// leads checks that c leads within d, and has then led that many terms.
func (s *phaseStage) leads(c *electiontest.Seat, within time.Duration, terms int) {
	s.T.Helper()
	for end := time.Now().Add(within); c.Status().State != status.StateLeader && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
	}
	synctest.Wait()
	if now := c.Status(); now.State != status.StateLeader || len(c.Leading) != terms {
		s.T.Errorf("after %v it is %v in its term %d, want it to lead in term %d; waiting: %q", within, now.State, len(c.Leading), terms, now.Waiting)
	}
}

// waits checks that c does not lead for a while, and says why.
func (s *phaseStage) waits(c *electiontest.Seat, why string) {
	s.T.Helper()
	time.Sleep(2 * twinLease)
	if now := c.Status(); now.State == status.StateLeader || !strings.Contains(now.Waiting, why) {
		s.T.Errorf("it is %v and waits for %q, want %q", now.State, now.Waiting, why)
	}
}

// writes counts the writes of the next ten renew intervals.
func (s *phaseStage) writes() (onLegacy, onLease int) {
	sent := func() []string {
		s.server.Mu.Lock()
		defer s.server.Mu.Unlock()
		all := s.sent
		s.sent = nil
		return all
	}
	sent()
	time.Sleep(10 * twinInterval)
	for _, path := range sent() {
		if path == legacyPath {
			onLegacy++
		} else {
			onLease++
		}
	}
	return onLegacy, onLease
}

func TestLeadershipGoesOnFromDualToCleanAndBack(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a")
		s.leads(a.Seat, 0, 1)
		b := s.start("b")
		if got := s.onLease(); record.StageOf(got.Version) != (record.Stage{Phase: record.PhaseDual, Step: 1}) || record.LegacyOf(got.Version) != (record.Legacy{Resource: "endpoints", Name: "lock", Elected: true}) {
			t.Errorf("the Lease says %+v", got.Version.Opaque)
		}
		for range 2 {
			s.held("a, a")
			s.phase(record.PhaseClean)
			s.held("nobody, a")
			if old, now := s.writes(); old != 0 || now < 8 {
				t.Errorf("in phase clean %d writes of the legacy object and %d of the Lease", old, now)
			}
			s.held("nobody, a")
			s.phase(record.PhaseDual)
			s.held("a, a") // at once
			if old, now := s.writes(); old < 8 || now < 8 {
				t.Errorf("in phase dual %d writes of the legacy object and %d of the Lease", old, now)
			}
		}
		s.leads(a.Seat, 0, 1)
		s.phase(record.PhaseClean)
		a.end()
		s.leads(b.Seat, time.Second, 1)
		s.held("nobody, b")
	})
}

// TestATakeoverFollowsThePhaseThatItFinds, even one that changed in the last moment of
// the dead leader.
func TestATakeoverFollowsThePhaseThatItFinds(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.leads(a.Seat, 0, 1)
		a.way.set(true)
		s.phase(record.PhaseClean)
		s.held("a, a")
		s.leads(b.Seat, twinLease, 1)
		s.held("nobody, b") // the dead leader's record is removed
		c := s.start("c")
		b.way.set(true)
		s.phase(record.PhaseDual)
		s.leads(c.Seat, twinLease, 1)
		s.held("c, c")
	})
}

// TestACandidateThatBelievesInDualTakesNothingInClean: it lands only half a write.
func TestACandidateThatBelievesInDualTakesNothingInClean(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a")
		believes, err := s.start("b").twin.Read(s.T.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.refuses(func(_, path string) bool { return path == legacyPath }) // nobody tidies
		s.phase(record.PhaseClean)
		s.refuses(nil)
		b, err := New(Config{
			Config: multilock.Config{Lease: s.leases(s.server), Core: s.core(s.server)},
			Kind:   annotation.Endpoints,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write(s.T.Context(), believes.Version, ours("b", 1)); err == nil || !strings.Contains(err.Error(), "nothing is renewed") {
			t.Errorf("it wrote, with %v", err)
		}
		s.held("b, a")
		s.leads(a.Seat, 0, 1)
		time.Sleep(time.Minute)
		s.leads(a.Seat, 0, 1)
	})
}

func TestWhatACandidateBelievesToBeCleanIsNotWrittenInDual(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.phase(record.PhaseClean)
		believes, err := b.twin.Read(s.T.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.phase(record.PhaseDual)
		if _, err := b.twin.Write(s.T.Context(), believes.Version, ours("b", 1)); !errors.Is(err, locks.ErrConflict) {
			t.Errorf("it wrote, with %v", err)
		}
		s.held("a, a")
		s.leads(a.Seat, 0, 1)
	})
}

// TestNobodyIsMadeTheHolderInAPhaseThatForbidsIt: the first read may return before the
// guardian reports.
func TestNobodyIsMadeTheHolderInAPhaseThatForbidsIt(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a")
		s.phase(record.PhaseLegacy)
		time.Sleep(time.Second)
		for phase, mode := range map[record.Phase]multilock.Mode{record.PhaseLegacy: multilock.Auto, record.PhaseClean: multilock.Dual} {
			s.phase(phase)
			twin, err := New(Config{
				Config: multilock.Config{Lease: s.leases(s.server), Core: s.core(s.server)},
				Kind:   annotation.Endpoints,
				Mode:   mode,
			})
			if err != nil {
				t.Fatal(err)
			}
			now, err := twin.Read(s.T.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := twin.Write(s.T.Context(), now.Version, ours("b", 1)); !errors.Is(err, phases.ErrPhase) {
				t.Errorf("%s: it wrote, with %v", phase, err)
			}
		}
		a.end()
	})
}

// TestNothingIsTakenOffThatCounts: the phase or the leader may have changed by then.
func TestNothingIsTakenOffThatCounts(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a")
		tidy := func(holder string) {
			if err := a.twin.clearLegacyRecord(s.T.Context(), locks.Term{Holder: holder}); err != nil {
				t.Error(err)
			}
		}
		s.server.Mu.Lock()
		s.sent = nil
		s.server.Mu.Unlock()
		tidy("a")
		s.server.Mu.Lock()
		if len(s.sent) > 0 { // the leader would repair it
			t.Errorf("it writes %q in phase dual", s.sent)
		}
		s.server.Mu.Unlock()
		s.refuses(func(verb, path string) bool { return path == legacyPath && verb == "update" })
		s.phase(record.PhaseClean)
		s.refuses(nil)
		tidy("b")
		s.held("a, a")
		tidy("a")
		s.held("nobody, a")
	})
}

// TestHalfAWriteIsTakenOffAgain: the leader may see that its record is gone from the
// legacy object before it sees that the phase is clean, and write the record again.
func TestHalfAWriteIsTakenOffAgain(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a")
		before, err := a.twin.Read(s.T.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.phase(record.PhaseClean)
		s.held("nobody, a")
		state := *before.Version.Opaque.(*twinState)
		if state.legacy, err = s.legacy.Read(s.T.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.twin.Write(s.T.Context(), locks.Version{Opaque: &state}, before.Record); err == nil {
			t.Error("what phase clean forbids was written")
		}
		synctest.Wait()
		s.held("nobody, a")
	})
}

func TestOnlyACandidatesRecordIsTakenOffAndTheObjectStays(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		object := func(annotations map[string]string) {
			s.server.Put(legacyPath, &corev1.Endpoints{ //nolint:staticcheck // that is what old locks stand on
				ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "theirs", Labels: map[string]string{"theirs": "kept"}, Annotations: annotations},
				Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}}}, //nolint:staticcheck // the same
			})
		}
		object(map[string]string{"theirs": "kept"})
		a := s.start("a")
		s.leads(a.Seat, 0, 1)
		s.held("a, a")
		s.phase(record.PhaseClean)
		s.server.Mu.Lock()
		o := s.server.Objects[legacyPath]
		s.server.Mu.Unlock()
		meta := o["metadata"].(apitest.Object)
		if fmt.Sprint(meta["annotations"]) != "map[theirs:kept]" || fmt.Sprint(meta["labels"]) != "map[theirs:kept]" || len(o["subsets"].([]any)) != 1 {
			t.Errorf("what is left is %v", o)
		}
		s.put(theirs("L", 1))
		s.phase(record.PhaseClean) // once more, so that the leader looks again
		s.held("L, a")             // the record is not a candidate's
		s.leads(a.Seat, 0, 1)
	})
}

// put writes a record onto the legacy object.
func (s *phaseStage) put(r locks.Record) {
	s.T.Helper()
	now, err := s.legacy.Read(s.T.Context())
	if err == nil {
		_, err = s.legacy.Write(s.T.Context(), now.Version, r)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	synctest.Wait()
}

func TestALegacyLockThatIsOutOfReachInCleanIsNoMatter(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.leads(a.Seat, 0, 1)
		s.refuses(func(_, path string) bool { return strings.HasPrefix(path, strings.TrimSuffix(legacyPath, "/lock")) })
		s.phase(record.PhaseClean)
		time.Sleep(time.Minute)
		s.leads(a.Seat, 0, 1)
		a.end()
		s.leads(b.Seat, time.Second, 1)
		c := s.start("c") // knows nothing yet
		b.end()
		s.leads(c.Seat, time.Second, 1)
	})
}

// TestOnTheWayBackALegacyLeaderEndsTheTerm, and the cause says who it is.
func TestOnTheWayBackALegacyLeaderEndsTheTerm(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a")
		s.leads(a.Seat, 0, 1)
		s.phase(record.PhaseClean)
		s.put(theirs("L", 1))
		s.leads(a.Seat, 0, 1)
		s.phase(record.PhaseDual)
		select {
		case err := <-a.Ended:
			if !errors.Is(err, election.ErrLost) || !strings.Contains(err.Error(), "legacy: L") {
				t.Errorf("the term ended with %v", err)
			}
		default:
			t.Error("the term goes on beside the legacy leader")
		}
		s.put(cleared(theirs("L", 2)))
		s.leads(a.Seat, 2*twinLease, 2)
		s.held("a, a")
	})
}

// TestS5AReleaseThatHalfLandedIsFinishedUnlessAnotherMayHaveThatHalf: a legacy elector
// takes the legacy record as soon as it is free. A hand may delete what that elector
// wrote, or empty it.
func TestS5AReleaseThatHalfLandedIsFinishedUnlessAnotherMayHaveThatHalf(t *testing.T) {
	for what, row := range map[string]struct {
		meanwhile func(s *phaseStage)
		held      string
	}{
		"nobody took it":                     {func(*phaseStage) {}, "nobody, nobody"},
		"a legacy elector took it":           {func(s *phaseStage) { s.put(theirs("L", 1)) }, "L, a"},
		"it was deleted":                     {func(s *phaseStage) { s.server.Delete(legacyPath) }, "nobody, a"},
		"a legacy elector's was emptied":     {func(s *phaseStage) { s.take("L"); s.legacyHolder("") }, "nobody, a"},
		"a legacy elector took and released": {func(s *phaseStage) { s.take("L"); s.put(cleared(s.onLegacy())) }, "nobody, nobody"},
	} {
		t.Run(what, func(t *testing.T) {
			phaseScenario(t, func(s *phaseStage) {
				a := s.start("a")
				s.leads(a.Seat, 0, 1)
				time.Sleep(3 * twinInterval / 2) // a renewal has noted the token, and none is under way
				s.overloads(func(verb, path string) bool { return verb == "update" && path == leasePath })
				a.Stop()
				synctest.Wait()
				s.held("nobody, a")
				row.meanwhile(s)
				s.overloads(nil)
				_ = a.Wait()
				s.held(row.held)
			})
		})
	}
}

// onLegacy returns the record of the legacy object.
func (s *phaseStage) onLegacy() locks.Record {
	s.T.Helper()
	now, err := s.legacy.Read(s.T.Context())
	if err != nil {
		s.T.Fatal(err)
	}
	return now.Record
}

// take has a legacy elector take the legacy object, and leave the details of others.
func (s *phaseStage) take(holder string) {
	r := s.onLegacy()
	r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = holder, twinLease, time.Now(), time.Now()
	s.put(r)
}

// legacyHolder changes the holder of the legacy object and nothing else, as a hand does.
func (s *phaseStage) legacyHolder(holder string) {
	r := s.onLegacy()
	r.Holder = holder
	s.put(r)
}

func TestInPhaseLegacyTheLegacyElectorsLeadAndInDualTheyTakeTurns(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.leads(a.Seat, 0, 1)
		s.phase(record.PhaseLegacy)
		if err := <-a.Ended; !errors.Is(err, election.ErrWithdrawn) {
			t.Errorf("the term ended with %v", err)
		}
		synctest.Wait()
		s.held("nobody, nobody")
		for _, c := range []*phaseSeat{a, b, s.start("c")} {
			s.waits(c.Seat, "the phase on record is legacy")
		}
		s.take("L")
		s.phase(record.PhaseDual)
		time.Sleep(twinLease - twinInterval)
		s.held("L, nobody")
		time.Sleep(2 * twinInterval)
		if got := s.holders(); got != "a, a" && got != "b, b" && got != "c, c" {
			t.Errorf("held by %q", got)
		}
	})
}

// TestNobodyWaitsForTheLookUpOfALegacyPod that the server does not answer.
func TestNobodyWaitsForTheLookUpOfALegacyPod(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a := s.start("a", func(c *Config) {
			c.Core = s.core(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/pods/L") {
					<-r.Context().Done()
					return
				}
				s.server.ServeHTTP(w, r)
			}))
		})
		s.leads(a.Seat, 0, 1)
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
			a := s.start("a", func(c *Config) { c.Mode = mode })
			s.leads(a.Seat, 0, 1)
			s.phase(record.PhaseSealed)
			if old, now := s.writes(); old < 8 || now < 8 {
				t.Errorf("%d writes of the legacy object and %d of the Lease", old, now)
			}
			plain, err := phases.NewLease(s.leases(s.server), s.core(s.server), election.Timing{}.WithDefaults(), candidate.NewKeeper(multilock.Config{Lease: s.leases(s.server), Core: s.core(s.server), Timing: election.Timing{}.WithDefaults()}, presence.Alone, false, nil))
			if err != nil {
				t.Fatal(err)
			}
			p := s.elect(plain, "plain")
			a.way.set(true)
			s.waits(p, "the phase on the Lease is sealed")
			s.server.Delete(leasePath) // it remembers the phase that it has read
			s.waits(p, "the phase on the Lease is sealed")
		})
	}
}

func TestInModeDualACandidateDoesNotGoBeyond(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		fixed := func(c *Config) { c.Mode = multilock.Dual }
		d := s.start("d", fixed)
		s.leads(d.Seat, 0, 1)
		a := s.start("a")
		s.phase(record.PhaseClean)
		if err := <-d.Ended; !errors.Is(err, election.ErrWithdrawn) || !strings.Contains(err.Error(), "mode auto") {
			t.Errorf("the term ended with %v", err)
		}
		s.leads(a.Seat, time.Second, 1)
		s.held("nobody, a")
		e := s.start("e", fixed)
		a.end()
		s.waits(d.Seat, "this candidate's mode is dual")
		s.waits(e.Seat, "this candidate's mode is dual")
	})
}

// TestADeletedLeaseUndoesNoStep for those who have seen it.
func TestADeletedLeaseUndoesNoStep(t *testing.T) {
	phaseScenario(t, func(s *phaseStage) {
		a, b := s.start("a"), s.start("b")
		s.phase(record.PhaseClean)
		want := record.StageOf(s.onLease().Version)
		s.server.Delete(leasePath)
		synctest.Wait()
		s.held("nobody, a")
		if got := record.StageOf(s.onLease().Version); got != want {
			t.Errorf("the leader recreated it with %+v, want %+v", got, want)
		}
		a.way.set(true)
		s.server.Delete(leasePath)
		s.leads(b.Seat, twinLease+time.Second, 1)
		s.held("nobody, b")
		if got := record.StageOf(s.onLease().Version); got != want {
			t.Errorf("the next recreated it with %+v, want %+v", got, want)
		}
		b.end()
		a.end()
		s.server.Delete(leasePath)
		c := s.start("c") // has seen no phase: it assumes dual, to be safe
		s.leads(c.Seat, 0, 1)
		s.held("c, c")
	})
}

func TestATwinHoldsTheLawsOfEveryLockInPhaseClean(t *testing.T) {
	servers := map[locks.Lock]*apitest.Server{}
	lockstest.RunSuite(t, lockstest.Suite{
		New: func(t *testing.T) locks.Lock {
			server := apitest.NewServer()
			twin := realTwin(t, server, annotation.Endpoints)
			twin.phase.Note(record.Stage{Phase: record.PhaseClean, Step: 2})
			servers[twin] = server
			return twin
		},
		Delete: func(_ *testing.T, l locks.Lock) {
			servers[l].Delete(leasePath)
		},
	})
}
