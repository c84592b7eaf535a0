// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
)

// Defaults of [Wish].
const (
	RoundTripDefault  = 50 * time.Millisecond
	CandidatesDefault = 3
	ZonesDefault      = 3
	// EtcdElectionDefault is etcd's default election timeout. Its members wait for once to
	// twice that, each for a time of its own, before they elect a leader, see
	// https://etcd.io/docs/latest/tuning/#time-parameters.
	EtcdElectionDefault = time.Second
)

// ErrImpossible is wrapped by every error about a wish that no timing fulfills.
var ErrImpossible = errors.New("impossible")

// Wish is what people know about their work and their cluster; [Wish.Plan] finds a timing
// from it. The zero value asks for little.
type Wish struct {
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

// Plan is a timing that fulfills a wish.
type Plan struct {
	Wish    Wish // with its defaults
	Timing  election.Timing
	Numbers []Number
	Bounds  Bounds
}

// Number explains one duration of a plan.
type Number struct {
	Name  string
	Value time.Duration
	Why   string // the formula with its numbers, and where it comes from
}

// The limits of a wish, and the grain of the intervals tried.
const (
	mostWish       = 24 * time.Hour
	mostCandidates = 10000
	mostLocks      = 1000000
	intervalStep   = 50 * time.Millisecond
	grain          = 100 * time.Millisecond // of the deadline, and of proposals in errors
)

// Plan returns the timing that fulfills the wish with the shortest lease, and a RenewInterval
// of election's default, or less if the failover needs it, or more if round trips are long.
// Errors wrap ErrImpossible, and name each broken inequality, with the numbers, and what
// would be possible. Plan is pure.
func (w Wish) Plan() (Plan, error) {
	w = w.withDefaults()
	if err := w.validate(); err != nil {
		return Plan{}, err
	}
	t, ok := w.timing()
	if !ok {
		return Plan{}, w.refusal(t)
	}
	if err := t.Validate(); err != nil {
		return Plan{}, fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	return Plan{Wish: w, Timing: t, Numbers: w.numbers(t), Bounds: BoundsOf(t, w)}, nil
}

func (w Wish) withDefaults() Wish {
	w.MaxClockDrift = cmp.Or(w.MaxClockDrift, timing.DefaultMaxClockDrift)
	w.RoundTrip = cmp.Or(w.RoundTrip, RoundTripDefault)
	w.Candidates = cmp.Or(w.Candidates, CandidatesDefault)
	w.Zones = cmp.Or(w.Zones, min(ZonesDefault, w.Candidates))
	w.EtcdElection = cmp.Or(w.EtcdElection, EtcdElectionDefault)
	w.Locks = cmp.Or(w.Locks, 1)
	w.Processes = cmp.Or(w.Processes, w.Candidates)
	w.Exclusive = w.Exclusive || w.Heartbeat
	return w
}

func (w Wish) validate() error {
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrImpossible}, args...)...))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"APIOutage", w.APIOutage}, {"Failover", w.Failover}, {"Stop", w.Stop}, {"RoundTrip", w.RoundTrip}, {"EtcdElection", w.EtcdElection}} {
		if d.value < 0 || d.value > mostWish {
			refuse("0s <= %s <= %v is broken by %v", d.name, mostWish, d.value)
		}
	}
	if !(w.MaxClockDrift >= 0 && w.MaxClockDrift <= 0.5) {
		refuse("0 <= MaxClockDrift <= 0.5 is broken by %v: give a fraction, such as 0.01 for 1 %%", w.MaxClockDrift)
	}
	if w.Candidates < 1 || w.Candidates > mostCandidates {
		refuse("1 <= Candidates <= %d is broken by %d", mostCandidates, w.Candidates)
	}
	if w.Locks < 1 || w.Locks > mostLocks {
		refuse("1 <= Locks <= %d is broken by %d", mostLocks, w.Locks)
	}
	if w.Processes < 1 || w.Processes > mostCandidates {
		refuse("1 <= Processes <= %d is broken by %d", mostCandidates, w.Processes)
	}
	if w.Zones < 1 || w.Zones > max(1, w.Candidates) {
		refuse("1 <= Zones <= Candidates is broken by %d zones of %d candidates", w.Zones, w.Candidates)
	}
	return errors.Join(errs...)
}

