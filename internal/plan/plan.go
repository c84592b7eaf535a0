// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan finds the timing of an election from what people know about their work and their
// cluster, and says what follows from any timing. [Requirements.Plan] finds the timing with the
// shortest lease that meets the requirements. [BoundsOf] says how long each kind of failover takes,
// [LoadOf] how many writes per second a timing costs, and [Warnings] what it does not survive. All
// are pure functions, and each duration comes with its formula.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/zone"
)

// Defaults of [Requirements].
const (
	RoundTripDefault  = 50 * time.Millisecond
	CandidatesDefault = 3
	ZonesDefault      = 3
	// EtcdElectionDefault is etcd's default election timeout. Its members wait for once to
	// twice that, each for a time of its own, before they elect a leader, see
	// https://etcd.io/docs/latest/tuning/#time-parameters.
	EtcdElectionDefault = time.Second
)

// ErrImpossible is wrapped by every error about requirements that no timing meets.
var ErrImpossible = errors.New("impossible")

// Requirements are what people need of an election, and what they know about their work and their
// cluster. [Requirements.Plan] finds a timing that meets them. The zero value asks for little.
type Requirements struct {
	// APIOutage is how long the API may be unavailable without the leader losing its term.
	APIOutage time.Duration
	// Failover is the longest that may pass from the moment at which the leader
	// is killed, or its zone loses power, until the next leader's work begins,
	// while the API can be reached. Zero means that any time will do.
	Failover time.Duration
	// Stop is how long the work takes to stop, once its context has ended.
	Stop time.Duration
	// MaxClockDrift is that of election.Timing, and has its default.
	MaxClockDrift float64
	// RoundTrip is how long a request to the API takes on an open connection, with its
	// answer: not the mean, but a time that it seldom exceeds. Zero means RoundTripDefault.
	RoundTrip time.Duration
	// Candidates and Zones are how many there are. Zero means
	// CandidatesDefault, and ZonesDefault or as many as there are candidates.
	Candidates, Zones int
	// Exclusive is that of election.Timing.
	Exclusive bool
	// EtcdElection is how long etcd takes to elect a leader, and answers nothing. Zero means
	// EtcdElectionDefault. A plan need not survive it: Warnings says whether it does.
	EtcdElection time.Duration
	// Heartbeat says that the processes have heartbeats: each renews all its locks with one
	// write. This needs Exclusive, and sets it.
	Heartbeat bool
	// Locks are how many locks are held, and Processes how many processes campaign for them. Zero
	// means one lock, and as many processes as there are candidates.
	Locks, Processes int
}

// Plan is a timing that meets requirements.
type Plan struct {
	Requirements Requirements // with their defaults
	Timing       election.Timing
	Settings     []Setting
	Bounds       Bounds
}

// Setting is one duration of a plan, with its explanation.
type Setting struct {
	Name  string
	Value time.Duration
	Why   string // the formula with its numbers, and where it comes from
}

// The limits of requirements, and the resolution of the intervals tried.
const (
	maxDuration   = 24 * time.Hour
	maxCandidates = 10000
	maxLocks      = 1000000
	intervalStep  = 50 * time.Millisecond
	resolution    = 100 * time.Millisecond // of the deadline, and of proposals in errors
)

// Plan returns the timing that meets the requirements with the shortest lease. Its RenewInterval
// is election's default, or less if the failover needs it, or more if round trips are long. Errors
// wrap ErrImpossible, and name each broken inequality, with the numbers, and what would be
// possible. Plan is pure.
func (r Requirements) Plan() (Plan, error) {
	r = r.withDefaults()
	if err := r.validate(); err != nil {
		return Plan{}, err
	}
	t, ok := r.timing()
	if !ok {
		return Plan{}, r.refusal(t)
	}
	if err := t.Validate(); err != nil {
		return Plan{}, fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	return Plan{Requirements: r, Timing: t, Settings: r.settings(t), Bounds: BoundsOf(t, r)}, nil
}

func (r Requirements) withDefaults() Requirements {
	r.MaxClockDrift = cmp.Or(r.MaxClockDrift, timing.DefaultMaxClockDrift)
	r.RoundTrip = cmp.Or(r.RoundTrip, RoundTripDefault)
	r.Candidates = cmp.Or(r.Candidates, CandidatesDefault)
	r.Zones = cmp.Or(r.Zones, min(ZonesDefault, r.Candidates))
	r.EtcdElection = cmp.Or(r.EtcdElection, EtcdElectionDefault)
	r.Locks = cmp.Or(r.Locks, 1)
	r.Processes = cmp.Or(r.Processes, r.Candidates)
	r.Exclusive = r.Exclusive || r.Heartbeat
	return r
}

func (r Requirements) validate() error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrImpossible}, args...)...))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"APIOutage", r.APIOutage}, {"Failover", r.Failover}, {"Stop", r.Stop}, {"RoundTrip", r.RoundTrip}, {"EtcdElection", r.EtcdElection}} {
		if d.value < 0 || d.value > maxDuration {
			refuse("0s <= %s <= %v is broken by %v", d.name, maxDuration, d.value)
		}
	}
	if !(r.MaxClockDrift >= 0 && r.MaxClockDrift <= 0.5) {
		refuse("0 <= MaxClockDrift <= 0.5 is broken by %v: give a fraction, such as 0.01 for 1 %%", r.MaxClockDrift)
	}
	if r.Candidates < 1 || r.Candidates > maxCandidates {
		refuse("1 <= Candidates <= %d is broken by %d", maxCandidates, r.Candidates)
	}
	if r.Locks < 1 || r.Locks > maxLocks {
		refuse("1 <= Locks <= %d is broken by %d", maxLocks, r.Locks)
	}
	if r.Processes < 1 || r.Processes > maxCandidates {
		refuse("1 <= Processes <= %d is broken by %d", maxCandidates, r.Processes)
	}
	if r.Zones < 1 || r.Zones > max(1, r.Candidates) {
		refuse("1 <= Zones <= Candidates is broken by %d zones of %d candidates", r.Zones, r.Candidates)
	}
	return errors.Join(errs...)
}

