// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// People edit and delete the objects of a lock, pods come back under their old
// names, permissions are missing: each on its own lock, all at the same time.
func TestWhateverHandsDoAMigrationNeverHasTwoLeaders(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	p := &past{b, patience(t, 5*time.Minute), client}
	run := func(t *testing.T, f func(*testing.T, *past)) { f(t, p) }
	calm := make(chan struct{}) // closed when all except the last have ended
	var last sync.WaitGroup
	last.Go(func() {
		t.Run("a legacy leader on a node that is out of service", func(t *testing.T) { outOfService(t, p, calm) })
	})
	atOnce(t, map[string]func(*testing.T, *past){
		"a leader mends what somebody edits or steps down": edits,
		"a ConfigMap that is taken by hand":                takeovers,
		"a successor of the same name":                     namesakes,
		"what is not a lock is left alone":                 inputs,
		"a legacy lock of another name":                    elsewhere,
		"a missing permission is named and waited for":     permissions,
		"after clean a Lease alone is enough":              cleaned,
		"idling costs renewals alone":                      idling,
	}, run)
	close(calm)
	last.Wait()
}

// edit is something that a person does to the objects of a lock.
type edit struct {
	what string
	do   func(s *editedLock, leader *member, fresh *trial.Seat)
	// mended reports whether the leader has repaired it, which it does at once;
	// nil if there is nothing to see.
	mended func(s *editedLock, leader *member, before *coordinationv1.Lease) bool
	// ends is the cause with which the term must end; empty if it must not.
	ends string
	// after is what a person must do then.
	after func(s *editedLock)
	// only is the phase in which it can be done; empty means any.
	only string
	// says is what is logged about it, if the term goes on.
	says string
	// quiet says that a renewal which is under way may mend it without logging that.
	// Then the edit is repeated until it is logged.
	quiet bool
	// opens says that a fresh legacy pod may lead, until the watch event
	// arrives.
	opens bool
}

var deletions = []edit{{
	what: "the ConfigMap is deleted", says: "mending the ConfigMap: it does not exist", opens: true,
	do: func(s *editedLock, _ *member, _ *trial.Seat) { s.deleteConfigMap() },
	mended: func(s *editedLock, leader *member, _ *coordinationv1.Lease) bool {
		r, _ := s.record()
		return r.Kind == ownerref.Shield && r.Has(s.presenceOf(leader))
	},
}, {
	what: "the Lease is deleted", says: "the record was deleted: recreating it",
	do:     func(s *editedLock, _ *member, _ *trial.Seat) { s.deleteLease(s.lock) },
	mended: anewLease,
}, {
	what: "both are deleted", opens: true, // the leader has said that of the Lease within this minute, unless it is another
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		var both sync.WaitGroup
		both.Go(s.deleteConfigMap)
		both.Go(func() { s.deleteLease(s.lock) })
		both.Wait()
	},
	mended: func(s *editedLock, leader *member, before *coordinationv1.Lease) bool {
		r, _ := s.record()
		return anewLease(s, leader, before) && r.Kind == ownerref.Shield && r.Has(s.presenceOf(leader))
	},
}}

func anewLease(s *editedLock, leader *member, before *coordinationv1.Lease) bool {
	l := s.lease()
	return l != nil && l.UID != before.UID && holder(l) == leader.Status().Identity &&
		l.Annotations["zonelect.dev/phase"] == before.Annotations["zonelect.dev/phase"] &&
		l.Annotations["zonelect.dev/phase-step"] == before.Annotations["zonelect.dev/phase-step"]
}

