// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package electiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election"
)

// History records who led when, and checks that no two led together and that tokens grew.
// Its zero value is empty and ready. It is safe for concurrent use by all candidates of one
// lock in one process.
type History struct {
	mu    sync.Mutex
	terms []span
}

type span struct {
	term       election.Term
	began, end time.Time // end is zero while the work runs
}

// Lead returns work for Elector.Run. It notes when work begins, and when work has returned.
func (h *History) Lead(work func(context.Context, election.Term) error) func(context.Context, election.Term) error {
	return func(ctx context.Context, term election.Term) error {
		h.mu.Lock()
		i := len(h.terms)
		h.terms = append(h.terms, span{term: term, began: time.Now()})
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.terms[i].end = time.Now()
		}()
		return work(ctx, term)
	}
}

// Terms returns the terms in the order in which their work began.
func (h *History) Terms() []election.Term {
	h.mu.Lock()
	defer h.mu.Unlock()
	terms := make([]election.Term, len(h.terms))
	for i, s := range h.terms {
		terms[i] = s.term
	}
	return terms
}

// Check returns an error for every pair of neighboring terms whose work
// overlapped, and for every token that did not grow.
func (h *History) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for i := 1; i < len(h.terms); i++ {
		before, now := h.terms[i-1], h.terms[i]
		if before.end.IsZero() || before.end.After(now.began) {
			errs = append(errs, fmt.Errorf("two leaders: %s (token %d) had not stopped when %s (token %d) began at %v",
				before.term.Holder, before.term.Token, now.term.Holder, now.term.Token, now.began))
		}
		if now.term.Token <= before.term.Token {
			errs = append(errs, fmt.Errorf("token did not grow: %s had %d, then %s had %d",
				before.term.Holder, before.term.Token, now.term.Holder, now.term.Token))
		}
	}
	return errors.Join(errs...)
}
