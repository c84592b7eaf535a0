// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timing holds the durations of an election and the law that they must obey.
package timing

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Defaults of [Timing], chosen so that zonelect and client-go can share a lock.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRenewInterval = 2 * time.Second
	DefaultMaxClockDrift = 0.01
	DefaultStopTimeout   = 30 * time.Second
)

// Timing holds the durations of an election, each at most a year. All candidates for
// a lock should have the same Timing. Zero fields get defaults from
// [Timing.WithDefaults], and [Timing.Validate] has the law that the values must obey.
// A Timing is a value: its methods change nothing.
type Timing struct {
	// LeaseDuration is how long other candidates leave the lock alone after they first
	// saw a renewal. It must be whole seconds, at least one, because a record cannot
	// store anything else.
	LeaseDuration time.Duration
	// RenewDeadline is how long the holder trusts its term after it sent the last
	// renewal that was acknowledged.
	RenewDeadline time.Duration
	// RenewInterval is the time from one renewal to the next.
	RenewInterval time.Duration
	// AttemptTimeout is how long a request waits for its answer until a read overtakes
	// it on a connection that is known to be alive. The request goes on meanwhile,
	// because a slow server is not a dead one. A holder whose renewal is refused tries again
	// after as long, or after a second, if that is longer. Zero means RenewInterval.
	AttemptTimeout time.Duration
	// StopGrace is how long the work may take to stop once trust is lost. Zero means
	// as long as the law allows.
	StopGrace time.Duration
	// StopTimeout is how long the elector renews for work that was asked to stop.
	// After that the lease runs out.
	StopTimeout time.Duration
	// Precedence is how long all others leave a free lock to the candidate that should
	// have it first: the successor that a handover names, or the former leader when
	// the API answers again after an outage. Zero means two RenewIntervals.
	Precedence time.Duration
	// MaxClockDrift is how much the rates of any two machines' clocks may differ, as a
	// fraction: 0.01 is 1 %. It is at most 0.5.
	MaxClockDrift float64
	// Exclusive says that no client-go candidate shares the lock. Those compare times
	// in whole seconds, so without Exclusive the law needs one more second if
	// RenewInterval is below one second.
	Exclusive bool
}

// ErrInvalid is wrapped by every error about a Timing that breaks the law.
var ErrInvalid = errors.New("timing breaks the law")

// WithDefaults returns t with defaults in its zero fields. It does not validate.
func (t Timing) WithDefaults() Timing {
	t.LeaseDuration = cmp.Or(t.LeaseDuration, DefaultLeaseDuration)
	t.RenewDeadline = cmp.Or(t.RenewDeadline, DefaultRenewDeadline)
	t.RenewInterval = cmp.Or(t.RenewInterval, DefaultRenewInterval)
	t.AttemptTimeout = cmp.Or(t.AttemptTimeout, t.RenewInterval)
	t.StopTimeout = cmp.Or(t.StopTimeout, DefaultStopTimeout)
	t.Precedence = cmp.Or(t.Precedence, 2*t.RenewInterval)
	t.MaxClockDrift = cmp.Or(t.MaxClockDrift, DefaultMaxClockDrift)
	if t.StopGrace == 0 {
		t.StopGrace = max(0, t.LeaseDuration-t.RenewDeadline-t.drift()-t.sharedSecond())
	}
	return t
}

// Validate returns nil if t obeys the law. Otherwise it returns all violations joined
// in one error, each of which wraps ErrInvalid and has the numbers and what would be
// valid. The law is:
//
//	RenewInterval + AttemptTimeout      <= RenewDeadline
//	RenewDeadline + StopGrace + drift   <= LeaseDuration
//
// where drift is LeaseDuration x MaxClockDrift. The second line needs one more second
// if RenewInterval is below one second and the lock is not Exclusive. LeaseDuration is
// in whole seconds. Call Validate on the result of WithDefaults; election.New does
// both.
func (t Timing) Validate() error {
	if err := t.inRange(); err != nil {
		return err // the sums below would make no sense
	}
	return errors.Join(t.wholeSeconds(), t.renewalFits(), t.stopFits())
}

// Silence is how long a candidate hears nothing until it reads the record by itself:
// one and a half RenewIntervals. If its watch lost a renewal, it then sees that renewal
// half a RenewInterval late, and the takeover is late by no more than that.
func (t Timing) Silence() time.Duration { return t.RenewInterval * 3 / 2 }