var changes = []edit{{
	what: "all owner references are removed", says: "mending the ConfigMap: this candidate's presence is not among its owners",
	only: "dual",
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.patchConfigMap(`{"metadata":{"ownerReferences":null}}`)
	},
	mended: func(s *editedLock, _ *member, _ *coordinationv1.Lease) bool { r, _ := s.record(); return s.present(r) },
}, {
	what: "the leader's owner reference is removed", says: "mending the ConfigMap: this candidate's presence is not among its owners",
	only:   "dual",
	do:     func(s *editedLock, leader *member, _ *trial.Seat) { s.dropOwner(leader) },
	mended: func(s *editedLock, _ *member, _ *coordinationv1.Lease) bool { r, _ := s.record(); return s.present(r) },
}, {
	what: "a follower's owner reference is removed",
	only: "dual",
	do: func(s *editedLock, leader *member, _ *trial.Seat) {
		for _, m := range s.members {
			if m != leader {
				s.dropOwner(m)
			}
		}
	},
	mended: func(s *editedLock, _ *member, _ *coordinationv1.Lease) bool { r, _ := s.record(); return s.present(r) },
}, {
	what: "a sealed one is given owners", says: "mending the ConfigMap: it still has owners",
	only: "sealed",
	do: func(s *editedLock, leader *member, _ *trial.Seat) {
		p := s.presenceOf(leader)
		s.updateConfigMap(func(cm *corev1.ConfigMap) {
			cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: p.Name, UID: p.UID}}
		})
	},
	mended: func(s *editedLock, _ *member, _ *coordinationv1.Lease) bool {
		r, _ := s.record()
		return r.Kind == ownerref.Sealed
	},
}, {
	what: "the armed annotation is removed", says: "leading beside the shield",
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.patchConfigMap(`{"metadata":{"annotations":{"zonelect.dev/shield-armed":null}}}`)
	},
}, {
	what: "the ConfigMap's phase is garbled", says: "mending the ConfigMap: ",
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.patchConfigMap(`{"metadata":{"annotations":{"zonelect.dev/phase":"seaLed","zonelect.dev/phase-step":"-1"}}}`)
	},
	mended: func(s *editedLock, _ *member, before *coordinationv1.Lease) bool {
		_, cm := s.record()
		return cm.Annotations["zonelect.dev/phase"] == before.Annotations["zonelect.dev/phase"]
	},
}, {
	what: "the Lease's phase is garbled", says: "part of the record is gone: mending it", quiet: true,
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.patchLease(`{"metadata":{"annotations":{"zonelect.dev/phase":"dua1","zonelect.dev/phase-step":"many"}}}`)
	},
	mended: func(s *editedLock, _ *member, before *coordinationv1.Lease) bool {
		l := s.lease()
		return l.Annotations["zonelect.dev/phase"] == before.Annotations["zonelect.dev/phase"] &&
			l.Annotations["zonelect.dev/phase-step"] == before.Annotations["zonelect.dev/phase-step"]
	},
}, {
	what: "a shield's annotations are removed", says: "leading beside the shield",
	only: "dual",
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.patchConfigMap(`{"metadata":{"annotations":null}}`)
	},
}, {
	what: "all is removed that says what it is", says: "leading beside the shield",
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.patchConfigMap(`{"metadata":{"annotations":null,"ownerReferences":null}}`)
	},
	mended: func(s *editedLock, leader *member, _ *coordinationv1.Lease) bool {
		r, _ := s.record()
		return r.Kind == ownerref.Shield && r.Has(s.presenceOf(leader))
	},
}, {
	what: "a ConfigMap of another use is put in its place",
	do: func(s *editedLock, _ *member, _ *trial.Seat) {
		s.updateConfigMap(func(cm *corev1.ConfigMap) {
			cm.OwnerReferences, cm.Annotations, cm.Data = nil, nil, map[string]string{"color": "blue"}
		})
	},
	ends:  "it holds data, which no lock does",
	after: (*editedLock).deleteConfigMap,
}, {
	what: "the leader's presence is deleted", says: "this candidate's presence was deleted: recreating it",
	do: func(s *editedLock, leader *member, _ *trial.Seat) { s.deleteLease(s.presenceOf(leader).Name) },
	mended: func(s *editedLock, leader *member, _ *coordinationv1.Lease) bool {
		return s.presenceOf(leader).UID != ""
	},
}, {
	what: "a follower's presence is deleted", says: "this candidate's presence was deleted: recreating it",
	do: func(s *editedLock, leader *member, _ *trial.Seat) {
		for _, m := range s.members {
			if m != leader {
				s.deleteLease(s.presenceOf(m).Name)
			}
		}
	},
	mended: func(s *editedLock, _ *member, _ *coordinationv1.Lease) bool {
		for _, m := range s.members {
			if s.presenceOf(m).UID == "" {
				return false
			}
		}
		return true
	},
}, {
	what: "a legacy pod is made the owner", opens: true,
	do: func(s *editedLock, _ *member, fresh *trial.Seat) {
		pod, err := s.client.CoreV1().Pods("default").Get(s.ctx, fresh.Identity, metav1.GetOptions{})
		must(s.t, err)
		owners, err := json.Marshal([]metav1.OwnerReference{podOwner(pod.Name, pod.UID)})
		must(s.t, err)
		s.patchConfigMap(`{"metadata":{"ownerReferences":` + string(owners) + `}}`)
	},
	ends: "has made the ConfigMap its own",
}}

