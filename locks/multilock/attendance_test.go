// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"

// presences are those at the lock.
func (s *stage) presences() []presence.Object {
	s.T.Helper()
	synctest.Wait()
	all, err := presence.List(s.T.Context(), apitest.Wire(s.T, s.server, coordinationv1.SchemeGroupVersion), "ns", "lock")
	if err != nil {
		s.T.Fatal(err)
	}
	return all
}

// presence is that of a pod, which must have one.
func (s *stage) presence(pod string) presence.Object {
	s.T.Helper()
	all := s.presences()
	i := slices.IndexFunc(all, func(o presence.Object) bool { return o.Pod.Name == pod })
	if i < 0 {
		s.T.Fatalf("pod %s has no presence among %+v", pod, all)
	}
	return all[i]
}

// logs keeps what a lock logs.
func logs(config *multilock.LeaseOnlyConfig) func() string {
	var lines []string
	config.Lease.Logger = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	return func() string { synctest.Wait(); return strings.Join(lines, "\n") }
}

func TestACandidateInModeLeaseIsSeenByItsPresence(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.startPlain("a", func(c *multilock.LeaseOnlyConfig) { c.Version = "v2" })
		a.Leads()
		o := s.presence("a")
		want := presence.Object{Lock: "lock", Pod: presence.Pod{Name: "a", UID: "uid-a"}, Identity: "a", Zone: "z-a", Version: "v2", Mode: "lease", Name: o.Name, UID: o.UID, Number: o.Number}
		if o != want {
			t.Errorf("it says %+v, want %+v", o, want)
		}
		s.phase("dual", 1)
		a.Loses()
		if o := s.presence("a"); !strings.Contains(o.Waiting, "dual") {
			t.Errorf("it waits for %q", o.Waiting)
		}
	})
}

func TestAPresenceTellsOfHealthOnChangeOnly(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := s.plain("a")
		s.peersOf(lock)
		s.presence("a")
		s.forget()
		for _, why := range []string{"no disk", "no disk", ""} {
			lock.SetUnhealthy(why)
			if got := s.presence("a").Unhealthy; got != why {
				t.Errorf("it is unhealthy for %q, want %q", got, why)
			}
		}
		if n := s.asked("update " + leasesPath + "/lock."); n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
	})
}

func TestWordsThatKeepChangingAreWrittenOnceAMinute(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := s.plain("a")
		s.peersOf(lock)
		s.presence("a")
		s.forget()
		for i := range 200 {
			lock.SetUnhealthy(fmt.Sprintf("no disk for %d seconds", i))
			time.Sleep(time.Second)
		}
		if n := s.asked("update " + leasesPath + "/lock."); n < 3 || n > 4 {
			t.Errorf("%d writes in 200 seconds", n)
		}
		time.Sleep(time.Minute)
		if got := s.presence("a").Unhealthy; got != "no disk for 199 seconds" {
			t.Errorf("in the end it says %q", got)
		}
		lock.SetUnhealthy("")
		if got := s.presence("a").Unhealthy; got != "" {
			t.Errorf("once it is well it says %q", got)
		}
	})
}

func TestACandidateInModeLeaseLeadsWithoutAPresenceAndSaysWhatIsMissing(t *testing.T) {
	for verb, there := range map[string]int{"create": 0, "get": 0, "list": 1, "watch": 1} {
		t.Run(verb, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.server.Put(leasePath, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "u"}}) // so that create is for the presence
				s.refuses(func(v, path string) bool {
					return v == verb && (strings.HasPrefix(path, leasePath+".") || path == leasesPath)
				})
				var said func() string
				s.startPlain("a", func(c *multilock.LeaseOnlyConfig) { said = logs(c) }).Leads()
				time.Sleep(25 * time.Minute)
				if n := strings.Count(said(), "needs verb"); n != 1 || !strings.Contains(said(), `needs verb \"`+verb+`\" on lease`) {
					t.Errorf("%d times it says what is missing:\n%s", n, said())
				}
				s.forget()
				time.Sleep(20 * time.Minute)
				if n := s.asked(" " + leasePath + "."); n > 10 || s.asked("list") > 3 {
					t.Errorf("%d requests for its presence in 20 minutes, %d lists", n, s.asked("list"))
				}
				s.refuses(nil)
				if n := len(s.presences()); n != there {
					t.Errorf("there are %d presences, want %d", n, there)
				}
				time.Sleep(20 * time.Minute)
				if n := len(s.presences()); n != 1 {
					t.Errorf("once it is permitted there are %d presences", n)
				}
			})
		})
	}
}

