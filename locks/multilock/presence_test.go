// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// logs keeps the log messages of a lock.
func logs(config *multilock.Config) func() string {
	var lines []string
	config.Lease.Logger = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	return func() string { synctest.Wait(); return strings.Join(lines, "\n") }
}

// peersOf runs a lock's Attend, and returns a function that lists the peers the lock
// knows.
func peersOf(s *Stage, lock *Plain) func() []string {
	ctx, cancel := context.WithCancel(s.T.Context())
	var attending sync.WaitGroup
	s.T.Cleanup(func() { cancel(); attending.Wait() })
	attending.Go(func() { _ = lock.Capabilities().Guardian.Attend(ctx, func(locks.Permission) {}) })
	var names atomic.Pointer[[]string]
	attending.Go(func() {
		lock.Peers(ctx, func(peers []locks.Peer) {
			now := []string{}
			for _, p := range peers {
				now = append(now, strings.TrimSuffix(p.Identity+" "+p.Unhealthy, " "))
			}
			names.Store(&now)
		})
	})
	return func() []string {
		synctest.Wait()
		if now := names.Load(); now != nil {
			return *now
		}
		return nil
	}
}

func TestThePresenceOfACandidateInModeLeaseSaysWhatItWaitsFor(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.StartPlain("a")
		a.Leads()
		s.Phase("dual", 1)
		a.Loses()
		if o := presenceOf(s, "a"); !strings.Contains(o.Waiting, "dual") {
			t.Errorf("it waits for %q", o.Waiting)
		}
		s.Phase("sealed", 2)
		a.Leads()
		if o := presenceOf(s, "a"); o.Waiting != "" {
			t.Errorf("it leads, and waits for %q", o.Waiting)
		}
	})
}

// TestHealthIsWrittenAtOnceAndOncePerLeaseDurationAtMost, in a pod and without one, however often it changes.
func TestHealthIsWrittenAtOnceAndOncePerLeaseDurationAtMost(t *testing.T) {
	for name, change := range map[string]func(*multilock.Config){"in a pod": func(*multilock.Config) {}, "without a pod": withoutPod} {
		Scenario(t, func(s *Stage) {
			lock := s.Plain("a", change)
			peersOf(s, lock)
			said := func() string { return s.Presences()[0].Unhealthy }
			synctest.Wait()
			s.Forget()
			for i := range 100 {
				lock.SetUnhealthy("no disk")
				if synctest.Wait(); i == 0 && said() != "no disk" {
					t.Errorf("%s: it says %q", name, said())
				}
				time.Sleep(2 * time.Second)
				lock.SetUnhealthy("")
				time.Sleep(time.Second)
			}
			if n := s.Asked("update " + LeasePath + "."); n < 2 || n > 27 {
				t.Errorf("%s: %d writes in five minutes", name, n)
			}
			time.Sleep(timing.DefaultLeaseDuration)
			if said() != "" {
				t.Errorf("%s: once it is well it says %q", name, said())
			}
		})
	}
}

func TestACandidateInModeLeaseLeadsWithoutAPresenceAndSaysWhatIsMissing(t *testing.T) {
	for verb, there := range map[string]int{"create": 0, "get": 0, "list": 1, "watch": 1} {
		t.Run(verb, func(t *testing.T) {
			Scenario(t, func(s *Stage) {
				leaseExists(s)
				s.Refuses(func(v, path string) bool {
					return v == verb && (strings.HasPrefix(path, LeasePath+".") || path == LeasesPath)
				})
				var said func() string
				s.StartPlain("a", func(c *multilock.Config) { said = logs(c) }).Leads()
				time.Sleep(25 * time.Minute)
				if n := strings.Count(said(), "needs verb"); n != 1 || !strings.Contains(said(), `needs verb \"`+verb+`\" on lease`) {
					t.Errorf("%d times it says what is missing:\n%s", n, said())
				}
				s.Forget()
				time.Sleep(20 * time.Minute)
				if n := s.Asked(" " + LeasePath + "."); n > 10 || s.Asked("list") > 3 {
					t.Errorf("%d requests for its presence in 20 minutes, %d lists", n, s.Asked("list"))
				}
				s.Refuses(nil)
				if n := len(s.Presences()); n != there {
					t.Errorf("there are %d presences, want %d", n, there)
				}
				time.Sleep(20 * time.Minute)
				if n := len(s.Presences()); n != 1 {
					t.Errorf("once it is permitted there are %d presences", n)
				}
			})
		})
	}
}

