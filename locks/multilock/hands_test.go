// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/multilock"
)

// watching refuses the watch on ConfigMaps.
func watching(verb, path string) bool {
	return verb == "watch" && strings.HasSuffix(path, "/configmaps")
}

// refuses refuses what f says from now on; nil is nothing.
func (s *stage) refuses(f func(verb, path string) bool) {
	s.server.Mu.Lock()
	defer s.server.Mu.Unlock()
	s.refuse = f
}

const needsWatch = `needs verb "watch" on configmaps in namespace "ns"`

func TestACandidateThatMayNotWatchTheConfigMapDoesNotLeadAndSaysSo(t *testing.T) {
	scenario(t, func(s *stage) {
		s.refuses(watching)
		a := s.start("a")
		s.waits(a, needsWatch)
		s.refuses(nil)
		if _, took := a.Leads(); took > 4*time.Second {
			t.Errorf("it leads %v after the verb was granted", took)
		}
	})
}

func TestALeaderThatMayNotWatchTheConfigMapAnyMoreLooksEveryRenewInterval(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		s.refuses(watching)
		time.Sleep(11 * time.Minute) // a watch that was permitted has ended by then
		a.Stays()
		s.runs("old")
		s.server.Delete(mapPath)
		s.holds("old")
		if took, cause := a.Loses(); took > 2*time.Second || !errors.Is(cause, multilock.ErrLegacy) {
			t.Errorf("it steps down after %v: %v", took, cause)
		}
	})
}

func TestAConfigMapThatMayNotBeReadIsSaidBeforeTheCampaign(t *testing.T) {
	scenario(t, func(s *stage) {
		s.refuses(func(verb, path string) bool { return verb == "get" && path == mapPath })
		a := s.start("a")
		s.waits(a, `needs verb "get" on configmaps in namespace "ns"`)
		if n := s.asked("create " + leasePath[:len(leasePath)-len("/lock")]); n != 1 {
			t.Errorf("it created %d Leases, want its presence alone", n)
		}
		s.refuses(nil)
		a.Leads()
	})
}

func TestWhyALegacyPodOnADeadNodeIsWaitedForIsSaid(t *testing.T) {
	for verb, path := range map[string]string{"get": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node", "list": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"} {
		scenario(t, func(s *stage) {
			s.server.Put("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node", apitest.Object{"metadata": apitest.Object{"name": "node", "uid": "u"}})
			s.runs("old")
			s.holds("old")
			s.refuses(func(v, p string) bool { return v == verb && p == path })
			a := s.start("a", func(c *multilock.ShieldConfig) { c.LegacyGrace = 30 * time.Second })
			s.waits(a, `needs verb "`+verb+`" on leases.coordination.k8s.io in namespace "kube-node-lease"`)
		})
	}
}

// TestAPhaseThatIsGarbledIsPutBackAtOnce: at the next renewal would be late, and
// the ConfigMap is written at none.
func TestAPhaseThatIsGarbledIsPutBackAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(500 * time.Millisecond)
		s.phase("dua1", 0)
		s.phaseIs("dual")
		s.server.Change(mapPath, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/phase"] = "dua1"
		})
		synctest.Wait()
		if got := s.configMap().Shield.Stage.Phase; got != "dual" {
			t.Errorf("the ConfigMap's phase is %q", got)
		}
		a.Stays()
	})
}

// TestAShieldThatIsStrippedOfAllIsMended by whoever saw it as one, and the leader
// among them goes on. A candidate that did not leaves it alone, and says so.
func TestAShieldThatIsStrippedOfAllIsMended(t *testing.T) {
	strip := func(o apitest.Object) {
		meta := o["metadata"].(apitest.Object)
		delete(meta, "ownerReferences")
		delete(meta, "annotations")
	}
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		uid := s.configMap().UID
		s.server.Change(mapPath, strip)
		synctest.Wait()
		s.shielded(1)
		a.Stays()
		if now := s.configMap(); now.UID != uid || !now.Shield.Armed {
			t.Errorf("the ConfigMap is %+v", now)
		}
	})
	scenario(t, func(s *stage) {
		s.holds("gone")
		s.server.Change(mapPath, strip)
		a := s.start("a")
		s.waits(a, "nothing says that it is a shield: remove the ConfigMap")
		s.server.Delete(mapPath)
		a.Leads()
	})
}

