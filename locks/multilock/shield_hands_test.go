// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
)

func TestACandidateThatMayNotWatchTheConfigMapDoesNotLeadAndSaysSo(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.RefuseTo("watch", MapsPath)
		a := s.Start("a")
		s.Waits(a, `needs verb "watch" on configmaps in namespace "ns"`)
		s.Refuses(nil)
		if _, took := a.Leads(); took > 4*time.Second {
			t.Errorf("it leads %v after the verb was granted", took)
		}
	})
}

func TestALeaderThatMayNotWatchTheConfigMapAnyMoreLooksEveryRenewInterval(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.RefuseTo("watch", MapsPath)
		time.Sleep(11 * time.Minute) // the watch that was permitted has ended by then
		a.Stays()
		s.Holds("old")
		losesToLegacy(s, a, 2*time.Second)
	})
}

// TestAPhaseThatIsGarbledIsPutBackAtOnce: the next renewal would be too late, and no
// renewal writes the ConfigMap.
func TestAPhaseThatIsGarbledIsPutBackAtOnce(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		time.Sleep(500 * time.Millisecond)
		s.Phase("dua1", 0)
		phaseIs(s, "dual")
		s.Server.Change(MapPath, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/phase"] = "dua1"
		})
		synctest.Wait()
		if got := s.ConfigMap().Phase; got != "dual" {
			t.Errorf("the ConfigMap's phase is %q", got)
		}
		a.Stays()
	})
}

// TestM5NoWorkBeginsUnderAShieldThatIsBeingDeleted: the leader goes on, and puts up another as
// soon as a finalizer lets the old one go. Whoever leads next waits for that.
func TestM5NoWorkBeginsUnderAShieldThatIsBeingDeleted(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		b := s.Start("b")
		shielded(s, 2)
		condemn := func(o apitest.Object) {
			meta := o["metadata"].(apitest.Object)
			meta["deletionTimestamp"], meta["finalizers"] = metav1.Now().UTC().Format(time.RFC3339), []any{"example.com/keeps"}
		}
		s.Server.Change(MapPath, condemn)
		time.Sleep(time.Minute)
		a.Stays()
		a.Stop()
		s.Waits(b, "stays until its finalizers are gone: example.com/keeps")
		s.Forget()
		time.Sleep(time.Minute)
		if n := s.Asked("update "+MapPath) + s.Asked("delete "+MapPath); n > 0 {
			t.Errorf("it was written %d times", n)
		}
		old := s.ConfigMap().UID
		s.Server.Delete(MapPath)
		b.Leads()
		if now := s.ConfigMap(); now.UID == old || !now.Armed || now.Condemned {
			t.Errorf("there stands %+v", now)
		}
	})
}

// TestAConflictThatStaysIsNotRunInto forever, as fast as the API answers.
func TestAConflictThatStaysIsNotRunInto(t *testing.T) {
	Scenario(t, func(s *Stage) {
		log := s.Server.Before // no requests yet
		s.Server.Before = func(verb, path string) (int, apitest.Object) {
			if code, body := log(verb, path); code != 0 {
				return code, body
			}
			if verb == "create" && strings.HasSuffix(path, "/configmaps") {
				return http.StatusConflict, apitest.Status(http.StatusConflict, "AlreadyExists", "already exists", "configmaps", "lock")
			}
			return 0, nil
		}
		s.Start("a")
		time.Sleep(time.Minute)
		if n := s.Asked("create " + MapsPath); n < 10 || n > 60 {
			t.Errorf("it tried %d times in a minute", n)
		}
	})
}

// TestAConfigMapOfAnOldVersionIsWatched: if it has not changed for long, the API server
// no longer has the history since then, and says so every time.
func TestAConfigMapOfAnOldVersionIsWatched(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		time.Sleep(3 * time.Second)
		s.Server.Compact()
		s.Forget()
		time.Sleep(4 * time.Second)
		if n := s.Asked(MapsPath); n > 10 {
			t.Errorf("it asked %d times", n)
		}
		a.Stays()
		s.Holds("old")
		losesToLegacy(s, a, 0)
	})
}

// TestWatchesThatFellSilentBeforeTheWorkBeganAreNotTrustedAfterIt: the leader uses a
// watch that works.
func TestWatchesThatFellSilentBeforeTheWorkBeganAreNotTrustedAfterIt(t *testing.T) {
	Scenario(t, func(s *Stage) {
		s.Holds("old")
		a := s.Start("a")
		s.Waits(a, "legacy pods that may still lead: old")
		a.Way.Muted.Add(1)
		time.Sleep(time.Minute)
		s.Server.Delete(PodsPath + "old")
		a.Leads()
		s.Holds("young")
		losesToLegacy(s, a, time.Second)
	})
}

// TestALeaderWhoseWatchesAreSilentHearsOfALegacyLeaderAllTheSame: its renewals get
// through, which shows it that its watches are silent.
func TestALeaderWhoseWatchesAreSilentHearsOfALegacyLeaderAllTheSame(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		time.Sleep(time.Minute)
		a.Way.Muted.Add(1)
		s.Holds("old")
		losesToLegacy(s, a, 8*time.Second)
	})
}

// TestM8ATermEndsWhereSomethingDeletesTheShieldAsFastAsItIsMade, and shields are made at the rate
// of renewals then.
func TestM8ATermEndsWhereSomethingDeletesTheShieldAsFastAsItIsMade(t *testing.T) {
	Scenario(t, func(s *Stage) {
		a := s.Leader("a")
		s.Server.Delete(MapPath)
		synctest.Wait()
		a.Stays()
		shielded(s, 1)
		s.Server.Delete(MapPath)
		losesToLegacy(s, a, 0)
		s.Forget()
		const span = 2 * time.Minute
		for began := time.Now(); time.Since(began) < span; time.Sleep(50 * time.Millisecond) {
			s.Server.Delete(MapPath)
		}
		a.Leads() // once nothing deletes it any more
		if n, most := s.Asked("create "+MapsPath), int(span/time.Second); n > most {
			t.Errorf("%d shields in %v", n, span)
		}
	})
}