// TestACandidateWithoutAPodAnnouncesItselfAsLongAsItRenews: another one ends without a word, and is
// ignored after five minutes and then removed, once.
func TestACandidateWithoutAPodAnnouncesItselfAsLongAsItRenews(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.StartPlain("a").Leads()
		var said func() string
		told := peersOf(s, s.Plain("b", func(c *multilock.Config) { c.Pod, said = ownerref.Owner{Name: "b"}, logs(c) }))
		knows := func(want ...string) {
			s.T.Helper()
			if got := slices.Sorted(slices.Values(told())); !slices.Equal(got, want) {
				s.T.Errorf("it knows %q, want %q", got, want)
			}
		}
		announces(s, "crashed")
		knows("a", "b", "crashed")
		s.Forget()
		time.Sleep(5*time.Minute - time.Second)
		knows("a", "b", "crashed")
		if n := s.Asked("update " + LeasePath + "."); n < 3 || n > 5 {
			s.T.Errorf("%d renewals in five minutes", n)
		}
		time.Sleep(17 * time.Second) // it looks every 12 to 15 s
		knows("a", "b")
		time.Sleep(2 * time.Minute)
		var there []string
		for _, o := range s.Presences() {
			there = append(there, o.Identity)
		}
		if slices.Sort(there); !slices.Equal(there, []string{"a", "b"}) || s.Asked("delete") != 1 {
			s.T.Errorf("there are %q, after %d removals", there, s.Asked("delete"))
		}
		time.Sleep(time.Hour)
		knows("a", "b")
		if n := s.Asked("delete"); n != 1 {
			s.T.Errorf("%d removals\n%s", n, said())
		}
	})
}

// TestWhoRemovesAPresenceRemovesNoneThatWasRenewed: the server refuses to, because it is another
// version by then.
func TestWhoRemovesAPresenceRemovesNoneThatWasRenewed(t *testing.T) {
	Scenario(t, func(s *Stage) {
		told := peersOf(s, s.Plain("a"))
		announces(s, "other")
		told()
		removals := 0
		s.Refuses(func(verb, path string) bool {
			if verb == "delete" {
				removals++
				s.Server.Objects[path]["metadata"].(apitest.Object)["resourceVersion"] = fmt.Sprint(1000 + removals) // renewed right before
			}
			return false
		})
		time.Sleep(7 * time.Minute)
		if n := len(s.Presences()); removals == 0 || n != 2 {
			s.T.Errorf("%d removals, %d presences", removals, n)
		}
	})
}

// TestACandidateWithoutAPodLeavesInGoodOrder, whatever others wrote on its presence. That of a pod stays.
func TestACandidateWithoutAPodLeavesInGoodOrder(t *testing.T) {
	for _, permitted := range []bool{true, false} {
		Scenario(t, func(s *Stage) {
			var said func() string
			c := s.StartPlain("a", func(c *multilock.Config) { c.Pod, said = ownerref.Owner{}, logs(c) })
			c.Leads()
			inPod := s.StartPlain("in-pod")
			if n := len(s.Presences()); n != 2 {
				s.T.Fatalf("there are %d presences", n)
			}
			for _, o := range s.Presences() {
				s.Server.Change(LeasesPath+"/"+o.Name, func(lease apitest.Object) {
					lease["metadata"].(apitest.Object)["labels"].(apitest.Object)["theirs"] = "kept"
				})
			}
			synctest.Wait()
			s.Refuses(func(verb, path string) bool { return verb == "delete" && !permitted })
			for _, c := range []*Seat{c, inPod} {
				c.Stop()
				if err := c.Wait(); err != nil {
					s.T.Error(err)
				}
			}
			left, want, wrong := len(s.Presences()), 1, strings.Contains(said(), "may not delete")
			if !permitted {
				want, wrong = 2, !strings.Contains(said(), "may not delete Leases")
			}
			if left != want || wrong {
				s.T.Errorf("removals permitted: %v: %d presences are left:\n%s", permitted, left, said())
			}
		})
	}
}

