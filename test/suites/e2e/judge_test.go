// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// term is a term of leadership as the revisions of its Lease show it.
type term struct {
	holder            string
	token             uint64    // zero if its holder never wrote it
	acquired, renewed time.Time // by the clock of this machine, which all programs have
	released          bool
}

// follow watches a Lease, and returns what returns its terms so far.
func (g *ground) follow(t *testing.T, namespace, lock string) func() []term {
	t.Helper()
	w, err := g.client.CoordinationV1().Leases(namespace).Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: lock}))
	must(t, err)
	t.Cleanup(w.Stop)
	revisions := collect[*coordinationv1.Lease](w)
	return func() (all []term) {
		for _, l := range revisions() {
			last := len(all) - 1
			switch h := holder(l); {
			case h == "" && last >= 0:
				all[last].released = true
				continue
			case h == "":
				continue
			case last < 0 || all[last].holder != h || !all[last].acquired.Equal(l.Spec.AcquireTime.Time):
				all = append(all, term{holder: h, acquired: l.Spec.AcquireTime.Time})
				last++
			}
			all[last].renewed = l.Spec.RenewTime.Time
			if l.Annotations["zonelect.dev/holder"] == all[last].holder {
				all[last].token, _ = strconv.ParseUint(l.Annotations["zonelect.dev/token"], 10, 64)
			}
		}
		return all
	}
}

// judgeTerms checks that tokens grow, and that whoever took a lock that nobody had released had seen no
// renewal for a lease.
func judgeTerms(t *testing.T, all []term, lease time.Duration) {
	t.Helper()
	token := uint64(0)
	for i, now := range all {
		if now.token != 0 && now.token <= token {
			t.Errorf("the token %d of %s came after %d", now.token, now.holder, token)
		}
		token = max(token, now.token)
		const slew = 50 * time.Millisecond // of the wall clock, while the elector counts by the monotonic one
		if i > 0 && !all[i-1].released && now.acquired.Sub(all[i-1].renewed) < lease-slew {
			t.Errorf("%s took the lock %v after %s had renewed it, and its lease is %v",
				now.holder, now.acquired.Sub(all[i-1].renewed), all[i-1].holder, lease)
		}
	}
}

// register watches the ConfigMap that leaders write, and returns what returns all of its revisions until now.
func (g *ground) register(t *testing.T, name string) func() history.Register {
	t.Helper()
	maps := g.client.CoreV1().ConfigMaps(g.namespace)
	w, err := maps.Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	must(t, err)
	t.Cleanup(w.Stop)
	revisions := collect[*corev1.ConfigMap](w)
	return func() (all history.Register) {
		now, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		until(t, "the watch shows the register as it is", func() bool {
			return slices.ContainsFunc(revisions(), func(cm *corev1.ConfigMap) bool { return cm.ResourceVersion == now.ResourceVersion })
		})
		for _, cm := range revisions() {
			version, err := strconv.ParseUint(cm.ResourceVersion, 10, 64)
			must(t, err)
			token, err := strconv.ParseUint(cm.Data["token"], 10, 64)
			must(t, err)
			sequence, err := strconv.Atoi(cm.Data["sequence"])
			must(t, err)
			all = append(all, history.Revision{Version: version, Token: token, Identity: cm.Data["identity"], Sequence: sequence})
		}
		return all
	}
}

// termsOf returns the spans in which candidates led, as they printed them. The
// last span of a killed candidate ends when it was killed.
func termsOf(seats []*trial.Seat, killed map[string]time.Time) (h history.History) {
	for _, s := range seats {
		end, ended := killed[s.Identity]
		if !ended {
			end = time.Now()
		}
		legacy := s.Kind == trial.Legacy || s.Kind == trial.Become
		h = append(h, history.TermsOf(history.Span{Pod: s.Identity, Legacy: legacy, End: end, Open: !ended}, s.Events())...)
	}
	return h
}

// judgeOverlaps fails for each overlap that involves a candidate.
func judgeOverlaps(t *testing.T, h history.History) {
	t.Helper()
	for _, o := range h.Overlaps() {
		if o.Ours() {
			t.Error(o)
		} else {
			t.Logf("legacy programs among themselves: %v", o)
		}
	}
}