func (s *editedLock) dropOwner(m *member) {
	p := s.presenceOf(m)
	s.updateConfigMap(func(cm *corev1.ConfigMap) {
		cm.OwnerReferences = slices.DeleteFunc(cm.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == p.UID })
	})
}

// edits does each edit while a candidate leads and a fresh legacy pod stands
// by: one of the variant that waits, and one of the variant that does not look
// twice.
func edits(t *testing.T, p *past) {
	rows := map[string]func(*testing.T){}
	for _, phase := range []string{"dual", "sealed"} {
		for _, variant := range []string{"original", "stale"} {
			rows[phase+" beside "+variant] = func(t *testing.T) { editAll(t, p, phase, variant) }
		}
	}
	atOnce(t, rows, func(t *testing.T, run func(*testing.T)) { run(t) })
}

func editAll(t *testing.T, p *past, phase, variant string) {
	s := newEditedLock(t, p, variant)
	s.enter("0")
	s.enter("1")
	s.leader()
	if phase == "sealed" {
		s.phase("sealed")
	}
	for i, e := range slices.Concat(deletions, changes) {
		if e.only != "" && e.only != phase {
			continue
		}
		s.until("settled before "+e.what, func() bool { return s.settled(phase) })
		s.meddle(e, phase, fmt.Sprint("fresh-", i))
	}
	s.until("settled at the end", func() bool { return s.settled(phase) })
}

// settled reports whether everything is as it should be in a phase.
func (s *editedLock) settled(phase string) bool {
	r, _ := s.record()
	l := s.lease()
	if l == nil || holder(l) == "" || l.Annotations["zonelect.dev/phase"] != phase || !r.Armed {
		return false
	}
	for _, m := range s.members {
		if now := m.Status(); now.State == status.StateLeader && now.Identity == holder(l) {
			return phase == "sealed" && r.Kind == ownerref.Sealed || phase == "dual" && r.Kind == ownerref.Shield && s.present(r)
		}
	}
	return false
}

// meddle does one edit beside a fresh legacy pod, and logs the outcome.
func (s *editedLock) meddle(e edit, phase, name string) {
	s.t.Helper()
	fresh := s.start("zb", name)
	leader, before, logged, terms := s.leader(), s.lease(), len(s.since(0)), len(s.terms())
	began := time.Now()
	e.do(s, leader, fresh)
	ended := func() bool { return !s.terms()[terms-1].end.IsZero() }
	outcome := "goes on"
	switch {
	case e.ends != "":
		took := s.until("the term's end after "+e.what, ended)
		cause := s.terms()[terms-1].cause
		outcome = fmt.Sprintf("steps down after %v: %v", took.Round(time.Millisecond), cause)
		if !isLegacy(cause) || !strings.Contains(cause.Error(), e.ends) {
			s.t.Errorf("%s: the term ended with %v", e.what, cause)
		}
	case e.mended != nil:
		mended := func() bool { return e.mended(s, leader, before) || ended() }
		s.until("mending after "+e.what, mended)
		for again := 0; e.quiet && again < 10 && !ended() && !s.said(logged, e.says); again++ {
			e.do(s, leader, fresh)
			s.until("mending after "+e.what, mended)
		}
		outcome = fmt.Sprintf("mended %v after it began", time.Since(began).Round(time.Millisecond))
	}
	time.Sleep(1500 * time.Millisecond) // by then the legacy pod has looked twice
	if e.ends == "" && ended() {
		outcome = fmt.Sprintf("%s, steps down: %v", outcome, s.terms()[terms-1].cause)
	}
	if !ended() && !s.said(logged, e.says) {
		s.t.Errorf("%s: nobody says %q", e.what, e.says)
	}
	s.end(fresh)
	most := time.Duration(0)
	if e.opens {
		most = watchEvent
	}
	for _, o := range s.overlaps(most) {
		if o.First.Pod == fresh.Identity || o.Second.Pod == fresh.Identity {
			s.t.Errorf("%s: %v", e.what, o)
		}
	}
	if e.after != nil {
		e.after(s)
	}
	s.t.Logf("%s in phase %s: the leader %s\n  %s", e.what, phase, outcome, strings.Join(s.since(logged), "\n  "))
}

