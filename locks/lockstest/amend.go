// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

func amend(ctx context.Context, l locks.Lock, before, r locks.Record) (locks.Snapshot, error) {
	return l.(locks.Amender).Amend(ctx, before, r)
}

// renewedRecord is a renewal of r that sets a token and a process lock and clears the
// refusal.
func renewedRecord(r locks.Record) locks.Record {
	r.RenewTime = r.RenewTime.Add(2 * time.Second)
	r.Details.Token, r.Details.Refused, r.Details.ProcessLock = 7654321, "", "seat-1"
	return r
}

func amended(t *testing.T, ctx context.Context, l locks.Lock) {
	before := suiteRecord("a", 1)
	before.Details.Request = ""
	first := mustWrite(t, ctx, l, locks.Version{}, before)
	asked := before
	asked.Details.Request, asked.Evacuated = `{"holder":"a"}`, "za"
	asked.History = "- a"
	mustWrite(t, ctx, l, first.Version, asked) // by somebody else; the holder does not know
	want := renewedRecord(before)
	wrote, err := amend(ctx, l, before, want)
	if err != nil {
		t.Fatalf("Amend: %v", err)
	}
	want.Details.Request, want.Evacuated, want.History = asked.Details.Request, asked.Evacuated, asked.History
	if read := mustRead(t, ctx, l); !sameRecord(wrote.Record, want) || !sameRecord(read.Record, want) || wrote.Version.Number != read.Version.Number {
		t.Fatalf("want %+v\ngot back %+v\nread %+v", want, wrote, read)
	}
	if wrote.Version.Number <= first.Version.Number || wrote.Version.UID != first.Version.UID {
		t.Errorf("version %+v after %+v", wrote.Version, first.Version)
	}
	if _, err := l.Write(ctx, wrote.Version, suiteRecord("b", 2)); err != nil {
		t.Errorf("a write at the version of an amendment: %v", err)
	}
}

func amendedOther(t *testing.T, ctx context.Context, l locks.Lock) {
	stands := suiteRecord("a", 1)
	first := mustWrite(t, ctx, l, locks.Version{}, stands)
	for what, change := range map[string]func(*locks.Record){
		"another holder":            func(r *locks.Record) { r.Holder = "b" },
		"another lease duration":    func(r *locks.Record) { r.LeaseDuration += time.Second },
		"another acquisition":       func(r *locks.Record) { r.AcquireTime = r.AcquireTime.Add(time.Microsecond) },
		"another renewal":           func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(time.Microsecond) },
		"another term":              func(r *locks.Record) { r.Transitions++ },
		"another process":           func(r *locks.Record) { r.Details.Nonce = "n-2" },
		"another token":             func(r *locks.Record) { r.Details.Token++ },
		"details of another holder": func(r *locks.Record) { r.Details.Holder = "b" },
	} {
		before := stands
		change(&before)
		if _, err := amend(ctx, l, before, renewedRecord(before)); !errors.Is(err, locks.ErrConflict) {
			t.Errorf("amending %s: %v, want ErrConflict", what, err)
		}
	}
	if now := mustRead(t, ctx, l); now.Version.Number != first.Version.Number {
		t.Error("an amendment that conflicted was written")
	}
}

func amendedOnce(t *testing.T, ctx context.Context, l locks.Lock) {
	before := suiteRecord("a", 1)
	mustWrite(t, ctx, l, locks.Version{}, before)
	if _, err := amend(ctx, l, before, renewedRecord(before)); err != nil {
		t.Fatalf("Amend: %v", err)
	}
	if _, err := amend(ctx, l, before, renewedRecord(before)); !errors.Is(err, locks.ErrConflict) {
		t.Errorf("the same once more: %v, want ErrConflict", err)
	}
}

func amendedNothing(t *testing.T, ctx context.Context, l locks.Lock) {
	before := suiteRecord("a", 1)
	if _, err := amend(ctx, l, before, renewedRecord(before)); !errors.Is(err, locks.ErrConflict) {
		t.Errorf("amending no record: %v, want ErrConflict", err)
	}
}

func oneAmends(t *testing.T, ctx context.Context, l locks.Lock) {
	before := suiteRecord("a", 1)
	mustWrite(t, ctx, l, locks.Version{}, before)
	var all sync.WaitGroup
	var landed atomic.Int32
	for n := range 8 {
		all.Go(func() {
			r := renewedRecord(before)
			r.RenewTime = r.RenewTime.Add(time.Duration(n) * time.Second)
			_, err := amend(ctx, l, before, r)
			if err == nil {
				landed.Add(1)
			} else if !errors.Is(err, locks.ErrConflict) {
				t.Errorf("Amend: %v", err)
			}
		})
	}
	all.Wait()
	if landed.Load() != 1 {
		t.Errorf("%d of 8 amendments of one record landed", landed.Load())
	}
}