func TestACandidateWithoutAPodHasNoPresenceAndKnowsTheOthers(t *testing.T) {
	scenario(t, func(s *stage) {
		s.startPlain("a").Leads()
		lock := s.plain("b", func(c *multilock.LeaseOnlyConfig) { c.Pod = ownerref.Owner{Name: "b"} })
		told := s.peersOf(lock)
		if got := told(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("it knows %q", got)
		}
		if n := len(s.presences()); n != 1 {
			t.Errorf("there are %d presences", n)
		}
	})
}

// peersOf lets a lock attend, and returns who it knows.
func (s *stage) peersOf(lock *multilock.LeaseOnly) func() []string {
	ctx, cancel := context.WithCancel(s.T.Context())
	var attending sync.WaitGroup
	s.T.Cleanup(func() { cancel(); attending.Wait() })
	attending.Go(func() { _ = lock.Attend(ctx, func(locks.Permission) {}) })
	var names []string
	attending.Go(func() {
		lock.Peers(ctx, func(peers []locks.Peer) {
			names = nil
			for _, p := range peers {
				names = append(names, strings.TrimSuffix(p.Identity+" "+p.Unhealthy, " "))
			}
		})
	})
	return func() []string { synctest.Wait(); return names }
}

func TestPeersAreThoseThatAreThere(t *testing.T) {
	scenario(t, func(s *stage) {
		first, second := s.plain("a"), s.plain("b")
		told := s.peersOf(first)
		check := func(when string, want ...string) {
			t.Helper()
			if got := told(); !slices.Equal(got, want) {
				t.Errorf("%s it knows %q, want %q", when, got, want)
			}
		}
		check("alone", "a")
		s.peersOf(second)
		s.start("c") // by the shield
		check("with others", "a", "b", "c")
		second.SetUnhealthy("no disk")
		check("when one is unhealthy", "a", "b no disk", "c")
		s.server.Delete(leasesPath + "/" + s.presence("c").Name)
		time.Sleep(time.Second)
		check("when a hand deleted one", "a", "b no disk", "c")
		s.refuses(func(verb, path string) bool { return verb == "watch" && path == leasesPath })
		time.Sleep(20 * time.Minute)
		check("when it may not watch any more")
		s.refuses(nil)
		time.Sleep(20 * time.Minute)
		check("when it may again", "a", "b no disk", "c")
	})
}

// collects deletes the presences of pods that are gone, as the collector does.
func (s *stage) collects() {
	ctx, cancel := context.WithCancel(s.T.Context())
	var collecting sync.WaitGroup
	s.T.Cleanup(func() { cancel(); collecting.Wait() })
	collecting.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			s.server.Mu.Lock()
			var gone []string
			for path, o := range s.server.Objects {
				refs, _ := o["metadata"].(apitest.Object)["ownerReferences"].([]any)
				for _, ref := range refs {
					if s.server.Objects[podsPath+ref.(apitest.Object)["name"].(string)] == nil {
						gone = append(gone, path)
					}
				}
			}
			s.server.Mu.Unlock()
			for _, path := range gone {
				s.server.Delete(path)
			}
		}
	})
}

func TestAPresenceInModeLeaseGoesWithItsPodAndTheCandidateGoesOn(t *testing.T) {
	for may, most := range map[bool]int{true: 0, false: 3} { // it may read its pod, or not
		scenario(t, func(s *stage) {
			s.refuses(func(verb, path string) bool { return !may && verb == "get" && path == podsPath+"a" })
			s.runs("a")
			s.collects()
			a := s.startPlain("a")
			a.Leads()
			s.server.Delete(podsPath + "a")
			time.Sleep(10 * time.Minute)
			s.forget()
			time.Sleep(10 * time.Minute)
			a.Stays()
			if n := s.asked("create " + leasesPath); n > most {
				t.Errorf("its presence was made %d times in ten minutes", n)
			}
		})
	}
}

