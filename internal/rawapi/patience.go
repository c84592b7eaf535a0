// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks"
)

// Ask reads something by get, for most at the longest. A slow server is not a dead one, so its answer
// is waited for and taken. A connection may be dead, so nothing waits for one alone: a read that has no
// answer after soon goes on, and another overtakes it on a connection that is known to be alive; then
// another after twice that time, and so on. The first answer counts.
func Ask[T any](ctx context.Context, soon, most time.Duration, get func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer)
	underWay := 0
	defer func() {
		cancel()
		for range underWay {
			<-answers
		}
	}()
	ask := func(ctx context.Context) {
		underWay++
		go func() {
			value, err := get(ctx)
			answers <- answer{value, err}
		}()
	}
	asked := time.Now()
	ask(ctx)
	overtake := time.NewTimer(soon)
	defer overtake.Stop()
	for {
		select {
		case a := <-answers:
			underWay--
			if a.err == nil || underWay == 0 || answered(a.err) {
				return a.value, a.err
			}
		case <-overtake.C:
			ask(live.Since(ctx, asked))
			asked, soon = time.Now(), 2*soon
			overtake.Reset(soon)
		}
	}
}

// answered reports whether an error is what a server says.
func answered(err error) bool {
	return errors.Is(err, locks.ErrForbidden) || errors.Is(err, locks.ErrNoAPI) || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
}

// Limit is how long a request may take that nothing overtakes. Who waits for an answer on a
// connection that died waits in vain, and the next try has a connection of its own. So it is
// short at first. It doubles whenever a request runs out of it, for a server that is slow, and
// shrinks again when requests take little of it. Its methods are for one goroutine at a time.
type Limit struct{ least, most, now time.Duration }

// NewLimit returns a limit between the two.
func NewLimit(least, most time.Duration) *Limit { return &Limit{least, most, least} }

// Of returns a context for so many requests. The caller calls done when they have ended.
func (l *Limit) Of(ctx context.Context, requests int) (limited context.Context, done func()) {
	began, limit := time.Now(), time.Duration(requests)*l.now
	limited, cancel := context.WithTimeout(ctx, limit)
	return limited, func() {
		switch took := time.Since(began); {
		case ctx.Err() != nil:
		case limited.Err() != nil:
			l.now = min(2*l.now, l.most)
		case took < limit/4:
			l.now = max(l.now/2, l.least)
		}
		cancel()
	}
}