// Bounds returns how long a takeover takes at most, and how slow the API may be:
//
//	takeover = LeaseDuration + RenewInterval + AttemptTimeout
//	answer   = (RenewDeadline - AttemptTimeout / 2) / 2
//
// takeover runs from the moment at which the leader dies or is cut off until the next leader's
// work begins. It holds if the API answers and the candidate that goes first is alive: that one
// may see the last renewal late and need a new connection, but no request takes longer than a
// tenth of AttemptTimeout. A leader keeps its term while each answer takes at most answer.
// Bounds uses the defaults for zero fields.
func (t Timing) Bounds() (takeover, answer time.Duration) {
	t = t.WithDefaults()
	return t.LeaseDuration + t.RenewInterval + t.AttemptTimeout, (t.RenewDeadline - t.AttemptTimeout/2) / 2
}

// The largest values that are accepted, so that no sum overflows.
const (
	mostDuration = 365 * 24 * time.Hour
	mostDrift    = 0.5
)

func (t Timing) inRange() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"LeaseDuration", t.LeaseDuration, 1},
		{"RenewDeadline", t.RenewDeadline, 1},
		{"RenewInterval", t.RenewInterval, time.Millisecond},
		{"AttemptTimeout", t.AttemptTimeout, time.Millisecond},
		{"StopGrace", t.StopGrace, 0},
		{"StopTimeout", t.StopTimeout, 0},
		{"Precedence", t.Precedence, 0},
	} {
		if d.value < d.least || d.value > mostDuration {
			errs = append(errs, fmt.Errorf("%w: %s is %v, must be at least %v and at most %v", ErrInvalid, d.name, d.value, d.least, mostDuration))
		}
	}
	if !(t.MaxClockDrift >= 0 && t.MaxClockDrift <= mostDrift) { // nor NaN
		errs = append(errs, fmt.Errorf("%w: MaxClockDrift is %v, must be from 0 to %v: 0.01 is 1 %%", ErrInvalid, t.MaxClockDrift, mostDrift))
	}
	return errors.Join(errs...)
}

func (t Timing) wholeSeconds() error {
	if t.LeaseDuration%time.Second == 0 {
		return nil
	}
	up := t.LeaseDuration.Truncate(time.Second) + time.Second
	return fmt.Errorf("%w: LeaseDuration is %v, the record holds whole seconds only: use %v", ErrInvalid, t.LeaseDuration, up)
}

func (t Timing) renewalFits() error {
	least := t.RenewInterval + t.AttemptTimeout
	if least <= t.RenewDeadline {
		return nil
	}
	return fmt.Errorf("%w: RenewInterval %v + AttemptTimeout %v is %v more than RenewDeadline %v: use a RenewDeadline of at least %v, "+
		"and of %v if one lost request is not to end the term",
		ErrInvalid, t.RenewInterval, t.AttemptTimeout, least-t.RenewDeadline, t.RenewDeadline, least, least+t.AttemptTimeout)
}

func (t Timing) stopFits() error {
	lacks := t.lacks()
	if lacks <= 0 {
		return nil
	}
	shared := ""
	if t.sharedSecond() > 0 {
		shared = " + 1s (RenewInterval is below 1s and client-go candidates may share the lock: set Exclusive if none does)"
	}
	return fmt.Errorf("%w: RenewDeadline %v + StopGrace %v + drift %v%s is %v more than LeaseDuration %v, so that two could lead: "+
		"use a LeaseDuration of at least %v", ErrInvalid, t.RenewDeadline, t.StopGrace, t.drift(), shared, lacks, t.LeaseDuration, t.leastLease())
}

// lacks is how much longer the LeaseDuration would have to be, by the drift that it has now.
func (t Timing) lacks() time.Duration {
	return t.RenewDeadline + t.StopGrace + t.drift() + t.sharedSecond() - t.LeaseDuration
}

// leastLease is the shortest lease that stopFits accepts. The drift grows with it.
func (t Timing) leastLease() time.Duration {
	for lacks := t.lacks(); lacks > 0; lacks = t.lacks() {
		t.LeaseDuration = (t.LeaseDuration + lacks + time.Second - 1).Truncate(time.Second)
	}
	return t.LeaseDuration
}

func (t Timing) drift() time.Duration {
	return time.Duration(float64(t.LeaseDuration) * t.MaxClockDrift)
}

func (t Timing) sharedSecond() time.Duration {
	if t.RenewInterval < time.Second && !t.Exclusive {
		return time.Second
	}
	return 0
}