func TestAnIdleCandidateInModeLeaseHasTwoWatchesAndNothingElse(t *testing.T) {
	scenario(t, func(s *stage) {
		s.startPlain("a").Leads()
		time.Sleep(time.Second)
		before := s.presence("a")
		s.forget()
		const span = 5 * time.Minute
		for range 6 {
			time.Sleep(span)
			renewals, watches, all := s.asked("update "+leasePath), s.asked("watch"), s.asked("")
			if watches > 2 || all != renewals+watches {
				t.Errorf("%d requests in %v, of which %d renewals and %d for watches", all, span, renewals, watches)
			}
			s.forget()
		}
		if after := s.presence("a"); after != before {
			t.Errorf("its presence was %+v, and is %+v", before, after)
		}
	})
}

// TestHealthThatKeepsChangingIsWrittenAFewTimes: and the first problem at once.
func TestHealthThatKeepsChangingIsWrittenAFewTimes(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := s.plain("a")
		s.peersOf(lock)
		s.presence("a")
		s.forget()
		for i := range 75 {
			lock.SetUnhealthy("no disk")
			if got := s.presence("a").Unhealthy; got != "no disk" {
				t.Fatalf("unhealthy for the time %d, it says %q", i, got)
			}
			time.Sleep(2 * time.Second)
			lock.SetUnhealthy("")
			time.Sleep(2 * time.Second)
		}
		if n := s.asked("update " + leasesPath + "/lock."); n > 10 {
			t.Errorf("%d writes in five minutes", n)
		}
		time.Sleep(time.Minute)
		if got := s.presence("a").Unhealthy; got != "" {
			t.Errorf("once it has been well for a minute it says %q", got)
		}
	})
}

// TestHealthCannotChangeSoThatItIsWrittenOften: not even by who falls ill some time
// after each recovery that its presence has told of.
func TestHealthCannotChangeSoThatItIsWrittenOften(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, time.Minute, time.Minute + time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			scenario(t, func(s *stage) {
				lock := s.plain("a")
				s.peersOf(lock)
				s.presence("a")
				s.forget()
				for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(pause) {
					lock.SetUnhealthy("no disk")
					if got := s.presence("a").Unhealthy; got == "" {
						t.Fatal("it is not said at once to be ill")
					}
					lock.SetUnhealthy("")
					for s.presence("a").Unhealthy != "" {
						time.Sleep(time.Second)
					}
				}
				if n := s.asked("update " + leasesPath + "/lock."); n > 12 {
					t.Errorf("%d writes in five minutes", n)
				}
			})
		})
	}
}

// TestAPresenceBeyondTheRosterIsNotTakenForDeleted, however much the others change.
func TestAPresenceBeyondTheRosterIsNotTakenForDeleted(t *testing.T) {
	scenario(t, func(s *stage) {
		client := apitest.Wire(s.T, s.server, coordinationv1.SchemeGroupVersion)
		other := func(i int, waiting string) {
			if _, err := presence.Ensure(s.T.Context(), client, "ns", presence.Object{
				Lock: "lock", Pod: presence.Pod{Name: fmt.Sprintf("op-%03d", i), UID: types.UID(fmt.Sprint("uid-", i))},
				Identity: fmt.Sprint(i), Mode: "lease", Waiting: waiting,
			}); err != nil {
				s.T.Fatal(err)
			}
		}
		for i := range 310 {
			other(i, "")
		}
		var said func() string
		s.runs("zz")
		told := s.peersOf(s.plain("zz", func(c *multilock.LeaseOnlyConfig) { said = logs(c) }))
		own := "/" + s.presence("zz").Name
		s.forget()
		for i := range 60 {
			other(i, "something")
			told()
			time.Sleep(time.Second)
		}
		if n, lines := s.asked(own), strings.Count(said(), "deleted"); n > 0 || lines > 0 {
			t.Errorf("60 changes of others: %d requests for the own presence, and %d times it is said to be deleted", n, lines)
		}
		if names := told(); !slices.Contains(names, "zz") {
			t.Error("it does not know itself")
		}
	})
}
