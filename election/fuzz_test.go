// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// FuzzHandoverRequest reads any text: a request names its holder, and what was
// read reads the same after it was written.
func FuzzHandoverRequest(f *testing.F) {
	for _, seed := range []string{
		`{"holder":"a"}`, `{"holder":"a","identity":"b","zone":"za"}`, `{"holder":""}`, `{}`, `null`, `[]`, `"a"`, `{"holder":"a"}{}`,
		`{"HOLDER":"a","holder":null}`, `{"holder":"\ud800"}`, `{"holder":1}`, "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := locks.ParseHandoverRequest(text)
		if (err == nil) != (q.Holder != "") {
			t.Fatalf("%q is read as %+v, %v", text, q, err)
		}
		if err != nil {
			return
		}
		if again, err := locks.ParseHandoverRequest(q.String()); err != nil || again != q {
			t.Fatalf("read %+v\nthen %+v, %v", q, again, err)
		}
	})
}

// FuzzEvacuations reads any text: a zone is evacuated only where the text names
// it, without a time or with one that is to come, and what was read reads the
// same after it was written.
func FuzzEvacuations(f *testing.F) {
	for _, seed := range []string{
		"za,zb=2026-11-21T12:00:00Z", "za=", "=2026-11-21T12:00:00Z", "za=garbage", " za , ,zb", "za=0001-01-01T00:00:00Z",
		"za=9999-12-31T23:59:59-23:59", "za=0000-01-01T00:00:00+23:59", "za==", "za=2026-11-21T12:00:00.999999999Z", "za=2020-01-01T00:00:00Z",
	} {
		f.Add(seed, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		all, err := locks.ParseEvacuations(text)
		at := time.Unix(now, 0)
		for _, zone := range evacuated(text, at) {
			named := slices.ContainsFunc(strings.Split(text, ","), func(part string) bool {
				name, until, limited := strings.Cut(strings.TrimSpace(part), "=")
				end, err := time.Parse(time.RFC3339, until)
				return name == zone && (!limited || err == nil && end.After(at))
			})
			if !named || zone == "" {
				t.Errorf("%q at %v is read as an evacuation of %q", text, at, zone)
			}
		}
		again, problem := locks.ParseEvacuations(locks.FormatEvacuations(all))
		same := func(a, b locks.Evacuation) bool {
			return a.Zone == b.Zone && a.Until.IsZero() == b.Until.IsZero() && a.Until.Unix() == b.Until.Unix()
		}
		if problem != nil || !slices.EqualFunc(all, again, same) {
			t.Errorf("read %v (%v)\nthen %v, %v", all, err, again, problem)
		}
	})
}