func TestAConfigMapThatIsDeletedAndStaysIsWaitedFor(t *testing.T) {
	scenario(t, func(s *stage) {
		s.holds("gone")
		s.server.Change(mapPath, func(o apitest.Object) {
			meta := o["metadata"].(apitest.Object)
			meta["deletionTimestamp"], meta["finalizers"] = metav1.Now().UTC().Format(time.RFC3339), []any{"example.com/keeps"}
		})
		a := s.start("a")
		s.waits(a, "stays until its finalizers are gone: example.com/keeps")
		s.forget()
		time.Sleep(time.Minute)
		if n := s.asked(mapPath); n > 0 {
			t.Errorf("it asked %d times", n)
		}
		s.server.Delete(mapPath)
		a.Leads()
	})
}

// TestAConflictThatStaysIsNotRunInto for ever, as fast as the API answers.
func TestAConflictThatStaysIsNotRunInto(t *testing.T) {
	scenario(t, func(s *stage) {
		log := s.server.Before // nobody asks yet
		s.server.Before = func(verb, path string) (int, apitest.Object) {
			if code, body := log(verb, path); code != 0 {
				return code, body
			}
			if verb == "create" && strings.HasSuffix(path, "/configmaps") {
				return http.StatusConflict, apitest.Status(http.StatusConflict, "AlreadyExists", "already exists", "configmaps", "lock")
			}
			return 0, nil
		}
		s.start("a")
		time.Sleep(time.Minute)
		if n := s.asked("create " + mapPath[:len(mapPath)-len("/lock")]); n < 10 || n > 60 {
			t.Errorf("it tried %d times in a minute", n)
		}
	})
}

// TestAConfigMapOfAnOldVersionIsWatched: of one that has not changed for long
// the API server does not know the history since, and says so every time.
func TestAConfigMapOfAnOldVersionIsWatched(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(3 * time.Second)
		s.server.Compact()
		s.forget()
		time.Sleep(4 * time.Second)
		if n := s.asked(mapPath) + s.asked("watch "+mapPath[:len(mapPath)-len("/lock")]); n > 10 {
			t.Errorf("it asked %d times", n)
		}
		a.Stays()
		s.runs("old")
		s.server.Delete(mapPath)
		s.holds("old")
		if took, cause := a.Loses(); took > 0 || !errors.Is(cause, multilock.ErrLegacy) {
			t.Errorf("it steps down after %v: %v", took, cause)
		}
	})
}

// TestWatchesThatFellSilentBeforeTheWorkBeganAreNotTrustedAfterIt: it leads on
// one that hears.
func TestWatchesThatFellSilentBeforeTheWorkBeganAreNotTrustedAfterIt(t *testing.T) {
	scenario(t, func(s *stage) {
		s.runs("old")
		s.holds("old")
		a := s.start("a")
		s.waits(a, "legacy pods that may still lead: old")
		a.way.muted.Add(1)
		time.Sleep(time.Minute)
		s.server.Delete(podsPath + "old")
		a.Leads()
		s.runs("young")
		s.server.Delete(mapPath)
		s.holds("young")
		if took, cause := a.Loses(); took > time.Second || !errors.Is(cause, multilock.ErrLegacy) {
			t.Errorf("it steps down after %v: %v", took, cause)
		}
	})
}

// TestALeaderWhoseWatchesAreSilentHearsOfALegacyLeaderAllTheSame: what it hears
// of its renewals tells it that they are.
func TestALeaderWhoseWatchesAreSilentHearsOfALegacyLeaderAllTheSame(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(time.Minute)
		a.way.muted.Add(1)
		s.runs("old")
		s.server.Delete(mapPath)
		s.holds("old")
		if took, cause := a.Loses(); took > 8*time.Second || !errors.Is(cause, multilock.ErrLegacy) {
			t.Errorf("it steps down after %v: %v", took, cause)
		}
	})
}
