// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

func TestTimelineWritesAPageThatShowsEachTerm(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.putLease(led())
		file := filepath.Join(t.TempDir(), "page.html")
		got := w.run("timeline", "op", "--to", file).out
		if want := "3 terms of lock op are in " + file + "\n"; !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		printed := w.run("timeline", "op", "--to", "-").out
		for _, want := range []string{"<!doctype html>", "Lock op in namespace ns", "op-a_1", "op-b_1", "op-c_1", "1234", "expired", "15.02"} {
			if !strings.Contains(string(page), want) || !strings.Contains(printed, want) {
				t.Errorf("the page does not have %q", want)
			}
		}
	})
}

// TestTheTimelineOfAnEvening draws what make screenshots shows: a handover, the loss of a zone and a rollout. It
// writes the page to the file that ZONELECT_TIMELINE names.
func TestTheTimelineOfAnEvening(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		at := func(before time.Duration) string { return time.Now().Add(-before).UTC().Format(time.RFC3339) }
		history := fmt.Sprintf(`[{"acquired":%q,"holder":"op-a_1","token":4012,"zone":"za","cause":"released","nobodyLedMs":5},`+
			`{"acquired":%q,"holder":"op-b_1","token":4208,"zone":"zb","cause":"released","nobodyLedMs":17},`+
			`{"acquired":%q,"holder":"op-c_1","token":4460,"zone":"zc","cause":"expired","nobodyLedMs":15020},`+
			`{"acquired":%q,"holder":"op-a_1","token":4711,"zone":"za","cause":"released","nobodyLedMs":9}]`,
			at(9*time.Minute), at(7*time.Minute), at(5*time.Minute), at(2*time.Minute))
		w.putLease(newLease("op", "op-a_1", "za", func(l *coordinationv1.Lease) {
			l.Annotations[record.AnnotationHistory] = history
			l.Spec.AcquireTime = &metav1.MicroTime{Time: time.Now().Add(-2 * time.Minute)}
		}))
		file := cmp.Or(os.Getenv("ZONELECT_TIMELINE"), filepath.Join(t.TempDir(), "page.html"))
		if r := w.run("timeline", "op", "--to", file); !strings.Contains(r.out, "4 terms of lock op are in") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
	})
}

func TestTimelineSaysWhyItDrawsNothing(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		golden(t, "timeline-absent", w.run("timeline", "op"))
		w.putConfigMap("op", nil, byPod("old-0"))
		golden(t, "timeline-legacy", w.run("timeline", "op"))
		w.putLease(led())
		golden(t, "timeline-unwritable", w.run("timeline", "op", "--to", "absent/page.html"))
	})
}

func TestNoTwoTermsOfAHistoryOverlapHoweverClocksDiffer(t *testing.T) {
	now := time.Now()
	at := func(s int) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(time.Duration(s) * time.Second)} }
	terms := []inspect.Term{
		{Holder: "a", Since: at(0)},
		{Holder: "b", Since: at(100), NobodyLedMilliseconds: ptr.To(int64(15_000))},
		{Holder: "a", Since: at(50)},
		{Holder: "c", Since: at(60), NobodyLedMilliseconds: ptr.To(int64(20_000)), LedForMilliseconds: ptr.To(int64(7_000))},
	}
	for _, held := range []bool{true, false} {
		all := bars(terms, held)
		for i := 1; i < len(all); i++ {
			if before := all[i-1]; before.To.Before(before.From) || all[i].From.Before(before.To) {
				t.Errorf("held %v: %s from %v to %v, and then %s from %v", held, before.Lane, before.From.Sub(now), before.To.Sub(now), all[i].Lane, all[i].From.Sub(now))
			}
		}
		if last := all[len(all)-1]; last.To.IsZero() != held || !held && last.To.Sub(last.From) != 7*time.Second {
			t.Errorf("held %v: the last term is %+v", held, last)
		}
	}
}
