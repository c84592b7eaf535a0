// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/locks/multilock"
)

func TestATwinHoldsTheLawsOfEveryLock(t *testing.T) {
	for name, in := range map[string]struct {
		kind  annotation.Kind
		phase record.Phase
	}{
		"configmaps": {annotation.ConfigMaps, record.PhaseDual}, "endpoints": {annotation.Endpoints, record.PhaseDual},
		"clean": {annotation.Endpoints, record.PhaseClean},
	} {
		t.Run(name, func(t *testing.T) {
			servers := map[locks.Lock]*apitest.Server{}
			lockstest.RunSuite(t, lockstest.Suite{
				New: func(t *testing.T) locks.Lock {
					server := apitest.NewServer()
					twin := realTwin(t, server, in.kind)
					twin.phase.Note(record.Stage{Phase: in.phase, Step: 2})
					servers[twin] = server
					return twin
				},
				Delete: func(_ *testing.T, l locks.Lock) {
					servers[l].Delete("/api/v1/namespaces/ns/" + string(in.kind) + "/lock")
					servers[l].Delete("/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock")
				},
				StoreNothing: func(_ *testing.T, l locks.Lock) { servers[l].StoreNothing() },
			})
		})
	}
}

// realTwin is a Twin of a Lease and an annotation lock.
func realTwin(t *testing.T, server *apitest.Server, kind annotation.Kind) *Lock {
	t.Helper()
	twin, err := New(Config{
		Config: multilock.Config{
			Lease: lease.Config{Client: apitest.Wire(t, server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
			Core:  apitest.Wire(t, server, corev1.SchemeGroupVersion),
		},
		Kind: kind,
	})
	if err != nil {
		t.Fatal(err)
	}
	return twin
}

func TestNewTwinListsWhatIsWrong(t *testing.T) {
	_, err := New(Config{
		Config: multilock.Config{
			Timing: election.Timing{LeaseDuration: time.Second},
		},
		Mode: "x",
	})
	for _, word := range []string{`"x" is neither`, "LeaseDuration", "namespace is empty", "name is empty", `the kind is ""`} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}

// pair is two locks in one memory, and Twins of them.
type pair struct {
	t                 *testing.T
	governing, legacy *memory.Lock
}

func newPair(t *testing.T) *pair {
	governing := memory.New("governing")
	return &pair{t: t, governing: governing, legacy: governing.Beside("legacy")}
}

// twin returns a Twin whose connections to both locks can fail.
func (p *pair) twin() (twin *both, governing, legacy *lockstest.Faulty) {
	p.t.Helper()
	governing, legacy = lockstest.NewFaulty(p.governing), lockstest.NewFaulty(p.legacy)
	return twinOf(governing, legacy), governing, legacy
}

// twinOf returns a Twin that is always in phase dual.
func twinOf(governing, legacy locks.Lock) *both {
	return &both{governing: governing, legacy: legacy, governsAlone: func(locks.Snapshot) bool { return false }, heard: func(locks.Record) {}}
}

// put writes a record into one of the locks, whatever it holds.
func (p *pair) put(lock *memory.Lock, r locks.Record) locks.Snapshot {
	p.t.Helper()
	return p.write(lock, p.read(lock).Version, r)
}

// write writes a record at that version.
func (p *pair) write(lock locks.Lock, base locks.Version, r locks.Record) locks.Snapshot {
	p.t.Helper()
	s, err := lock.Write(p.t.Context(), base, r)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *pair) read(lock locks.Lock) locks.Snapshot {
	p.t.Helper()
	s, err := lock.Read(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// ours returns a renewal by a candidate of this library.
func ours(holder string, second int) locks.Record {
	at := noon.Add(time.Duration(second)*time.Second + time.Microsecond)
	return locks.Record{
		Holder: holder, LeaseDuration: 15 * time.Second, AcquireTime: noon, RenewTime: at,
		Details: locks.Details{Holder: holder, Token: 7},
	}
}

// theirs returns a renewal by a legacy elector, which has left in place the details that
// a candidate of this library once wrote.
func theirs(holder string, second int) locks.Record {
	at := noon.Add(time.Duration(second) * time.Second)
	return locks.Record{
		Holder: holder, LeaseDuration: 30 * time.Second, AcquireTime: noon, RenewTime: at,
		Details: locks.Details{Holder: "long gone", Token: 3},
	}
}

func given(r locks.Record) locks.Record {
	r.Holder, r.LeaseDuration, r.Details.Released = "", time.Second, r.Details.Token
	return r
}

func lasting(r locks.Record, d time.Duration) locks.Record {
	r.LeaseDuration = d
	return r
}

// emptied returns r without its holder, as after a manual edit.
func emptied(r locks.Record, d time.Duration) locks.Record {
	r.Holder, r.LeaseDuration = "", d
	return r
}

func cleared(r locks.Record) locks.Record {
	r.Holder, r.LeaseDuration = "", time.Second
	return r
}

// TestWhatTwoRecordsReadAs has the table of what two records read as.
func TestWhatTwoRecordsReadAs(t *testing.T) {
	both := UnknownHolder + " (legacy: L, governing: Z)"
	for name, tc := range map[string]struct {
		governing, legacy *locks.Record
		holder            string
		lease             time.Duration
		renewed           time.Time
		released          bool // for an empty record: the elector takes it for released
		partial           bool
	}{
		"the same renewal":                         {governing: of(ours("Z", 2)), legacy: of(ours("Z", 2)), holder: "Z", lease: 15 * time.Second, renewed: ours("", 2).RenewTime},
		"half a renewal of ours is none":           {governing: of(ours("Z", 2)), legacy: of(ours("Z", 4)), holder: "Z", lease: 15 * time.Second, renewed: ours("", 2).RenewTime},
		"the Lease's duration changed by hand":     {governing: of(lasting(ours("Z", 2), time.Second)), legacy: of(ours("Z", 2)), holder: "Z", lease: 15 * time.Second, renewed: ours("", 2).RenewTime, partial: true},
		"the legacy duration changed by hand":      {governing: of(ours("Z", 2)), legacy: of(lasting(ours("Z", 2), time.Hour)), holder: "Z", lease: time.Hour, renewed: ours("", 2).RenewTime, partial: true},
		"the Lease alone renewed":                  {governing: of(ours("Z", 4)), legacy: of(ours("Z", 2)), holder: "Z", lease: 15 * time.Second, renewed: ours("", 4).RenewTime},
		"client-go's MultiLock":                    {governing: of(ours("L", 2)), legacy: of(theirs("L", 2)), holder: "L", lease: 15 * time.Second, renewed: ours("", 2).RenewTime},
		"half a renewal of theirs may be one":      {governing: of(ours("L", 2)), legacy: of(theirs("L", 4)), holder: "L", lease: 30 * time.Second, renewed: theirs("", 4).RenewTime},
		"different holders":                        {governing: of(ours("Z", 2)), legacy: of(theirs("L", 4)), holder: both, lease: 30 * time.Second, renewed: theirs("", 4).RenewTime},
		"two holders, the shorter lease last":      {governing: of(lasting(ours("Z", 2), time.Hour)), legacy: of(theirs("L", 4)), holder: both, lease: time.Hour, renewed: theirs("", 4).RenewTime},
		"different holders with an older clock":    {governing: of(ours("Z", 8)), legacy: of(theirs("L", 4)), holder: both, lease: 30 * time.Second, renewed: theirs("", 4).RenewTime},
		"two holders, the legacy one has no end":   {governing: of(ours("Z", 2)), legacy: of(lasting(theirs("L", 4), 0)), holder: both, renewed: theirs("", 4).RenewTime},
		"two holders, the Lease's has no end":      {governing: of(lasting(theirs("Z", 2), 0)), legacy: of(theirs("L", 4)), holder: both, renewed: theirs("", 4).RenewTime},
		"no Lease":                                 {legacy: of(theirs("L", 4)), holder: "L", lease: 30 * time.Second, renewed: theirs("", 4).RenewTime, partial: true},
		"no legacy object":                         {governing: of(ours("Z", 2)), holder: "Z", lease: 15 * time.Second, renewed: ours("", 2).RenewTime, partial: true},
		"a free Lease":                             {governing: of(given(ours("Z", 2))), legacy: of(theirs("L", 4)), holder: "L", lease: 30 * time.Second, renewed: theirs("", 4).RenewTime, partial: true},
		"a free legacy object":                     {governing: of(ours("Z", 2)), legacy: of(cleared(theirs("L", 4))), holder: "Z", lease: 15 * time.Second, renewed: ours("", 2).RenewTime, partial: true},
		"a Lease that a hand emptied":              {governing: of(emptied(ours("Z", 2), time.Hour)), legacy: of(theirs("L", 4)), holder: "L", lease: time.Hour, renewed: theirs("", 4).RenewTime, partial: true},
		"a legacy object that a hand emptied":      {governing: of(ours("Z", 2)), legacy: of(emptied(theirs("L", 4), time.Hour)), holder: "Z", lease: time.Hour, renewed: ours("", 2).RenewTime, partial: true},
		"one without a duration beside a free one": {governing: of(given(ours("Z", 2))), legacy: of(lasting(theirs("L", 4), 0)), holder: "L", renewed: theirs("", 4).RenewTime, partial: true},
		"an object without a record":               {governing: of(ours("Z", 2)), legacy: &locks.Record{}, holder: "Z", lease: 15 * time.Second, renewed: ours("", 2).RenewTime, partial: true},
		"both given up":                            {governing: of(given(ours("Z", 2))), legacy: of(given(ours("Z", 2))), lease: time.Second, renewed: ours("", 2).RenewTime, released: true},
		"the legacy object given up last":          {governing: of(given(ours("Z", 2))), legacy: of(given(ours("Z", 4))), lease: time.Second, renewed: ours("", 4).RenewTime, released: true},
		"both cleared by somebody":                 {governing: of(cleared(ours("Z", 2))), legacy: of(cleared(ours("Z", 2))), lease: time.Second, renewed: ours("", 2).RenewTime},
		"the legacy object alone cleared":          {governing: &locks.Record{}, legacy: of(cleared(ours("Z", 2))), lease: time.Second, renewed: ours("", 2).RenewTime},
		"a legacy object that ours gave up, alone": {legacy: of(given(ours("Z", 2))), lease: time.Second, renewed: ours("", 2).RenewTime},
		"one that its elector gave up, alone":      {legacy: of(cleared(theirs("L", 4))), lease: time.Second, renewed: theirs("", 4).RenewTime},
		"a free Lease alone":                       {governing: of(given(ours("Z", 2))), lease: time.Second, renewed: ours("", 2).RenewTime},
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
			if !s.Version.Exists() || r.Holder != tc.holder || r.LeaseDuration != tc.lease || !r.RenewTime.Equal(tc.renewed) || s.Partial != tc.partial {
				t.Errorf("read %+v\nwant holder %q for %v, renewed at %v, partial %v", s, tc.holder, tc.lease, tc.renewed, tc.partial)
			}
			if r.Evacuated != evacuated {
				t.Errorf("evacuated are %q, want %q", r.Evacuated, evacuated)
			}
			if r.Previous != previous {
				t.Errorf("before led %+v, want %+v", r.Previous, previous)
			}
			if tc.holder == "" && isReleased(r) != tc.released {
				t.Errorf("given up: %v, want %v: %+v", isReleased(r), tc.released, r)
			}
		})
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
	if _, err := twin.Write(t.Context(), locks.Version{}, ours("a", 1)); !errors.Is(err, locks.ErrConflict) || p.read(p.legacy).Record.Holder != "L" {
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

func of(r locks.Record) *locks.Record { return &r }

func TestTheLegacyLockIsWrittenFirst(t *testing.T) {
	p := newPair(t)
	twin, governing, legacy := p.twin()
	base := locks.Version{}
	for second := range 3 {
		s := p.write(twin, base, ours("a", second))
		first, second := p.read(p.legacy).Version.Number, p.read(p.governing).Version.Number
		if first >= second || s.Version.Number != second {
			t.Errorf("legacy at %d, governing at %d, both at %d", first, second, s.Version.Number)
		}
		base = s.Version
	}
	writes := governing.Calls("write")
	legacy.Set(lockstest.Fault{Err: errors.New("no")})
	if _, err := twin.Write(t.Context(), base, ours("a", 9)); err == nil || governing.Calls("write") != writes {
		t.Errorf("after a legacy write that failed with %v the governing lock was written", err)
	}
}

// TestHalfAWriteIsAnErrorAndNoRenewal, and the state that it leaves can be replaced.
func TestHalfAWriteIsAnErrorAndNoRenewal(t *testing.T) {
	p := newPair(t)
	twin, governing, _ := p.twin()
	whole := p.write(twin, locks.Version{}, ours("a", 1))
	governing.Set(lockstest.Fault{Err: locks.ErrConflict}) // which would mean that nothing was written
	if _, err := twin.Write(t.Context(), whole.Version, ours("a", 3)); err == nil || errors.Is(err, locks.ErrConflict) {
		t.Errorf("half a write ended with %v", err)
	}
	governing.Set(lockstest.Fault{})
	half := p.read(twin)
	if half.Record != whole.Record || half.Version.Number <= whole.Version.Number {
		t.Errorf("read %+v\nwant the renewal as before: %+v", half, whole)
	}
	if _, err := twin.Write(t.Context(), whole.Version, ours("a", 5)); !errors.Is(err, locks.ErrConflict) {
		t.Errorf("a write at the version before half a write: %v", err)
	}
	if again := p.write(twin, half.Version, ours("a", 5)); again.Record != ours("a", 5) {
		t.Errorf("wrote %+v", again)
	}
}

// interrupted calls before once, right before it is read or written next.
type interrupted struct {
	locks.Lock
	before func()
}

func (i *interrupted) Read(ctx context.Context) (locks.Snapshot, error) {
	i.interrupt()
	return i.Lock.Read(ctx)
}

func (i *interrupted) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	i.interrupt()
	return i.Lock.Write(ctx, base, r)
}

func (i *interrupted) interrupt() {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
}

// TestS1AWriteWhoseLegacySideSomebodyOverwroteRenewsNothing: between its two halves.
func TestS1AWriteWhoseLegacySideSomebodyOverwroteRenewsNothing(t *testing.T) {
	p := newPair(t)
	late := &interrupted{Lock: p.governing}
	twin := twinOf(late, p.legacy)
	s := p.write(twin, locks.Version{}, ours("a", 1))
	late.before = func() {
		p.put(p.legacy, theirs("b", 3))
		p.read(twin) // as its watch does
	}
	if s, err := twin.Write(t.Context(), s.Version, ours("a", 3)); err == nil || errors.Is(err, locks.ErrConflict) {
		t.Errorf("wrote %+v, %v", s, err)
	}
}

func TestAVersionOfAnotherLockIsNotWrittenUpon(t *testing.T) {
	p := newPair(t)
	twin, _, legacy := p.twin()
	foreign := p.put(p.governing, ours("a", 1)).Version
	if _, err := twin.Write(t.Context(), foreign, ours("a", 2)); err == nil || errors.Is(err, locks.ErrConflict) || legacy.Calls("write") != 0 {
		t.Errorf("ended with %v after %d writes", err, legacy.Calls("write"))
	}
}

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
		first, err := twin.Write(t.Context(), locks.Version{}, ours("a", 1))
		if err != nil {
			t.Fatal(err)
		}
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
