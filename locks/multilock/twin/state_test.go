// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// TestWhatTwoRecordsReadAs has the table of what two records read as.
func TestWhatTwoRecordsReadAs(t *testing.T) {
	byZ, byL := ours("Z", 2), theirs("L", 4)
	both := UnknownHolder + " (legacy: L, governing: Z)"
	for name, tc := range map[string]struct {
		governing, legacy *locks.Record
		want              locks.Record // its holder, duration and renewal
		is                string       // "partial", or "released", for which the elector takes it; else empty
	}{
		"the same renewal":                    {of(byZ), of(byZ), byZ, ""},
		"half a renewal of ours is none":      {of(byZ), of(ours("Z", 4)), byZ, ""},
		"the Lease's duration edited":         {of(lasting(byZ, time.Second)), of(byZ), byZ, "partial"},
		"the legacy duration edited":          {of(byZ), of(lasting(byZ, time.Hour)), lasting(byZ, time.Hour), "partial"},
		"the Lease alone renewed":             {of(ours("Z", 4)), of(byZ), ours("Z", 4), ""},
		"client-go's MultiLock":               {of(ours("L", 2)), of(theirs("L", 2)), ours("L", 2), ""},
		"half a renewal of theirs may be one": {of(ours("L", 2)), of(byL), byL, ""},
		"different holders":                   {of(byZ), of(byL), theirs(both, 4), ""},
		"two holders, the shorter lease last": {of(lasting(byZ, time.Hour)), of(byL), lasting(theirs(both, 4), time.Hour), ""},
		"two holders, an older clock":         {of(ours("Z", 8)), of(byL), theirs(both, 4), ""},
		"two holders, the legacy one endless": {of(byZ), of(lasting(byL, 0)), lasting(theirs(both, 4), 0), ""},
		"two holders, the Lease's endless":    {of(lasting(theirs("Z", 2), 0)), of(byL), lasting(theirs(both, 4), 0), ""},
		"no Lease":                            {nil, of(byL), byL, "partial"},
		"no legacy object":                    {of(byZ), nil, byZ, "partial"},
		"a free Lease":                        {of(given(byZ)), of(byL), byL, "partial"},
		"a free legacy object":                {of(byZ), of(cleared(byL)), byZ, "partial"},
		"a Lease emptied by hand":             {of(emptied(byZ, time.Hour)), of(byL), lasting(byL, time.Hour), "partial"},
		"a legacy object emptied by hand":     {of(byZ), of(emptied(byL, time.Hour)), lasting(byZ, time.Hour), "partial"},
		"an endless one beside a free one":    {of(given(byZ)), of(lasting(byL, 0)), lasting(byL, 0), "partial"},
		"an object without a record":          {of(byZ), &locks.Record{}, byZ, "partial"},
		"both given up":                       {of(given(byZ)), of(given(byZ)), given(ours("", 2)), "released"},
		"the legacy object given up last":     {of(given(byZ)), of(given(ours("Z", 4))), given(ours("", 4)), "released"},
		"both cleared by somebody":            {of(cleared(byZ)), of(cleared(byZ)), cleared(ours("", 2)), ""},
		"the legacy object alone cleared":     {&locks.Record{}, of(cleared(byZ)), cleared(ours("", 2)), ""},
		"one that ours gave up, alone":        {nil, of(given(byZ)), cleared(ours("", 2)), ""},
		"one that theirs gave up, alone":      {nil, of(cleared(byL)), cleared(theirs("", 4)), ""},
		"a free Lease alone":                  {of(given(byZ)), nil, cleared(ours("", 2)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			evacuated, previous := "", locks.Previous{}
			if tc.governing != nil {
				evacuated, previous = "za", locks.Previous{Holder: "Z", Cause: "expired"}
				tc.governing.Evacuated, tc.governing.Previous = evacuated, previous
				p.put(p.governing, *tc.governing)
			}
			if tc.legacy != nil {
				p.put(p.legacy, *tc.legacy)
			}
			twin, _, _ := p.twin()
			s := p.read(twin)
			r := s.Record
			same := r.Holder == tc.want.Holder && r.LeaseDuration == tc.want.LeaseDuration && r.RenewTime.Equal(tc.want.RenewTime)
			if !s.Version.Exists() || !same || s.Partial != (tc.is == "partial") {
				t.Errorf("read %+v\nwant %+v %s", s, tc.want, tc.is)
			}
			if r.Evacuated != evacuated {
				t.Errorf("evacuated are %q, want %q", r.Evacuated, evacuated)
			}
			if r.Previous != previous {
				t.Errorf("before led %+v, want %+v", r.Previous, previous)
			}
			if released := isReleased(r); tc.want.Holder == "" && released != (tc.is == "released") {
				t.Errorf("given up: %v, and it should be %q: %+v", released, tc.is, r)
			}
		})
	}
}

func of(r locks.Record) *locks.Record { return &r }

// TestS3ADurationThatAPersonSetsOnAnEmptiedLeaseFreesTheLockAfterIt, although the holder before is on the legacy
// object: whoever saw the Lease without a duration would wait for ever.
func TestS3ADurationThatAPersonSetsOnAnEmptiedLeaseFreesTheLockAfterIt(t *testing.T) {
	l := ours("L", 2)
	for set, want := range map[time.Duration]bool{0: false, time.Second: false, 2 * time.Second: true} {
		at := func(number uint64) locks.Version { return locks.Version{Number: number, Opaque: number} }
		g := locks.Snapshot{Version: at(3), Record: emptied(ours("Z", 9), set)}
		s := twinState{governing: g, legacy: locks.Snapshot{Version: at(2), Record: l}}
		if r, _ := s.record(); r.SameRenewal(l) == want {
			t.Errorf("%v: %+v", set, r)
		}
	}
}

