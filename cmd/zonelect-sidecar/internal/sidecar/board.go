// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/zonelect/zonelect/election"
)

// headerTrusted says how long a program may work by an answer.
const headerTrusted = "Zonelect-Trusted-Milliseconds"

// board tells programs that poll whether this process leads, and waits for them when a term
// ends.
type board struct {
	grace    time.Duration                   // how long a program may work after the end of a term
	pause    time.Duration                   // how long a program that has stopped may take to ask again
	patience time.Duration                   // how long a healthy program may take to ask again
	resign   func(ctx context.Context) error // ends the term

	mu    sync.Mutex
	now   *told     // nil before the first term
	asked time.Time // when a program asked last, or else when the board was made
	quiet time.Time // since when no program wants to lead; zero if one does
}

// newBoard returns a board that does not resign. A candidate that has given the lock up leaves it to
// others for a RenewInterval: until then, the board knows whether the program asks again.
func newBoard(t election.Timing) *board {
	return &board{grace: most(t.StopGrace), pause: t.RenewInterval / 2, patience: t.LeaseDuration, asked: time.Now()}
}

// check is for election.Health: a candidate whose program does not ask should not lead, and does
// not campaign if the program has said that it stopped.
func (b *board) check(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.quiet.IsZero() && !time.Now().Before(b.quiet):
		return fmt.Errorf("%w: the program has stopped, and none has asked since", election.ErrUnwilling)
	case time.Since(b.asked) > b.patience:
		return fmt.Errorf("no program has asked for %v whether this replica leads", b.patience)
	}
	return nil
}

// told is a term, and what was said about it.
type told struct {
	election.Term
	ctx    context.Context // of the work
	any    bool            // a program was told that it leads
	over   bool            // no program is told so any more
	settle func()          // says that no program works in this term
}

// end ends the telling of a term. Programs that were told have the grace to learn of it and to
// stop. If there is none, nobody need be waited for.
func (b *board) end(t *told) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case t.over:
	case t.any:
		time.AfterFunc(b.grace, t.settle)
	default:
		t.settle()
	}
	t.over = true
}

// lead is the work of a term in which this process runs no command.
func lead(ctx context.Context, _ election.Term) error {
	<-ctx.Done()
	return ctx.Err()
}

// during returns work that programs which poll are told of, and that returns when none of them
// works any more.
func (b *board) during(work func(context.Context, election.Term) error) func(context.Context, election.Term) error {
	return func(ctx context.Context, term election.Term) error {
		settled, settle := context.WithCancel(context.Background())
		t := &told{Term: term, ctx: ctx, settle: settle}
		b.mu.Lock()
		b.now = t
		b.mu.Unlock()
		context.AfterFunc(ctx, func() { b.end(t) })
		err := work(ctx, term)
		b.end(t)
		<-settled.Done()
		return err
	}
}

// leading returns the term that a program may work in, and notes that one was told.
func (b *board) leading() (election.Term, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked, b.quiet = time.Now(), time.Time{}
	t := b.now
	if t == nil || t.over || t.ctx.Err() != nil {
		return election.Term{}, 0
	}
	left := t.TrustedFor()
	t.any = t.any || left > 0
	return t.Term, left
}

// stopped notes that the program has stopped its work in the term of that token. If the term
// goes on, it reports that the program no longer wants it.
func (b *board) stopped(token uint64) (unwanted bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.now
	if t == nil || t.Token != token {
		return false, fmt.Errorf("there is no term with token %d", token)
	}
	unwanted = !t.over && t.ctx.Err() == nil
	t.over, b.quiet = true, time.Now().Add(b.pause)
	t.settle()
	return unwanted, nil
}

func (b *board) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leader", b.serveLeader)
	mux.HandleFunc("POST /stopped", b.serveStopped)
	return mux
}

func (b *board) serveLeader(w http.ResponseWriter, _ *http.Request) {
	term, left := b.leading()
	w.Header().Set("Cache-Control", "no-store")
	if left <= 0 {
		http.Error(w, "this replica does not lead", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(headerTrusted, strconv.FormatInt(left.Milliseconds(), 10))
	_, _ = fmt.Fprintln(w, term.Token) // a client that has gone needs no answer
}

// serveStopped answers when the lock is released, or at once if the term was ending.
func (b *board) serveStopped(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseUint(r.URL.Query().Get("token"), 10, 64)
	if err != nil {
		http.Error(w, "say which term, as in /stopped?token=123: "+err.Error(), http.StatusBadRequest)
		return
	}
	unwanted, err := b.stopped(token)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if unwanted {
		err = b.resign(context.WithoutCancel(r.Context())) // a program that ends does not wait for the answer
	}
	if err != nil && !errors.Is(err, election.ErrNotLeading) {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
