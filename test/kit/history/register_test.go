// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

// written is a register and what its writers printed: a leads with token 10, and
// b with token 20 from second 8 on.
type written struct {
	register Register
	printed  Printed
}

func newWritten() *written {
	w := &written{printed: Printed{}}
	w.print("b", events.Event{Event: "leading", Token: 20, Time: time.Unix(8, 0)})
	w.land("a", 10, 1)
	w.land("b", 20, 1)
	return w
}

func (w *written) print(who string, e events.Event) { w.printed[who] = append(w.printed[who], e) }

// land records that a write reaches the register.
func (w *written) land(who string, token uint64, sequence int) {
	w.register = append(w.register, Revision{Version: uint64(100 + len(w.register)), Token: token, Identity: who, Sequence: sequence})
}

// write sends a write, which lands now. err is the error that the writer got.
func (w *written) write(who string, token uint64, sequence, sent int, err string) {
	w.land(who, token, sequence)
	w.print(who, events.Event{Event: "wrote", Token: token, Sequence: sequence, Sent: time.Unix(int64(sent), 0), Error: err})
}

func TestTheOrderOfWritesShowsWhoWasAtWork(t *testing.T) {
	for name, c := range map[string]struct {
		then           func(*written)
		overlaps, late int
	}{
		"in order":                             {func(w *written) { w.write("b", 20, 2, 9, "") }, 0, 0},
		"an earlier term's is acknowledged":    {func(w *written) { w.write("a", 10, 2, 7, "") }, 1, 0},
		"it was sent after the later's begin":  {func(w *written) { w.write("a", 10, 2, 9, "timed out") }, 1, 0},
		"it was sent in time, and landed late": {func(w *written) { w.write("a", 10, 2, 7, "timed out") }, 0, 1},
		"its writer is dead":                   {func(w *written) { w.land("a", 10, 2) }, 0, 1},
		"it came at the moment of the begin":   {func(w *written) { w.write("a", 10, 2, 8, "timed out") }, 0, 1},
		"two have one token":                   {func(w *written) { w.land("c", 20, 2) }, 1, 0},
		"one's own, again":                     {func(w *written) { w.land("b", 20, 1) }, 0, 1},
		"the same two, twice": {func(w *written) {
			w.write("a", 10, 2, 9, "")
			w.write("b", 20, 2, 9, "")
			w.write("a", 10, 3, 9, "")
		}, 2, 0},
	} {
		w := newWritten()
		c.then(w)
		overlaps, late := w.register.Overlaps(w.printed)
		if len(overlaps) != c.overlaps || late != c.late {
			t.Errorf("%s: found %v and %d late writes, want %d and %d", name, overlaps, late, c.overlaps, c.late)
		}
	}
}
