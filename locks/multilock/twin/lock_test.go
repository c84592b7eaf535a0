// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
func realTwin(t *testing.T, server http.Handler, kind annotation.Kind) *Lock {
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
	_, err := twin.Write(t.Context(), foreign, ours("a", 2))
	if writes := legacy.Calls("write"); err == nil || errors.Is(err, locks.ErrConflict) || writes != 0 {
		t.Errorf("ended with %v after %d writes", err, writes)
	}
}

// held returns a Twin through which a has taken both locks, and the state that it wrote.
func held(t *testing.T, server http.Handler) (*Lock, locks.Snapshot) {
	t.Helper()
	twin := realTwin(t, server, annotation.Endpoints)
	s, err := twin.Write(t.Context(), locks.Version{}, ours("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	return twin, s
}

// setPhase sets the phase on the Lease, as a migration tool does.
func setPhase(server *apitest.Server, phase record.Phase, step string) {
	server.Change("/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock", func(o apitest.Object) {
		annotations := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		annotations[record.AnnotationPhase], annotations[record.AnnotationPhaseStep] = string(phase), step
	})
}

// onLegacy returns the holder of the legacy lock.
func onLegacy(t *testing.T, twin *Lock) string {
	t.Helper()
	now, err := twin.record.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now.Record.Holder
}

// TestNothingIsTakenOffThatCounts: the phase or the leader may have changed by then.
func TestNothingIsTakenOffThatCounts(t *testing.T) {
	server := apitest.NewServer()
	twin, _ := held(t, server)
	tidy := func(term, want string) {
		t.Helper()
		err := twin.clearLegacyRecord(t.Context(), locks.Term{Holder: term})
		if got := onLegacy(t, twin); err != nil || got != want {
			t.Errorf("%q holds the legacy lock, want %q: %v", got, want, err)
		}
	}
	tidy("a", "a")
	setPhase(server, record.PhaseClean, "2")
	tidy("b", "a")
	tidy("a", "")
}

// TestHalfAWriteIsTakenOffAgain: the leader may see that its record is gone from the
// legacy object before it sees that the phase is clean, and write the record again.
func TestHalfAWriteIsTakenOffAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer()
		twin, before := held(t, server)
		setPhase(server, record.PhaseClean, "2")
		if _, err := twin.Read(t.Context()); err != nil { // it notes the phase
			t.Fatal(err)
		}
		go func() { _ = twin.Adopt(t.Context(), locks.Term{Holder: "a"}, func(locks.Permission) {}) }()
		synctest.Wait()
		state := *before.Version.Opaque.(*twinState)
		state.legacy, _ = twin.record.Read(t.Context())
		if _, err := twin.Write(t.Context(), locks.Version{Opaque: &state}, ours("a", 3)); err == nil || state.legacy.Record.Holder != "" {
			t.Errorf("what phase clean forbids was written: %v", err)
		}
		synctest.Wait()
		if holder := onLegacy(t, twin); holder != "" {
			t.Errorf("%s holds the legacy lock", holder)
		}
	})
}

// TestARecordThatIsWrittenSinceThePhaseWasReadStays: the phase goes back to dual between the two reads.
func TestARecordThatIsWrittenSinceThePhaseWasReadStays(t *testing.T) {
	server, requests := apitest.NewServer(), 0
	held(t, server)
	setPhase(server, record.PhaseClean, "2")
	twin := realTwin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 2 {
			setPhase(server, record.PhaseDual, "3")
		}
		server.ServeHTTP(w, r)
	}), annotation.Endpoints)
	if err := twin.clearLegacyRecord(t.Context(), locks.Term{Holder: "a"}); err != nil || requests != 2 {
		t.Errorf("%d requests, %v: two reads, and no write", requests, err)
	}
}