// timing returns the timing with the longest RenewInterval that fulfills the
// wish, and false if there is none. Then it is the one with the fastest failover.
func (w Wish) timing() (election.Timing, bool) {
	var best election.Timing
	var fastest time.Duration
	least := w.least()
	for i := max(timing.DefaultRenewInterval, least); i >= least; i -= intervalStep {
		t := w.with(i)
		takes := failover(t, w).Total()
		if w.Failover == 0 || takes <= w.Failover {
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
func (w Wish) least() time.Duration {
	n := sort.Search(int(4*mostWish/intervalStep), func(n int) bool {
		i := time.Duration(n) * intervalStep
		return n > 0 && fresh(election.Timing{AttemptTimeout: i}, w).Total() <= i
	})
	return time.Duration(n) * intervalStep
}

// with returns the timing with the shortest lease for a RenewInterval. The remainder of
// rounding up to whole seconds goes to the RenewDeadline.
func (w Wish) with(interval time.Duration) election.Timing {
	t := election.Timing{
		RenewInterval: interval, AttemptTimeout: interval, MaxClockDrift: w.MaxClockDrift, Exclusive: w.Exclusive,
		StopTimeout: max(timing.DefaultStopTimeout, w.Stop.Truncate(time.Second)+time.Second),
	}
	needed := w.deadline(t).Total()
	lease := time.Duration(float64(needed+w.Stop) / (1 - w.MaxClockDrift)).Truncate(time.Second)
	for t.LeaseDuration = max(time.Second, lease); room(t) < needed+w.Stop; {
		t.LeaseDuration += time.Second
	}
	t.RenewDeadline = max(needed, (room(t) - w.Stop).Truncate(grain))
	return t.WithDefaults()
}

// deadline is the smallest possible RenewDeadline.
func (w Wish) deadline(t election.Timing) Sum {
	return sum(once("APIOutage", w.APIOutage)).and(regain(t, w)...)
}

// refusal names the inequality that the wish breaks, with the timing that comes closest.
func (w Wish) refusal(t election.Timing) error {
	worst := failover(t, w)
	possible := []string{fmt.Sprintf("a Failover of at least %v", (worst.Total() + grain - 1).Truncate(grain))}
	for _, other := range []struct {
		name  string
		value func(*Wish) *time.Duration
	}{
		{"APIOutage", func(w *Wish) *time.Duration { return &w.APIOutage }},
		{"Stop", func(w *Wish) *time.Duration { return &w.Stop }},
	} {
		if most, ok := w.most(other.value); ok {
			possible = append(possible, fmt.Sprintf("an %s of at most %v", other.name, most))
		}
	}
	return fmt.Errorf("%w: Failover %v >= %s is broken, for that is %v. LeaseDuration must hold RenewDeadline + %s, and RenewDeadline must hold %s. Possible is %s",
		ErrImpossible, w.Failover, worst, worst.Total().Round(time.Millisecond),
		sum(once("Stop", w.Stop)).and(reserve(t)...), w.deadline(t), strings.Join(possible, ", or "))
}

// most is the largest value of one wish that is possible while the others stay, and false if
// not even zero is.
func (w Wish) most(of func(*Wish) *time.Duration) (time.Duration, bool) {
	n := sort.Search(int(*of(&w)/grain)+1, func(n int) bool {
		*of(&w) = time.Duration(n) * grain
		_, ok := w.timing()
		return !ok
	})
	return time.Duration(n-1) * grain, n > 0
}

// numbers explains a timing.
func (w Wish) numbers(t election.Timing) []Number {
	lease := sum(once("RenewDeadline", t.RenewDeadline), once("StopGrace", t.StopGrace)).and(reserve(t)...)
	interval := "the default"
	switch {
	case t.RenewInterval < timing.DefaultRenewInterval:
		interval = fmt.Sprintf("the longest with which a failover takes %v at most", w.Failover)
	case t.RenewInterval > timing.DefaultRenewInterval:
		interval = "the shortest that holds a request on a new connection, " + fresh(t, w).String()
	}
	return []Number{
		{"LeaseDuration", t.LeaseDuration, lease.String() + ", up to whole seconds, which is what the record holds"},
		{"RenewDeadline", t.RenewDeadline, fmt.Sprintf("%s, and what whole seconds of lease leave", w.deadline(t))},
		{"RenewInterval", t.RenewInterval, interval},
		{"AttemptTimeout", t.AttemptTimeout, "RenewInterval"},
		{"DialInterval", dialInterval(t), "then another dial joins: a Service may send it to another API server"},
		{"StopGrace", t.StopGrace, fmt.Sprintf("Stop %v, and what rounding leaves", w.Stop)},
		{"StopTimeout", t.StopTimeout, fmt.Sprintf("the default %v, or longer than Stop", timing.DefaultStopTimeout)},
		{"Precedence", t.Precedence, "2 x RenewInterval, for who comes first by right"},
		{"Step", Step(t), "RenewInterval, from one zone to the next in the order of preference"},
		{"Slot", Slot(t), "a tenth of RenewInterval, from one candidate to the next"},
	}
}
