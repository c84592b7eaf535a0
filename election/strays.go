// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"slices"
	"time"

	"github.com/zonelect/zonelect/election/internal/rules"
)

// strays are the requests that the lock gave up and that go on, because a part of it does not obey
// its context.
type strays []stray

type stray struct {
	op   operation
	sent time.Time
	over <-chan struct{} // closed when it has come back
}

// unsettled returns the channel that is closed when a request has come back that the lock gave up, as
// locks.Lock says. It is nil if err is not of such a request.
func unsettled(err error) <-chan struct{} {
	var given interface{ Unsettled() <-chan struct{} }
	if errors.As(err, &given) {
		return given.Unsettled()
	}
	return nil
}

// note notes whether the answer is that of a stray.
func (s *strays) note(a *answer) bool {
	over := unsettled(a.err)
	if over != nil {
		s.forget()
		*s = append(*s, stray{a.op, a.sent.awake, over})
	}
	return over != nil
}

// forget forgets those that have come back.
func (s *strays) forget() {
	*s = slices.DeleteFunc(*s, func(one stray) bool {
		select {
		case <-one.over:
			return true
		default:
			return false
		}
	})
}

// mayLand reports whether one of them is a write.
func (s *strays) mayLand() bool {
	s.forget()
	return slices.ContainsFunc(*s, func(one stray) bool { return one.op != opRead })
}

// settle ends the requests, see requester.drain, and observes their answers. If a write may land later
// nevertheless, it closes the connections, so that at least no more of it is sent (S12), and nothing
// is to be released (S6).
func (r *run) settle() bool {
	writes, settled := r.requester.drain(r.exchange.patience(true))
	for _, a := range writes {
		r.observeAnswer(a)
	}
	if settled && !r.requester.strays.mayLand() {
		return true
	}
	r.report.mayLand()
	if closeAll := r.config.Lock.Capabilities().CloseConnections; closeAll != nil {
		closeAll()
	}
	return false
}

// foreign is what may hold a request up.
const foreign = "a lock, credential plugin, WrapTransport or Dial that does not obey its context?"

// tellStrays says which request has not come back, and again after twice as long. It returns when
// to look again, until at the latest.
func (r *run) tellStrays(until time.Time) time.Time {
	r.requester.strays.forget()
	var first stray
	earlier := func(op operation, sent time.Time) {
		if first.sent.IsZero() || sent.Before(first.sent) {
			first = stray{op: op, sent: sent}
		}
	}
	for _, s := range r.requester.strays {
		earlier(s.op, s.sent)
	}
	for _, f := range r.exchange.flights {
		earlier(f.op, f.sent.awake)
	}
	patience := dialAndAnswer(r.config.Timing) + r.config.Timing.AttemptTimeout
	took := time.Since(first.sent)
	switch {
	case first.sent.IsZero():
		r.toldStray = 0
		return until
	case took < patience:
		r.toldStray = 0
	}
	if patience = max(patience, 2*r.toldStray); took >= patience {
		r.report.notBack(first.op, took)
		r.toldStray, patience = took, 2*took
	}
	return rules.Earliest(until, first.sent.Add(patience))
}

// await waits for what Run has started, for a StopTimeout from when its end began at the most. Who
// does not obey its context is given up then. It may only write what no candidate believes: nothing
// was released while a write was under way.
func (r *run) await() {
	began := r.endBegan
	if began.IsZero() {
		began = time.Now()
	}
	t := r.config.Timing
	left := time.NewTimer(max(time.Until(began.Add(t.StopTimeout)), t.AttemptTimeout))
	defer left.Stop()
	for _, part := range []struct {
		what string
		wait func()
	}{
		{"a watch", r.watcher.wait.Wait},
		{"a request", r.requester.wait.Wait},
		{"a guardian or Config.WatchPeers", r.background.Wait},
	} {
		back := make(chan struct{})
		go func() {
			defer close(back)
			part.wait()
		}()
		tell := time.NewTimer(t.AttemptTimeout)
		for waits := true; waits; {
			select {
			case <-back:
				waits = false
			case <-tell.C:
				r.report.awaiting(part.what, t.StopTimeout)
			case <-left.C:
				r.report.abandoned(part.what)
				return
			}
		}
		tell.Stop()
	}
}
