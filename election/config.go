// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
)

// Timing holds the durations of an election.
type Timing = timing.Timing

// Takeover describes a lock that is about to be taken. Config.TakeoverDelay uses it to decide
// how long a candidate waits.
type Takeover struct {
	Lock         locks.Description
	Cause        status.Cause // how the lock came to be free
	Previous     string       // the last holder; empty if unknown
	PreviousZone string       // the zone of the last holder; empty if unknown
	// Candidate is the one whose takeover delay is asked for. It need not be this
	// process: an elector ranks its peers too.
	Candidate locks.Candidate
	// Peers are all known candidates, sorted by identity. Candidate is
	// among them if it is known. Empty without Config.WatchPeers. Do not change the slice: the
	// elector replaces it, and never changes it either.
	Peers []locks.Peer
	// Evacuated are the zones that leadership should leave now.
	Evacuated []string
	// RoundTrip is about how long a request of this process takes; zero if unknown.
	RoundTrip time.Duration
}

// Config holds what an [Elector] needs. Lock and Candidate.Identity are required.
// The zero value of every other field is ready to use. [New] copies Config, so that
// later changes have no effect.
type Config struct {
	Lock      locks.Lock
	Candidate locks.Candidate
	Timing    Timing // zero fields get defaults

	// WaitOnAbsent makes a candidate that finds no record wait for a whole
	// LeaseDuration, because somebody may have deleted the record of a holder that
	// still leads. The candidate then holds its own record for another LeaseDuration
	// before its work begins, because the same may have happened meanwhile. Every
	// first start is slower by both. If candidates have different timings, this is
	// safe only with the longest LeaseDuration among them. A record with neither a holder nor
	// a renewTime says as little as no record: before it takes that one, the candidate waits once.
	WaitOnAbsent bool
	// StopAtLoss makes Run return the cause of a lost term instead of campaigning
	// again.
	StopAtLoss bool
	// OnOverrun is called once for each term whose work has not stopped in time:
	// StopTimeout after a wanted stop began, or StopGrace after trust was lost. It is
	// also called if the lock's guardian has not finished by then, or the work returned [ErrUnfinished].
	// cause is why the term ended, and wraps what the work returned in that case.
	// Another candidate may soon lead beside that work, so a program may want to end
	// its process here. OnOverrun runs in its own goroutine, which does not wait for
	// the elector, the Logger or a subscriber. Run waits until it has returned. Nil
	// does nothing.
	OnOverrun func(term Term, cause error)
	// TakeoverDelay returns how long a candidate leaves a free lock to others. It can only
	// delay: a negative result counts as zero. It must be pure and return at once,
	// because the elector calls it at each event for this candidate, and for each of
	// the Peers whenever one of them changes. Nil means Takeover.Spread, which keeps
	// many candidates from writing at the same instant. Candidates whose TakeoverDelay is
	// zero all read and write at the same moment.
	TakeoverDelay func(Takeover) time.Duration
	// WatchZone reports the zone of this candidate whenever it becomes known or changes, in place of
	// Candidate.Zone. tell and ctx work as those of WatchPeers do. A term keeps the zone that it
	// began with; the next renewal writes the new one to the record. Nil means that the zone never
	// changes.
	WatchZone func(ctx context.Context, tell func(zone string))
	// WatchPeers reports which candidates there are, at first and whenever that changes. It
	// runs in its own goroutine, and returns soon after ctx ends, or earlier if it has
	// registered tell where reports come from. tell is valid until Run returns; later
	// calls do nothing. It never blocks, is safe for concurrent use, and only the last
	// report counts. Reports may be late or wrong: they affect which candidate goes first,
	// and never whether one may. Nil means that no other candidate is known.
	WatchPeers func(ctx context.Context, tell func([]locks.Peer))
	// Health is how this candidate knows whether it should lead.
	Health Health
	// ProcessLock returns the process lock of this process for its records, see
	// locks.Details.ProcessLock, and must return at once. A candidate that has the process lock
	// of the holder takes over without waiting for the lease. Nil, or an empty text, means that
	// the end of this process proves nothing.
	ProcessLock func() string

	// TracerProvider receives one span for each takeover that this candidate wins.
	// MeterProvider receives the metrics, see docs/metrics.md. Nil means none.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Logger gets one line for each transition and each new problem. The zero Logger
	// means the one in the context of Run, if there is one.
	Logger logr.Logger
}

// ErrConfig is wrapped by every error about an invalid Config, except errors about its
// Timing, which wrap timing.ErrInvalid.
var ErrConfig = errors.New("election config")

// maxIdentity is how many bytes an identity may have.
const maxIdentity = 1024

// validate returns all that is wrong with c, whose defaults are filled in.
func (c Config) validate() error {
	var errs []error
	switch {
	case c.Lock == nil:
		errs = append(errs, fmt.Errorf("%w: Lock is nil: set it, for example to a lock of package locks/lease", ErrConfig))
	case c.Lock.Describe().Name == "":
		errs = append(errs, fmt.Errorf("%w: the lock has no name", ErrConfig))
	default:
		if _, is := c.Lock.(locks.Guardian); is && c.Lock.Capabilities().Guardian == nil {
			errs = append(errs, fmt.Errorf("%w: the lock has a Guardian's methods, and its Capabilities no Guardian: set it", ErrConfig))
		}
	}
	switch n := len(c.Candidate.Identity); {
	case n == 0:
		errs = append(errs, fmt.Errorf("%w: Candidate.Identity is empty: it must be unique per process start", ErrConfig))
	case n > maxIdentity:
		errs = append(errs, fmt.Errorf("%w: Candidate.Identity has %d bytes, use at most %d", ErrConfig, n, maxIdentity))
	}
	return errors.Join(append(errs, c.Health.validate(), c.Timing.Validate())...)
}