// takeovers deletes the ConfigMap by hand and has a legacy pod take it before the
// leader can recreate it: the one overlap that is documented. The overlap lasts
// until the watch event arrives or, if the leader is cut off, until its trust
// ends.
func takeovers(t *testing.T, p *past) {
	type row struct {
		phase string
		cut   bool
		most  time.Duration
	}
	atOnce(t, map[string]row{
		"in dual until the event":        {"dual", false, watchEvent},
		"in sealed until the event":      {"sealed", false, watchEvent},
		"in dual until the trust ends":   {"dual", true, brisk.RenewDeadline},
		"in sealed until the trust ends": {"sealed", true, brisk.RenewDeadline},
	}, func(t *testing.T, r row) {
		s := newEditedLock(t, p, "original")
		s.enter("0")
		s.enter("1")
		s.leader()
		if r.phase == "sealed" {
			s.phase("sealed")
		}
		s.until("settled", func() bool { return s.settled(r.phase) })
		pod, err := s.Cluster.AddPod(s.ctx, "zb", s.lock+"-fresh", "default", map[string]string{"app": s.lock})
		must(t, err)
		leader, terms := s.leader(), len(s.terms())
		leader.wire.cut(r.cut)
		legacy := s.seize(pod)
		s.until("the term's end", func() bool { return !s.terms()[terms-1].end.IsZero() })
		last := s.terms()[terms-1]
		both := last.end.Sub(legacy.start)
		t.Logf("two led for %v; then the leader stepped down: %v", both.Round(100*time.Microsecond), last.cause)
		if both > r.most {
			t.Errorf("two led for %v, want %v at most", both, r.most)
		}
		if !r.cut && !isLegacy(last.cause) {
			t.Errorf("the term ended with %v", last.cause)
		}
		time.Sleep(brisk.LeaseDuration + 2*time.Second)
		if n := len(s.terms()); n != terms {
			t.Errorf("%d terms more while the legacy pod leads", n-terms)
		}
		leader.wire.cut(false)
		legacy.end = time.Now()
		s.deletePod(pod.Name)
		s.until("settled again", func() bool { return s.settled(r.phase) })
		if all := s.overlaps(0, legacy); len(all) > 1 {
			t.Errorf("overlaps: %v, want the one at most", all)
		}
	})
}

// watchEvent is how long a watch event may take on a busy machine.
const watchEvent = 3 * time.Second

// seize deletes the ConfigMap and recreates it, like a legacy pod that tries at
// this very moment, until that works.
func (s *editedLock) seize(pod *corev1.Pod) reign {
	s.t.Helper()
	configMaps := s.client.CoreV1().ConfigMaps("default")
	mine := &corev1.ConfigMap{}
	mine.Name, mine.OwnerReferences = s.lock, []metav1.OwnerReference{podOwner(pod.Name, pod.UID)}
	for n := 1; n < 50; n++ {
		s.deleteConfigMap()
		if _, err := configMaps.Create(s.ctx, mine, metav1.CreateOptions{}); err == nil {
			return reign{who: pod.Name, start: time.Now()}
		}
		s.until("the ConfigMap again", func() bool { r, _ := s.record(); return r.Kind != ownerref.Absent })
	}
	s.t.Fatal("the leader was always faster")
	return reign{}
}
