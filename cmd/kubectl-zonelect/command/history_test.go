// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/internal/record"
)

// led makes a lock whose holder took it after two others.
func led(changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	now := time.Now()
	return newLease("op", "op-a_1", "za", append([]func(*coordinationv1.Lease){func(l *coordinationv1.Lease) {
		l.Annotations[record.AnnotationHistory] = history.Format([]history.Term{
			{Acquired: now.Add(-50 * time.Hour), Holder: "op-b_1", Zone: "zb", Token: 17, Cause: "absent"},
			{Acquired: now.Add(-2 * time.Hour), Holder: "op-c_1", Zone: "zb", Token: 1234, Cause: "released", NobodyLed: ptr.To(17 * time.Millisecond)},
			{Acquired: l.Spec.AcquireTime.Time, Holder: "op-a_1", Zone: "za", Cause: "expired", NobodyLed: ptr.To(15_020 * time.Millisecond)},
		})
	}}, changes...)...)
}

// releasedBy is a release by the holder a while ago.
func releasedBy(ago time.Duration) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		at := &metav1.MicroTime{Time: time.Now().Add(-ago)}
		l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.RenewTime = ptr.To(""), at, at
		l.Spec.LeaseDurationSeconds = ptr.To(int32(1))
		l.Annotations[record.AnnotationReleased] = l.Annotations[record.AnnotationToken]
	}
}

func TestHistoryShowsTheLastTermsInEveryFormat(t *testing.T) {
	for name, args := range map[string][]string{
		"history":          {"history", "op"},
		"history-wide":     {"history", "op", "-o", "wide"},
		"history-json":     {"history", "op", "-o", "json"},
		"history-yaml":     {"history", "op", "-o", "yaml"},
		"history-template": {"history", "op", "-o", "jsonpath={.history.terms[*].token}"},
		"history-bare":     {"history", "op", "--no-headers"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.putLease(led())
				golden(t, name, w.run(args...))
			})
		})
	}
}

// TestHistorySaysWhatIsMissing, in the table and beside it.
func TestHistorySaysWhatIsMissing(t *testing.T) {
	const tells = record.AnnotationHistory
	for name, lease := range map[string]func() *coordinationv1.Lease{
		"history-released": func() *coordinationv1.Lease { return led(releasedBy(time.Minute)) },
		"history-cleared": func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })
		},
		"history-cleared-beside-a-heartbeat": func() *coordinationv1.Lease {
			return led(renewed(4*time.Minute), func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity = ptr.To("")
				l.Annotations[record.AnnotationHeartbeat] = "program.heartbeat-a uid epoch 15"
			})
		},
		"history-released-by-a-clock-ahead": func() *coordinationv1.Lease { return led(releasedBy(-time.Minute)) },

		"history-stale": func() *coordinationv1.Lease { return led(renewed(time.Minute)) },
		"history-client-go": func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity, l.Spec.AcquireTime = ptr.To("client-go"), &metav1.MicroTime{Time: time.Now().Add(-time.Minute)}
			})
		},
		"history-none":    func() *coordinationv1.Lease { return newLease("op", "op-a_1", "za") },
		"history-nothing": func() *coordinationv1.Lease { return newLease("op", "", "", releasedBy(time.Hour)) },
		"history-of-client-go-alone": func() *coordinationv1.Lease {
			return newLease("op", "client-go", "", func(l *coordinationv1.Lease) { l.Annotations = nil })
		},
		"history-garbage": func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) {
				l.Annotations[tells] = `["garbage",{"more":"\u001b[2J of it"},{"holder":"\u001b[2J"},` + l.Annotations[tells][1:]
			})
		},
		"history-too-long": func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) { l.Annotations[tells] = strings.Repeat("x", 5000) })
		},
		"history-clocks": func() *coordinationv1.Lease {
			return led(func(l *coordinationv1.Lease) {
				l.Annotations[tells] = `[{"acquired":"2100-01-01T00:00:00Z","holder":"op-z_1"},{"holder":"op-y_1"},` + l.Annotations[tells][1:]
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.putLease(lease())
				golden(t, name, w.run("history", "op"))
			})
		})
	}
}

func TestALockWithoutALeaseHasNoHistory(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		golden(t, "history-absent", w.run("history", "op"))
		w.putConfigMap("op", nil, byPod("old-0"))
		golden(t, "history-legacy", w.run("history", "op"))
	})
}

func TestLocksWithALeaseAreCompletedForHistory(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.fill()
		w.putConfigMap("not-moved", nil, byPod("old"))
	})
}