// presenceOf returns the presence of a pod, which must have one.
func presenceOf(s *Stage, pod string) presence.Object {
	s.T.Helper()
	all := s.Presences()
	i := slices.IndexFunc(all, func(o presence.Object) bool { return o.Pod.Name == pod })
	if i < 0 {
		s.T.Fatalf("pod %s has no presence among %+v", pod, all)
	}
	return all[i]
}

// leaseExists has the Lease exist, so that a create request is for a presence.
func leaseExists(s *Stage) {
	s.Server.Put(LeasePath, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "u"}})
}

// announces has another candidate without a pod announce itself.
func announces(s *Stage, identity string) {
	s.T.Helper()
	o := presence.Object{Lock: "lock", Identity: identity, Mode: presence.Alone, Renewed: 1}
	_, err := presence.Ensure(s.T.Context(), s.Config("", s.Server).Lease.Client, "ns", o, nil, nil)
	s.must(err)
}

// withoutPod makes a candidate one that no pod is known of.
func withoutPod(c *multilock.Config) { c.Pod = ownerref.Owner{} }

func TestAPresenceInModeLeaseGoesWithItsPodAndTheCandidateGoesOn(t *testing.T) {
	for _, may := range []bool{true, false} { // whether it may read its pod
		Scenario(t, func(s *Stage) {
			s.Refuses(func(verb, path string) bool { return !may && verb == "get" && path == PodsPath+"a" })
			a := s.StartPlain("a")
			a.Leads()
			s.Server.Delete(PodsPath + "a")
			s.Forget()
			if o := s.Presences()[0]; o.Pod.Name != "" { // else it has no owner, and the garbage collector leaves it
				s.Server.Delete(LeasesPath + "/" + o.Name)
			}
			time.Sleep(20 * time.Minute)
			a.Stays()
			if n := made(s); n > 1 {
				t.Errorf("its presence was made %d times", n)
			}
		})
	}
}

func TestAnIdleCandidateInModeLeaseHasThreeWatchesAndNothingElse(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.StartPlain("a").Leads()
		time.Sleep(time.Second)
		before := presenceOf(s, "a")
		s.Forget()
		const span = 5 * time.Minute
		for range 6 {
			time.Sleep(span)
			renewals, watches, all := s.Asked("update "+LeasePath), s.Asked("watch"), s.Asked("")
			if watches > 3 || all != renewals+watches {
				t.Errorf("%d requests in %v, of which %d renewals and %d for watches", all, span, renewals, watches)
			}
			s.Forget()
		}
		if after := presenceOf(s, "a"); after != before {
			t.Errorf("its presence was %+v, and is %+v", before, after)
		}
	})
}

// made is how many presences were asked for since the last Forget.
func made(s *Stage) int { return s.Asked("create " + LeasesPath) }