// TestAnObjectWithoutARecordIsNoLock: the object exists for other reasons. Otherwise a
// deleted lock would count as released once the Lease beside it is gone too.
func TestAnObjectWithoutARecordIsNoLock(t *testing.T) {
	p := newPair(t)
	bare := p.put(p.legacy, locks.Record{})
	twin, _, _ := p.twin()
	if s := p.read(twin); s.Version.Exists() {
		t.Errorf("read %+v", s)
	}
	p.put(p.legacy, theirs("L", 1))
	_, err := twin.Write(t.Context(), locks.Version{}, ours("a", 1))
	if !errors.Is(err, locks.ErrConflict) || p.read(p.legacy).Record.Holder != "L" {
		t.Errorf("wrote over another's record, with %v", err)
	}
	p.put(p.legacy, locks.Record{})
	p.write(twin, locks.Version{}, ours("a", 2))
	if now := p.read(p.legacy); now.Record != ours("a", 2) || now.Version.UID != bare.Version.UID {
		t.Errorf("the object is %+v", now)
	}
}

// TestS3HalfARenewalIsTakenOnlyIfAReadConfirmsTheOtherHalf: a watch of the Lease may be silent.
func TestS3HalfARenewalIsTakenOnlyIfAReadConfirmsTheOtherHalf(t *testing.T) {
	for name, tc := range map[string]struct {
		since func(*pair)
		want  error
	}{
		"nothing has happened":      {func(*pair) {}, nil},
		"the Lease is renewed":      {func(p *pair) { p.put(p.governing, ours("a", 4)) }, locks.ErrConflict},
		"the Lease is gone":         {func(p *pair) { p.governing.Delete() }, locks.ErrConflict},
		"the Lease is another":      {func(p *pair) { p.governing.Delete(); p.put(p.governing, ours("a", 4)) }, locks.ErrConflict},
		"the Lease is not readable": {nil, lockstest.ErrInjected},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.put(p.governing, ours("a", 2))
			p.put(p.legacy, ours("a", 4))
			twin, governing, _ := p.twin()
			half := p.read(twin)
			if tc.since == nil {
				governing.Set(lockstest.Fault{Err: errors.New("503")})
			} else {
				tc.since(p)
			}
			_, err := twin.Write(t.Context(), half.Version, ours("b", 20))
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if holder := p.read(p.legacy).Record.Holder; (holder == "a") != (tc.want != nil) {
				t.Errorf("the legacy record is of %q", holder)
			}
		})
	}
}

// TestTheLeaseThatIsGoneIsConfirmedToBeGone, although a read does not say since which version.
func TestTheLeaseThatIsGoneIsConfirmedToBeGone(t *testing.T) {
	p := newPair(t)
	p.put(p.governing, ours("a", 2))
	p.put(p.legacy, ours("a", 4))
	twin, _, _ := p.twin()
	events, from := make(chan locks.Event), p.read(twin).Version
	go func() { _ = twin.Watch(t.Context(), from, events) }()
	p.governing.Delete()
	gone := <-events
	p.write(twin, gone.Snapshot.Version, ours("b", 20))
}

// TestATwinIsBarredIfItsLeaseIs.
func TestATwinIsBarredIfItsLeaseIs(t *testing.T) {
	g := locks.Snapshot{Version: locks.Version{Number: 5, Opaque: &coordinationv1.Lease{}}, Barred: "it is for others"}
	for _, only := range []bool{true, false} {
		if s := (&twinState{governing: g, governingOnly: only}).snapshot(5); s.Barred == "" {
			t.Errorf("governingOnly=%v: the Lease is barred, and the twin is not: %+v", only, s.Barred)
		}
	}
}

// TestAReadIsOfOneMoment, although others write between its two requests.
func TestAReadIsOfOneMoment(t *testing.T) {
	p := newPair(t)
	p.put(p.legacy, ours("a", 1))
	p.put(p.governing, ours("a", 1))
	late := &interrupted{Lock: p.legacy, before: func() {
		p.put(p.legacy, ours("b", 2))
		p.put(p.governing, ours("b", 2))
		p.put(p.legacy, theirs("L", 9))
	}}
	twin := twinOf(p.governing, late)
	if got := p.read(twin).Record.Holder; !strings.Contains(got, "legacy: L, governing: b") {
		t.Errorf("read %q, which never stood there", got)
	}
}

func TestAHistoryThatWentBackIsRead(t *testing.T) {
	p := newPair(t)
	twin, _, _ := p.twin()
	base := locks.Version{}
	for second := range 5 {
		s := p.write(twin, base, ours("a", second))
		base = s.Version
	}
	p.governing.Restore(ours("b", 1))
	p.put(p.legacy, ours("b", 1))
	p.legacy.Restore(ours("b", 1))
	if s := p.read(twin); s.Record.Holder != "b" || s.Version.Number >= base.Number {
		t.Errorf("read %+v after version %d", s, base.Number)
	}
}
