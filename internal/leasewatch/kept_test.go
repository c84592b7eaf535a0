// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// flood puts Leases that nobody has asked for, each of that many bytes.
func (s *stage) flood(n, long int) {
	for i := range n {
		s.putLong(fmt.Sprintf("junk-%04d", i), long)
	}
}

func (s *stage) putLong(name string, long int) {
	lease := &coordinationv1.Lease{}
	holder := strings.Repeat("x", long)
	lease.Name, lease.Namespace, lease.UID, lease.Spec.HolderIdentity = name, "ns", "u", &holder
	s.Put(all+name, lease)
}

// bytes is how many bytes of holders a view keeps, in all that it keeps.
func (v *View) bytes() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	count := func(s State) {
		if s.Lease != nil {
			n += len(*s.Lease.Spec.HolderIdentity)
		}
	}
	for _, s := range v.leases {
		count(s)
	}
	for _, c := range v.recent.changes {
		count(c.State)
	}
	return n
}

// TestAViewKeepsLittleOfWhatNobodyAskedFor, and knows that it is there.
func TestAViewKeepsLittleOfWhatNobodyAskedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector, these megabytes take most of a minute")
	}
	for name, flood := range map[string]func(s *stage){
		"a few that are long": func(s *stage) { s.flood(50, 1_450_000) },
		"many that are short": func(s *stage) { s.flood(5000, 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(s *stage) {
				check := func(when string) {
					t.Helper()
					synctest.Wait()
					if n := s.view.bytes(); n > mostSpare {
						t.Errorf("%s: %d bytes are kept", when, n)
					}
				}
				flood(s)
				check("by the watch")
				s.view.WentBack()
				check("by a list")
				r, err := s.view.Read(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for i := range 50 {
					name := fmt.Sprintf("junk-%04d", i)
					if is := r.Get(name); is.Lease == nil && !is.Cut || is.Number == r.At() && i == 0 {
						t.Errorf("%s is taken for deleted: %+v", name, is)
					}
				}
				s.Delete(all + "junk-0001")
				synctest.Wait()
				if is := s.view.Get("junk-0001"); is.Cut || is.Lease != nil {
					t.Errorf("one that was deleted is %+v", is)
				}
			})
		})
	}
}

// TestWhatIsAskedForIsShown, although it was not kept before, without an end of lists.
func TestWhatIsAskedForIsShown(t *testing.T) {
	run(t, func(s *stage) {
		s.flood(50, 1_450_000)
		synctest.Wait()
		lists := s.lists.Load()
		if is := s.view.Get("junk-0007"); !is.Cut || is.Number == 0 {
			t.Fatalf("it is %+v", is)
		}
		sub := s.view.Subscribe()
		defer sub.Close()
		sub.Add("junk-0007")
		sub.Add("junk-0008")
		synctest.Wait()
		time.Sleep(patience)
		for _, name := range []string{"junk-0007", "junk-0008"} {
			if is := s.view.Get(name); is.Lease == nil || len(*is.Lease.Spec.HolderIdentity) != 1_450_000 {
				t.Errorf("%s is %+v", name, is)
			}
		}
		heard := map[string]bool{}
		for _, c := range sub.Take() {
			heard[c.Name] = heard[c.Name] || c.State.Lease != nil
		}
		if !heard["junk-0008"] {
			t.Error("who subscribed to what was not kept hears nothing of it")
		}
		if n := s.lists.Load() - lists; n > 2 {
			t.Errorf("it took %d lists", n)
		}
		time.Sleep(2 * askedFor)
		s.putLong("junk-0007", 1_450_000)
		s.putLong("junk-0008", 1_450_000)
		synctest.Wait()
		if n := s.view.bytes(); n > mostSpare+3*1_450_000 {
			t.Errorf("%d bytes are kept of what was asked for long ago", n)
		}
	})
}

// TestWhatIsAskedForWhileAListIsReadIsShownByTheNext: that list has left it out already.
func TestWhatIsAskedForWhileAListIsReadIsShownByTheNext(t *testing.T) {
	run(t, func(s *stage) {
		s.flood(50, 1_450_000)
		synctest.Wait()
		list, err := s.view.linearizable(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		s.view.mu.Lock()
		s.view.lacks = true
		s.view.mu.Unlock()
		s.view.Get("junk-0007")
		s.view.replace(list, true)
		time.Sleep(patience)
		s.view.mu.Lock()
		defer s.view.mu.Unlock()
		if is := s.view.state("junk-0007"); is.Lease == nil {
			t.Errorf("it is %+v", is)
		}
	})
}

// TestAViewThatWentBackShowsNothingSinceAVersion until it has caught up: what it has is of before.
func TestAViewThatWentBackShowsNothingSinceAVersion(t *testing.T) {
	run(t, func(s *stage) {
		synctest.Wait()
		for _, stale := range []bool{false, true} {
			s.view.mu.Lock()
			s.view.stale = stale
			s.view.mu.Unlock()
			if _, known := s.view.GetSince("a", 0); known == stale {
				t.Errorf("stale is %v, and known %v", stale, known)
			}
		}
	})
}

// TestWhatIsTooLongIsAskedForOnce: no list can show it.
func TestWhatIsTooLongIsAskedForOnce(t *testing.T) {
	run(t, func(s *stage) {
		s.putLong("long", 5<<20)
		synctest.Wait()
		lists := s.lists.Load()
		for range 20 {
			if is := s.view.Get("long"); !is.Cut {
				t.Errorf("it is %+v", is)
			}
			time.Sleep(patience)
		}
		if n := s.lists.Load() - lists; n != 1 {
			t.Errorf("it took %d lists", n)
		}
	})
}

// TestWhatWasNotKeptLeavesAGap for who knows an older version of it.
func TestWhatWasNotKeptLeavesAGap(t *testing.T) {
	run(t, func(s *stage) {
		n := s.put("x")
		s.flood(50, 60<<10)
		s.flood(50, 60<<10)
		s.putLong("x", 60<<10)
		s.put("x")
		synctest.Wait()
		sub := s.view.Subscribe()
		defer sub.Close()
		if sub.AddAfter("x", n) {
			t.Errorf("all changes are said to be known: %+v", sub.Take())
		}
	})
}

// TestAViewKeepsWhatItIsToldToKeep, though nobody knows its name.
func TestAViewKeepsWhatItIsToldToKeep(t *testing.T) {
	run(t, func(s *stage) {
		s.view.Keep(func(l *coordinationv1.Lease) bool { return l.Name == "mine" })
		s.flood(100, 60<<10)
		s.putLong("mine", 60<<10)
		synctest.Wait()
		s.view.mu.Lock()
		defer s.view.mu.Unlock()
		if s.view.leases["mine"].Lease == nil {
			t.Error("it is not kept")
		}
	})
}