// TestAPodOwnsNothingUnlessTheServerKnowsIt: the garbage collector would delete the presence at
// once.
func TestAPodOwnsNothingUnlessTheServerKnowsIt(t *testing.T) {
	for what, do := range map[string]func(s *Stage){
		"another UID": func(s *Stage) { s.Runs("b") },
		"no pod":      func(s *Stage) { s.Server.Delete(PodsPath + "a") },
		`needs verb \"get\" on pods`: func(s *Stage) {
			s.Refuses(func(verb, path string) bool { return verb == "get" && strings.HasPrefix(path, PodsPath) })
		},
	} {
		t.Run(what, func(t *testing.T) {
			Scenario(t, func(s *Stage) {
				leaseExists(s)
				var said func() string
				lock := s.Plain("a", func(c *multilock.Config) {
					said = logs(c)
					if what == "another UID" {
						c.Pod.Name = "b"
					}
				})
				do(s)
				a := s.Elect(lock, "a", nil)
				a.Leads()
				time.Sleep(25 * time.Minute)
				a.Stays()
				if all := s.Presences(); made(s) != 1 || len(all) != 1 || all[0].Pod != (presence.Pod{}) {
					t.Errorf("%d presences made of a pod that the server does not know: %+v", made(s), all)
				}
				cause := what
				if what != `needs verb \"get\" on pods` {
					cause = "this pod is gone"
				}
				if n := strings.Count(said(), cause); n != 1 {
					t.Errorf("%d times it says why no pod owns its presence:\n%s", n, said())
				}
			})
		})
	}
}

// TestM1AShieldsCandidateIsInAPodThatTheServerKnows, or ends.
func TestM1AShieldsCandidateIsInAPodThatTheServerKnows(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Start("a", func(c *shield.Config) { c.Pod.UID = "another" })
		if err := a.Wait(); !errors.Is(err, multilock.ErrPodGone) {
			t.Errorf("it ended with %v", err)
		}
		if n := made(s); n > 0 {
			t.Errorf("%d presences of a pod that the server does not know", n)
		}
	})
}

// TestAPresenceThatIsDeletedAgainAndAgainIsMadeAnewLessAndLess: the first time at once.
func TestAPresenceThatIsDeletedAgainAndAgainIsMadeAnewLessAndLess(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.StartPlain("a")
		a.Leads()
		time.Sleep(time.Second)
		s.Forget()
		s.Server.Delete(LeasesPath + "/" + presenceOf(s, "a").Name)
		synctest.Wait()
		if n := made(s); n != 1 {
			t.Errorf("right after the first deletion it was recreated %d times", n)
		}
		for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(100 * time.Millisecond) {
			for _, o := range s.Presences() {
				s.Server.Delete(LeasesPath + "/" + o.Name)
			}
		}
		if n := made(s); n > 15 {
			t.Errorf("in ten minutes it was recreated %d times", n)
		}
		a.Stays()
	})
}

// TestACandidateThatIsToEndComesLast: one whose pod is to be deleted, and one in a pod whose candidacy has ended,
// say so, and the leader hands over to another.
func TestACandidateThatIsToEndComesLast(t *testing.T) {
	Scenario(t, func(s *Stage) {
		plain := func(name string) *Seat {
			lock := s.Plain(name)
			c := &Seat{Seat: s.Seat(election.Config{
				Lock: lock, Candidate: locks.Candidate{Identity: name}, TakeoverDelay: AtOnce, WatchPeers: lock.Peers,
			})}
			c.Start()
			return c
		}
		a := plain("a")
		a.Leads()
		ended, deleted, last := plain("b"), plain("c"), plain("d")
		ended.Stop()
		s.Server.Change(PodsPath+"c", func(pod apitest.Object) {
			pod["metadata"].(apitest.Object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		})
		for pod, want := range map[string]string{"b": "campaign", "c": "deleted", "d": ""} {
			if got := presenceOf(s, pod).Unhealthy; !strings.Contains(got, want) || (got == "") != (want == "") {
				t.Errorf("the presence of %s says %q", pod, got)
			}
		}
		s.Server.Change(LeasePath, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/handover-request"] = `{"holder":"a"}`
		})
		last.Leads()
		deleted.Idles()
	})
}