// timing returns the timing with the longest RenewInterval that meets the
// requirements, and false if there is none. Then it is the one with the fastest failover.
func (r Requirements) timing() (election.Timing, bool) {
	var best election.Timing
	var fastest time.Duration
	least := r.least()
	for i := max(timing.DefaultRenewInterval, least); i >= least; i -= intervalStep {
		t := r.with(i)
		takes := failover(t, r).Total()
		if r.Failover == 0 || takes <= r.Failover {
			return t, true
		}
		if fastest == 0 || takes < fastest {
			best, fastest = t, takes
		}
	}
	return best, false
}

// least is the shortest RenewInterval: the request in it must have its time, even if it must
// dial several times first.
func (r Requirements) least() time.Duration {
	n := sort.Search(int(4*maxDuration/intervalStep), func(n int) bool {
		i := time.Duration(n) * intervalStep
		return n > 0 && fresh(election.Timing{AttemptTimeout: i}, r).Total() <= i
	})
	return time.Duration(n) * intervalStep
}

// with returns the timing with the shortest lease for a RenewInterval. The remainder of
// rounding up to whole seconds goes to the RenewDeadline.
func (r Requirements) with(interval time.Duration) election.Timing {
	t := election.Timing{
		RenewInterval: interval, AttemptTimeout: interval, MaxClockDrift: r.MaxClockDrift, Exclusive: r.Exclusive,
		StopTimeout: max(timing.DefaultStopTimeout, r.Stop.Truncate(time.Second)+time.Second),
	}
	needed := r.deadline(t).Total()
	lease := time.Duration(float64(needed+r.Stop) / (1 - r.MaxClockDrift)).Truncate(time.Second)
	for t.LeaseDuration = max(time.Second, lease); room(t) < needed+r.Stop; {
		t.LeaseDuration += time.Second
	}
	t.RenewDeadline = max(needed, (room(t) - r.Stop).Truncate(resolution))
	return t.WithDefaults()
}

// deadline is the smallest possible RenewDeadline.
func (r Requirements) deadline(t election.Timing) Sum {
	return sum(once("APIOutage", r.APIOutage)).plus(regain(t, r)...)
}

// refusal names the inequality that the requirements break, with the timing that comes closest.
func (r Requirements) refusal(t election.Timing) error {
	worst := failover(t, r)
	possible := []string{fmt.Sprintf("a Failover of at least %v", (worst.Total() + resolution - 1).Truncate(resolution))}
	for _, other := range []struct {
		name  string
		value func(*Requirements) *time.Duration
	}{
		{"APIOutage", func(r *Requirements) *time.Duration { return &r.APIOutage }},
		{"Stop", func(r *Requirements) *time.Duration { return &r.Stop }},
	} {
		if most, ok := r.most(other.value); ok {
			possible = append(possible, fmt.Sprintf("an %s of at most %v", other.name, most))
		}
	}
	return fmt.Errorf("%w: Failover %v >= %s is broken, for that is %v. LeaseDuration must hold RenewDeadline + %s, and RenewDeadline must hold %s. Possible is %s",
		ErrImpossible, r.Failover, worst, worst.Total().Round(time.Millisecond),
		sum(once("Stop", r.Stop)).plus(reserve(t)...), r.deadline(t), strings.Join(possible, ", or "))
}

// most is the largest value of one requirement that is possible while the others stay, and false if
// not even zero is.
func (r Requirements) most(of func(*Requirements) *time.Duration) (time.Duration, bool) {
	n := sort.Search(int(*of(&r)/resolution)+1, func(n int) bool {
		*of(&r) = time.Duration(n) * resolution
		_, ok := r.timing()
		return !ok
	})
	return time.Duration(n-1) * resolution, n > 0
}

// settings explains a timing.
func (r Requirements) settings(t election.Timing) []Setting {
	lease := sum(once("RenewDeadline", t.RenewDeadline), once("StopGrace", t.StopGrace)).plus(reserve(t)...)
	interval := "the default"
	switch {
	case t.RenewInterval < timing.DefaultRenewInterval:
		interval = fmt.Sprintf("the longest with which a failover takes %v at most", r.Failover)
	case t.RenewInterval > timing.DefaultRenewInterval:
		interval = "the shortest that holds a request on a new connection, " + fresh(t, r).String()
	}
	return []Setting{
		{"LeaseDuration", t.LeaseDuration, lease.String() + ", up to whole seconds, which is what the record holds"},
		{"RenewDeadline", t.RenewDeadline, fmt.Sprintf("%s, and what whole seconds of lease leave", r.deadline(t))},
		{"RenewInterval", t.RenewInterval, interval},
		{"AttemptTimeout", t.AttemptTimeout, "RenewInterval"},
		{"DialInterval", dialInterval(t), "then another dial joins: a Service may send it to another API server"},
		{"StopGrace", t.StopGrace, fmt.Sprintf("Stop %v, and what rounding leaves", r.Stop)},
		{"StopTimeout", t.StopTimeout, fmt.Sprintf("the default %v, or longer than Stop", timing.DefaultStopTimeout)},
		{"Precedence", t.Precedence, "2 x RenewInterval, for who comes first by right"},
		{"Step", zone.Order{Timing: t}.Step(), "RenewInterval, from one zone to the next in the order of preference"},
		{"Slot", zone.Order{Timing: t}.Slot(), "a tenth of RenewInterval, from one candidate to the next"},
	}
}