// FuzzJudge sees a first record of anything: the lock counts as given up only
// where the record says so, and else nobody takes it before the lease is over
// that stands there, however long.
func FuzzJudge(f *testing.F) {
	f.Add("a", "a", uint64(17), uint64(0), int64(15), int64(0), int64(0), int64(0))
	f.Add("", "a", uint64(17), uint64(17), int64(1), int64(0), int64(0), int64(0))
	f.Add("", "a", uint64(0), uint64(0), int64(1), int64(0), int64(0), int64(0))
	f.Add("", "a", uint64(17), uint64(16), int64(3600), int64(-60), int64(-60), int64(5))
	f.Add("a", "me", uint64(17), uint64(0), int64(math.MaxInt64/int64(time.Second)), int64(-10), int64(-10), int64(30))
	f.Add("a", "", uint64(0), uint64(0), int64(-5), int64(251_000_000_000), int64(0), int64(30))
	f.Add("a", "", uint64(0), uint64(0), int64(math.MaxInt32), int64(-10), int64(-10), int64(math.MaxInt64/int64(time.Second)))
	f.Add("me", "me", uint64(17), uint64(0), int64(15), int64(-10), int64(-10), int64(5))
	f.Fuzz(func(t *testing.T, holder, noted string, token, released uint64, seconds, acquired, renewed, skew int64) {
		const most = math.MaxInt64 / int64(time.Second)
		if seconds > most || skew < 0 || skew > most || max(acquired, -acquired, renewed, -renewed) > 300_000_000_000 {
			t.Skip("no lock gives that, or no configuration")
		}
		now := time.Now()
		r := locks.Record{
			Holder: holder, LeaseDuration: time.Duration(seconds) * time.Second, Transitions: 3,
			AcquireTime: time.Unix(now.Unix()+acquired, 0), RenewTime: time.Unix(now.Unix()+renewed, 0),
			Details: locks.Details{Holder: noted, Token: token, Released: released},
		}
		j := &judge{identity: "me", lease: 15 * time.Second, maxSkew: time.Duration(skew) * time.Second}
		j.observe(locks.Snapshot{Version: locks.Version{Number: 1, UID: "u", Opaque: r}, Record: r}, now)
		free, _ := j.free()
		full := min(r.LeaseDuration, longest)
		if full <= 0 {
			full = j.lease
		}
		switch free.cause {
		case CauseReclaimed:
			if noted != "me" && holder != "me" {
				t.Errorf("%+v is taken for the own record", r)
			}
		case CauseReleased:
			if holder != "" || noted != "" && (token == 0 || token != released) {
				t.Errorf("%+v is taken for given up", r)
			}
		case CauseCleared:
			if free.at.Before(now.Add(max(full, j.lease))) {
				t.Errorf("%+v is free %v after it was seen", r, free.at.Sub(now))
			}
		case CauseExpired:
			earliest := now.Add(full)
			if written := latest(r.AcquireTime, r.RenewTime); skew > 0 && now.Sub(written) >= 0 {
				earliest = written.Add(full).Add(min(j.maxSkew, longest))
			}
			if free.at.Before(earliest) && free.at.Before(now.Add(full)) {
				t.Errorf("%+v is free %v after it was seen, with a skew of %v", r, free.at.Sub(now), j.maxSkew)
			}
		default:
			t.Errorf("%+v is free since it is %s", r, free.cause)
		}
	})
}

// FuzzTiming validates any timing: one that passes obeys the law without any
// overflow, and a LeaseDuration that an error proposes is enough.
func FuzzTiming(f *testing.F) {
	sec := int64(time.Second)
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), 0.0, false)
	f.Add(15*sec, 10*sec, 2*sec, 2*sec, 5*sec, 0.01, false)
	f.Add(137*sec, 107*sec, 26*sec, int64(0), int64(0), 0.02, true)
	f.Add(int64(math.MaxInt64)/sec*sec, int64(math.MaxInt64/2), int64(math.MaxInt64/2), int64(math.MaxInt64/2), int64(math.MaxInt64/2), 0.5, true)
	f.Add(15*sec, 10*sec, 2*sec, 2*sec, sec, math.NaN(), false)
	f.Add(15*sec, 14*sec, 2*sec, 2*sec, sec, 0.9999999999, false)
	f.Fuzz(func(t *testing.T, lease, deadline, interval, attempt, grace int64, drift float64, exclusive bool) {
		timing := Timing{
			LeaseDuration: time.Duration(lease), RenewDeadline: time.Duration(deadline), RenewInterval: time.Duration(interval),
			AttemptTimeout: time.Duration(attempt), StopGrace: time.Duration(grace), MaxClockDrift: drift, Exclusive: exclusive,
		}.WithDefaults()
		if timing.Validate() != nil {
			if timing.inRange() == nil && timing.stopFits() != nil {
				timing.LeaseDuration = timing.leastLease()
				if err := timing.stopFits(); err != nil {
					t.Errorf("after what was proposed: %v", err)
				}
			}
			return
		}
		drifted, _ := new(big.Float).Mul(big.NewFloat(float64(timing.LeaseDuration)), big.NewFloat(timing.MaxClockDrift)).Int(nil)
		need := sumOf(timing.RenewDeadline, timing.StopGrace)
		need.Add(need, drifted)
		if timing.RenewInterval < time.Second && !exclusive {
			need.Add(need, sumOf(time.Second))
		}
		if sumOf(timing.RenewInterval, timing.AttemptTimeout).Cmp(sumOf(timing.RenewDeadline)) > 0 || need.Cmp(sumOf(timing.LeaseDuration)) > 0 {
			t.Errorf("%+v breaks the law and is valid", timing)
		}
	})
}

func sumOf(all ...time.Duration) *big.Int {
	sum := new(big.Int)
	for _, d := range all {
		sum.Add(sum, big.NewInt(int64(d)))
	}
	return sum
}
