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

// Takeover is what a head start is decided by.
type Takeover struct {
	Lock         locks.Description
	Cause        status.Cause
	Previous     string // the last holder; empty where nobody is known
	PreviousZone string // where it ran; empty where unknown
	PreviousPod  string // name/uid; empty where unknown
	Candidate    locks.Candidate
	// Peers are all candidates that are known, by identity, Candidate among
	// them if it is. Empty where nobody tells who they are. They are for reading
	// alone. A slice stands for the same peers for ever: a change is another slice.
	Peers []locks.Peer
	// Evacuated are the zones that leadership is wanted out of now.
	Evacuated []string
	// RoundTrip is how long a request of this candidate takes, about; zero where
	// that is not known.
	RoundTrip time.Duration
}

// Config holds what an [Elector] needs. Lock and Candidate.Identity are
// required, the zero value of all else is ready to use.
type Config struct {
	Lock      locks.Lock
	Candidate locks.Candidate
	Timing    Timing

	// WaitOnAbsent makes a candidate that finds no record wait for a whole
	// LeaseDuration, since a record may have been deleted under a holder that
	// still leads, and then hold its own for another one before its work begins,
	// since the same may have happened meanwhile. It makes every first start slow
	// by both. Where candidates have different timings, it is the longest
	// LeaseDuration that makes this safe.
	WaitOnAbsent bool
	// MaxClockSkew is how far any two wall clocks of all who ever hold the lock
	// may be apart at any time; zero, the default, says that nothing is known of
	// them. With it the first record that this candidate finds when Run begins
	// counts as run out once it is LeaseDuration + MaxClockSkew + 1 s old by its
	// own times, as after a power cut of the whole cluster, and need not be
	// watched for a LeaseDuration. Anything seen later is waited for in full.
	//
	// It is the one place where a wall clock decides who may lead. If clocks are
	// further apart, or are set back, a candidate that starts while a leader is
	// cut off from the API leads beside it until that leader's term runs out, a
	// RenewDeadline after its last renewal, and its work has stopped. A leader
	// that is not cut off keeps its record young by a clock that is right, and
	// ends at its next renewal, a RenewInterval later at most, where it is wrong.
	MaxClockSkew time.Duration
	// StopAtLoss makes Run return the cause of a lost term, instead of
	// campaigning again.
	StopAtLoss bool
	// CampaignUnfinished has this process campaign again though the work of an
	// earlier term has returned [ErrUnfinished]. Its lease runs out first, as for
	// any other candidate. What goes on of that work then runs beside the next
	// term's, in the same process: set it only where that does no harm. Without
	// it Run returns the error.
	CampaignUnfinished bool
	// OnOverrun is called once for a term whose work has not stopped in time,
	// StopTimeout after a stop was wanted or StopGrace after trust was lost, and
	// for one that returned [ErrUnfinished]; cause is why the term ended. Another
	// may lead beside that work soon: a program may end its process here. It is
	// called in a goroutine of its own, which waits neither for the elector, nor
	// for the Logger or a subscriber, and Run waits for its return. Nil does
	// nothing.
	OnOverrun func(term Term, cause error)
	// HeadStart returns how long this candidate leaves a free lock to others.
	// It only ever delays: negative counts as zero. It must return at once and
	// be pure, for it is called often: at each event for this candidate, and for
	// each of the Peers whenever one of them changes. Nil means Takeover.Spread, which
	// keeps a crowd from writing at one instant. Candidates that have none ask at
	// the same moment, and write then.
	HeadStart func(Takeover) time.Duration
	// Peers runs beside the elector as long as Run does, and tells which
	// candidates there are, now and whenever that changes. Only its latest word
	// counts, and that as advice: it may be late or wrong, and decides who goes
	// first, never whether one may. It returns soon after ctx ends. Nil means
	// that nobody is known.
	Peers func(ctx context.Context, tell func([]locks.Peer))
	// Health says how this candidate knows whether it is fit to lead.
	Health Health
	// ProcessID returns what is known by now that tells this process from others,
	// for the records that it writes. It must return at once. Nil means nothing.
	ProcessID func() locks.ProcessID
	// Dead blocks until it is proven that the process which holds the lock has
	// ended, and returns nil then: the lease need not run out. Where it cannot
	// tell, it returns an error, and is asked again only when something about
	// the holder changes. It runs in a goroutine of its own while this candidate
	// follows that holder; ctx ends with that, and it returns soon after. Only a
	// fact counts that no fault of network, clock or server can feign. Nil means
	// that nothing is proven.
	Dead func(ctx context.Context, holder locks.Suspect) error

	// TracerProvider receives one span for each takeover that this candidate
	// wins, MeterProvider the metrics. Nil means none, at no cost.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Logger gets one line for each transition and each new problem. The zero
	// Logger means the one in Run's context, if there is one.
	Logger logr.Logger
}

// ErrConfig is wrapped by every error about a Config that cannot work, but
// for those about its timing, which wrap timing.ErrInvalid.
var ErrConfig = errors.New("election config")

// maxIdentity is how many bytes an identity may have.
const maxIdentity = 1024

// validate returns all that is wrong with c, whose defaults are filled in.
func (c Config) validate() error {
	var errs []error
	switch {
	case c.Lock == nil:
		errs = append(errs, fmt.Errorf("%w: Lock is nil: give it one, such as locks/lease has", ErrConfig))
	case c.Lock.Describe().Name == "":
		errs = append(errs, fmt.Errorf("%w: the lock has no name", ErrConfig))
	}
	switch n := len(c.Candidate.Identity); {
	case n == 0:
		errs = append(errs, fmt.Errorf("%w: Candidate.Identity is empty: it must be unique per process start", ErrConfig))
	case n > maxIdentity:
		errs = append(errs, fmt.Errorf("%w: Candidate.Identity has %d bytes, use at most %d", ErrConfig, n, maxIdentity))
	}
	if c.MaxClockSkew < 0 {
		errs = append(errs, fmt.Errorf("%w: MaxClockSkew is %v: use how far wall clocks may be apart, or 0 if that is not known", ErrConfig, c.MaxClockSkew))
	}
	return errors.Join(append(errs, c.Health.validate(), c.Timing.Validate())...)
}

func (c Config) processID() locks.ProcessID {
	if c.ProcessID == nil {
		return locks.ProcessID{}
	}
	return c.ProcessID()
}
