// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// listen watches until the test ends, and returns a function that returns what was told since the last call.
func listen(t *testing.T, twin *both, from locks.Version) (told func() []locks.Event) {
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan locks.Event, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		_ = twin.Watch(ctx, from, events)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() (all []locks.Event) {
		synctest.Wait()
		for {
			select {
			case e := <-events:
				all = append(all, e)
			default:
				return all
			}
		}
	}
}

// toldOne returns what a watch was told of, which must be one state.
func toldOne(t *testing.T, told func() []locks.Event) locks.Snapshot {
	t.Helper()
	events := told()
	if len(events) != 1 {
		t.Fatalf("told %+v, want one state", events)
	}
	return events[0].Snapshot
}

func TestAWatchKeepsHalfOfAWriteToItselfForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		twin, _, _ := p.twin()
		first := p.write(twin, locks.Version{}, ours("a", 1))
		told := listen(t, twin, first.Version)
		if events := told(); len(events) > 0 {
			t.Fatalf("told of nothing new: %+v", events)
		}
		p.put(p.legacy, ours("b", 3))
		time.Sleep(halfWriteHold / 2)
		if events := told(); len(events) > 0 {
			t.Fatalf("told half a write at once: %+v", events)
		}
		whole := p.put(p.governing, ours("b", 3))
		if s := toldOne(t, told); s.Record.Holder != "b" || s.Version.Number != whole.Version.Number {
			t.Fatalf("told %+v, want the whole of it", s)
		}
		p.put(p.legacy, given(ours("b", 4)))
		time.Sleep(halfWriteHold / 2)
		if events := told(); len(events) > 0 {
			t.Fatalf("told half a release at once: %+v", events)
		}
		p.put(p.governing, given(ours("b", 4)))
		if s := toldOne(t, told); s.Record != given(ours("b", 4)) {
			t.Fatalf("told %+v, want the release", s)
		}
		p.put(p.legacy, ours("c", 5))
		time.Sleep(halfWriteHold)
		if s := toldOne(t, told); s.Record.Holder != "c" || !s.Partial {
			t.Fatalf("told %+v, want half a write after %v", s, halfWriteHold)
		}
	})
}

// TestS4WhoListensLateMissesNoState: a holder whose record was deleted meanwhile may have asked for a longer lease.
func TestS4WhoListensLateMissesNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		twin, _, _ := p.twin()
		first := p.write(twin, locks.Version{}, ours("a", 1))
		ctx, cancel := context.WithCancel(t.Context())
		events, ended := make(chan locks.Event), make(chan struct{})
		go func() {
			defer close(ended)
			_ = twin.Watch(ctx, first.Version, events)
		}()
		synctest.Wait()
		p.put(p.legacy, ours("b", 2))
		p.put(p.governing, ours("b", 2))
		synctest.Wait()
		p.legacy.Delete()
		p.governing.Delete()
		time.Sleep(time.Minute)
		if e := <-events; e.Snapshot.Record.Holder != "b" {
			t.Errorf("the first that it hears of is %q, want b", e.Snapshot.Record.Holder)
		}
		cancel()
		<-ended
	})
}

func TestAWatchTellsAtOnceWhatALegacyElectorWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		twin, _, _ := p.twin()
		first := p.write(twin, locks.Version{}, ours("a", 1))
		told := listen(t, twin, first.Version)
		told()
		p.put(p.legacy, theirs("L", 2))
		if s := toldOne(t, told); !strings.Contains(s.Record.Holder, "legacy: L") {
			t.Fatalf("told %+v", s)
		}
		p.legacy.Delete()
		if s := toldOne(t, told); s.Record.Holder != "a" || !s.Partial {
			t.Fatalf("told %+v, want that the Lease's holder is the one left", s)
		}
		p.governing.Delete()
		if s := toldOne(t, told); s.Version.Exists() {
			t.Fatalf("told %+v, want that nothing is left", s)
		}
	})
}

// TestEachStateHasANumberOfItsOwn, and a later state has a larger one, however reads,
// writes, two watches at different speeds and changes by others coincide.
func TestEachStateHasANumberOfItsOwn(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { numberStates(t, seed) })
	}
}

func numberStates(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 1))
	p := newPair(t)
	governing, legacy := &lagging{Lock: p.governing}, &lagging{Lock: p.legacy}
	twin := twinOf(governing, legacy)
	told := listen(t, twin, locks.Version{})
	states := map[uint64]twinPlace{}
	note := func(s locks.Snapshot) {
		t.Helper()
		state, ok := s.Version.Opaque.(*twinState)
		if !ok {
			return
		}
		before, known := states[s.Version.Number]
		if known && before != state.at {
			t.Errorf("seed %d: number %d is that of %v and of %v", seed, s.Version.Number, before, state.at)
		}
		states[s.Version.Number] = state.at
	}
	var last uint64
	for second := range 60 {
		switch dice.IntN(8) {
		case 0:
			p.put(p.legacy, theirs("L", second))
		case 1:
			p.put(p.governing, ours("Z", second))
		case 2:
			p.legacy.Delete()
		case 3:
			p.governing.Delete()
		case 4:
			governing.lag.Store(dice.Int64N(3) * int64(time.Second))
			legacy.lag.Store(dice.Int64N(3) * int64(time.Second))
		default:
			s := p.read(twin)
			note(s)
			s, err := twin.Write(t.Context(), s.Version, ours("a", second))
			if now := p.read(p.governing).Version.Number; err != nil || s.Version.Token != now {
				t.Errorf("seed %d: wrote with the token %d, %v, at %d", seed, s.Version.Token, err, now)
			}
			if s.Version.Number <= last {
				t.Errorf("seed %d: wrote at %d after being told of %d", seed, s.Version.Number, last)
			}
			note(s)
		}
		if dice.IntN(2) == 0 {
			time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
		}
		for _, e := range told() {
			if n := e.Snapshot.Version.Number; n < last {
				t.Errorf("seed %d: told %d after %d", seed, n, last)
			}
			last = e.Snapshot.Version.Number
			note(e.Snapshot)
		}
	}
	// In the end every state is reported.
	p.put(p.legacy, theirs("L", 99))
	time.Sleep(time.Hour)
	events := told()
	if len(events) == 0 || !strings.Contains(events[len(events)-1].Snapshot.Record.Holder, "L") {
		t.Errorf("seed %d: last told %+v", seed, events)
	}
}

// lagging is a lock whose watch lags.
type lagging struct {
	locks.Lock
	lag atomic.Int64
}

func (l *lagging) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- l.Lock.Watch(ctx, from, between) }()
	for {
		select {
		case e := <-between:
			time.Sleep(time.Duration(l.lag.Load()))
			select {
			case events <- e:
			case <-ctx.Done():
				return <-ended
			}
		case err := <-ended:
			return err
		}
	}
}
