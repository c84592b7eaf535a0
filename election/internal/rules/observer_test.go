// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// TestS3AnOlderStateIsNoNews: another API server shows what its cache has, which this candidate
// has seen before, or which was before all that it has seen.
func TestS3AnOlderStateIsNoNews(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	at := func(number uint64, holder string, renewed time.Duration) locks.Snapshot {
		return locks.Snapshot{Version: locks.Version{Number: number, UID: "u", Opaque: number}, Record: locks.Record{
			Holder: holder, LeaseDuration: lease, AcquireTime: start, RenewTime: start.Add(renewed),
		}}
	}
	released := at(3, "", time.Second)
	released.Record.LeaseDuration = time.Second
	o := NewObserver(Self{Identity: "b", Lease: lease})
	o.Observe(at(4, "a", 2*time.Second), start)
	o.Observe(at(5, "a", 4*time.Second), start.Add(2*time.Second))
	want, _ := o.Free()
	for what, s := range map[string]locks.Snapshot{
		"the renewal before": at(4, "a", 2*time.Second), "the last renewal": at(5, "a", 4*time.Second),
		"another holder": at(2, "c", 0), "a release": released, "no object yet": {Version: locks.Version{Number: 1}},
	} {
		if o.Observe(s, start.Add(4*time.Second)) || o.ObserveEvent(locks.Event{Snapshot: s, Gapless: true}, s.Version.Number-1, start.Add(4*time.Second)) {
			t.Errorf("%s is news", what)
		}
		if is, _ := o.Free(); is != want || o.Newest().Version.Number != 5 {
			t.Errorf("after %s: version %d, free at %v, want %v", what, o.Newest().Version.Number, is, want)
		}
	}
}

// TestS2AFormerHolderWaitsALeaseForItsOwnRestoredRecord: whoever led after it may still lead.
func TestS2AFormerHolderWaitsALeaseForItsOwnRestoredRecord(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	held := func(number uint64, holder string) locks.Snapshot {
		return locks.Snapshot{Version: locks.Version{Number: number, UID: "u", Opaque: number}, Record: locks.Record{
			Holder: holder, LeaseDuration: lease, AcquireTime: start.Add(time.Duration(number) * time.Second), RenewTime: start,
			Details: locks.Details{Holder: holder, Nonce: holder},
		}}
	}
	for followed, want := range map[bool]time.Duration{true: lease, false: 0} {
		o := NewObserver(Self{Identity: "a", Nonce: "a", Lease: lease})
		own := held(5, "a")
		o.Observe(own, start)
		o.Won(5, own.Record)
		newest := held(6, "a")
		if newest.Record.AcquireTime = own.Record.AcquireTime; followed {
			newest = held(6, "b")
		}
		o.Observe(newest, start.Add(time.Second))
		seen := start.Add(time.Minute)
		o.ObserveRead(own, newest.Version, false, seen)
		if free, _ := o.Free(); free.At.Sub(seen) != want {
			t.Errorf("followed=%v: free after %v, want %v", followed, free.At.Sub(seen), want)
		}
	}
}

// TestS3ARenewalThatOnlyAReadShowsAgainIsWaitedForAnew: somebody may have put it back over that of a later leader.
func TestS3ARenewalThatOnlyAReadShowsAgainIsWaitedForAnew(t *testing.T) {
	const lease = 15 * time.Second
	start := time.Now()
	at := func(number uint64) locks.Snapshot {
		return locks.Snapshot{
			Version: locks.Version{Number: number, UID: "u", Opaque: number},
			Record:  locks.Record{Holder: "a", LeaseDuration: lease, RenewTime: start, Details: locks.Details{Holder: "a", Token: 4}},
		}
	}
	o := NewObserver(Self{Identity: "b", Lease: lease})
	for _, step := range []struct {
		number uint64
		read   bool
		want   time.Duration
	}{{5, false, lease}, {5, true, lease}, {7, false, lease}, {8, true, lease + 30*time.Second}, {8, true, lease + 30*time.Second}} {
		if now := start.Add(10 * time.Second * time.Duration(step.number-5)); step.read {
			o.ObserveRead(at(step.number), o.Newest().Version, false, now)
		} else {
			o.ObserveEvent(locks.Event{Snapshot: at(step.number), Gapless: true}, step.number-1, now)
		}
		if free, _ := o.Free(); free.At.Sub(start) != step.want {
			t.Errorf("after %+v it is free after %v", step, free.At.Sub(start))
		}
	}
}
