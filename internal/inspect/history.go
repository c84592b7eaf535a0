// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/internal/record"
)

// Term is one term of a lock. What is not known is zero or nil.
type Term struct {
	Token  uint64 `json:"token,omitempty"`
	Holder string `json:"holder"`
	Zone   string `json:"zone,omitempty"`
	// Since is when the holder took the lock, by its wall clock.
	Since *metav1.MicroTime `json:"since,omitempty"`
	// Cause is how the lock had come free.
	Cause string `json:"cause,omitempty"`
	// LedForMilliseconds is how long the holder had the lock: until its last renewal or its
	// release, as far as the next holder saw that, or else until the next term began. For the
	// holder of now it is until now.
	LedForMilliseconds *int64 `json:"ledForMilliseconds,omitempty"`
	// NobodyLedMilliseconds is for how long nobody led before.
	NobodyLedMilliseconds *int64 `json:"nobodyLedMilliseconds,omitempty"`
}

// History is the last terms of a lock, for people; the oldest first.
type History struct {
	Terms []Term `json:"terms"`
	Findings
}

// The limit of what is called flapping: more terms than that which began within that time. The alert
// ZonelectFlapping has the same.
const (
	Flapping       = 5
	FlappingWithin = 30 * time.Minute
)

// Flaps reports whether leadership changes too often, and returns for each cause how many terms began
// of late.
func (h History) Flaps(now time.Time) (of map[string]int, flaps bool) {
	of = map[string]int{}
	n := 0
	for _, t := range h.Terms {
		if t.Since == nil {
			continue
		}
		if ago := now.Sub(t.Since.Time); ago >= 0 && ago < FlappingWithin {
			n++
			of[t.Cause]++
		}
	}
	return of, n > Flapping
}

// History interprets what was read. now is the wall clock.
func (e Election) History(now time.Time) History {
	h := History{Terms: []Term{}}
	if e.Lease == nil {
		return h
	}
	r := e.Snapshot().Record
	terms, _ := history.Parse(history.Of(r))
	state, note := e.State(now)
	over := now
	if state != Held {
		over = e.lastRenewal()
	}
	for i, n := range terms {
		h.Terms = append(h.Terms, Term{
			Token: n.Token, Holder: n.Holder, Zone: n.Zone, Since: stamp(n.Acquired), Cause: n.Cause,
			LedForMilliseconds: ledFor(terms[i:], over), NobodyLedMilliseconds: milliseconds(n.NobodyLed),
		})
	}
	h.check(e.Lease.Annotations[record.AnnotationHistory])
	if note != "" {
		h.Note("%s", note)
	}
	if r.Holder == "" && !r.RenewTime.IsZero() {
		h.Note("nobody holds the lock: %s", since(state, e.lastRenewal(), now))
	}
	return h
}

// since says since when a lock without a holder is in its state. Only a release notes that: when
// somebody else removed the holder's name is not known.
func since(state State, renewed, now time.Time) string {
	text := "it is released since "
	switch {
	case renewed.IsZero():
		return fmt.Sprintf("it is %s, and when it was renewed last is not known", state)
	case state != Released:
		text = fmt.Sprintf("it is %s, and was renewed last at ", state)
	}
	text += renewed.UTC().Format(time.RFC3339)
	if ago := now.Sub(renewed); !ahead(ago) { // else the clocks differ
		text += " (" + duration.HumanDuration(ago) + " ago)"
	}
	return text
}

// check says what is wrong with what the Lease has.
func (h *History) check(stored string) {
	switch {
	case h.CheckHistory(stored):
	case strings.TrimSpace(stored) != "":
	case len(h.Terms) > 0:
		h.Note("the Lease has no history: its holder is of another program, or of a version of zonelect that keeps none; the next acquisition begins one")
	default:
		h.Note("the Lease has no history: no candidate that keeps one has acquired the lock; the next acquisition begins one")
	}
}

// CheckHistory warns of a history that cannot be read in full, and reports whether it is one.
func (f *Findings) CheckHistory(stored string) bool {
	_, err := history.Parse(stored)
	if err != nil {
		f.Warn("the annotation %s cannot be read in full, and the next acquisition drops the rest: %s", record.AnnotationHistory, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err != nil
}

// ledFor is for how long the first of some terms lasted. The last of them was over at that time.
func ledFor(terms []history.Term, over time.Time) *int64 {
	if len(terms) > 1 {
		next := terms[1]
		if over = next.Acquired; next.NobodyLed != nil && !over.IsZero() {
			over = over.Add(-*next.NobodyLed)
		}
	}
	if lasted := over.Sub(terms[0].Acquired); !terms[0].Acquired.IsZero() && !over.IsZero() && lasted >= 0 {
		return milliseconds(&lasted)
	}
	return nil // or the clocks of two holders differ by more than that
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	n := d.Milliseconds()
	return &n
}
