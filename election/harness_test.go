// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// The timing of all scenarios: 15 s / 10 s / 2 s.
const (
	lease    = timing.DefaultLeaseDuration
	deadline = timing.DefaultRenewDeadline
	interval = timing.DefaultRenewInterval
)

// longTiming is the timing of a candidate with a longer lease than the others.
var longTiming = election.Timing{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second}

// stage is one lock, and the candidates for it, in a bubble of virtual time.
type stage struct {
	*electiontest.Stage
	lock *memory.Lock
}

// seat is one candidate.
type seat struct {
	*electiontest.Seat
	link *lockstest.Faulty
}

// scenario runs f in a bubble, and checks the history at its end.
func scenario(t *testing.T, f func(s *stage)) {
	t.Helper()
	electiontest.Scenario(t, func(on *electiontest.Stage) {
		f(&stage{on, memory.New("lock")})
	})
}

// each plays a scenario for each row of a table.
func each[T any](t *testing.T, rows map[string]T, f func(s *stage, row T)) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) { f(s, row) })
		})
	}
}

// led is a scenario in which a leads.
func led(t *testing.T, f func(s *stage, a *seat)) {
	t.Helper()
	scenario(t, func(s *stage) {
		f(s, s.leader("a"))
	})
}

func (s *stage) candidate(identity string, change ...func(*election.Config)) *seat {
	s.T.Helper()
	link := lockstest.NewFaulty(s.lock)
	s.T.Cleanup(func() { link.Set(whole) })
	config := election.Config{Lock: link, Candidate: locks.Candidate{Identity: identity, Zone: "z-" + identity}, TakeoverDelay: none}
	for _, f := range change {
		f(&config)
	}
	return &seat{s.Seat(config), link}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// none is a takeover delay that leaves out the spread, so that a test can tell to the
// nanosecond when a lock is taken.
func none(election.Takeover) time.Duration { return 0 }

// start makes a candidate and lets it campaign until all is quiet.
func (s *stage) start(identity string, change ...func(*election.Config)) *seat {
	s.T.Helper()
	c := s.candidate(identity, change...)
	c.Start()
	return c
}

// leader makes a candidate, and lets it campaign until it leads.
func (s *stage) leader(identity string, change ...func(*election.Config)) *seat {
	s.T.Helper()
	c := s.start(identity, change...)
	c.Leads()
	return c
}

func (s *stage) want(what string, got, want time.Duration) {
	s.T.Helper()
	if got != want {
		s.T.Errorf("%s after %v, want %v", what, got, want)
	}
}

// leads waits for a candidate's next term, which must begin after that time, and by one of the causes; without any,
// the cause does not matter.
func (s *stage) leads(c *seat, after time.Duration, by ...status.Cause) election.Term {
	s.T.Helper()
	term, took := c.Leads()
	s.want(term.Holder+" leads", took, after)
	if len(by) > 0 && !slices.Contains(by, term.Cause) {
		s.T.Errorf("the term is %+v, want %v", term, by)
	}
	return term
}

// leadsNotBefore waits for a candidate's next term, which must not begin before that time has passed.
func (s *stage) leadsNotBefore(c *seat, least time.Duration) {
	s.T.Helper()
	if term, took := c.Leads(); took < least {
		s.T.Errorf("%s leads after %v, want %v at least", term.Holder, took, least)
	}
}

// leadsWithin waits for a candidate's next term, which must begin within that time.
func (s *stage) leadsWithin(c *seat, most time.Duration) {
	s.T.Helper()
	if term, took := c.Leads(); took > most {
		s.T.Errorf("%s leads after %v, want %v at most", term.Holder, took, most)
	}
}

// suspends returns what says for how long a candidate's machine has been suspended.
func suspends(c *seat) func(time.Duration) {
	var asleep atomic.Int64
	c.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
	return func(d time.Duration) { asleep.Store(int64(d)) }
}

// loses waits for the end of a candidate's term, after that time, and by a cause that is all of these.
func (s *stage) loses(c *seat, after time.Duration, by ...error) {
	s.T.Helper()
	took, cause := c.Loses()
	s.want("the term ends", took, after)
	for _, want := range by {
		if !errors.Is(cause, want) {
			s.T.Errorf("the cause is %v, want %v", cause, want)
		}
	}
}

// write puts a record on the lock without the candidates' knowledge, as another program
// would.
func (s *stage) write(change func(*locks.Record)) locks.Snapshot {
	s.T.Helper()
	now := s.read()
	change(&now.Record)
	now, err := s.lock.Write(s.T.Context(), now.Version, now.Record)
	must(s.T, err)
	return now
}

func (s *stage) read() locks.Snapshot {
	s.T.Helper()
	now, err := s.lock.Read(s.T.Context())
	must(s.T, err)
	return now
}

func (s *stage) record() locks.Record { return s.read().Record }

func (s *stage) deletes() { s.lock.Delete() }

// holds checks who holds the lock; an empty name stands for nobody.
func (s *stage) holds(when, holder string) {
	s.T.Helper()
	if r := s.record(); r.Holder != holder {
		s.T.Errorf("%s the holder is %q, want %q: %+v", when, r.Holder, holder, r)
	}
}

// ends waits for the end of Run, which must be without an error.
func (s *stage) ends(c *seat) {
	s.T.Helper()
	if err := c.Wait(); err != nil {
		s.T.Errorf("Run: %v", err)
	}
}

// resigns has a candidate give its term up, which must succeed.
func (s *stage) resigns(c *seat) {
	s.T.Helper()
	must(s.T, c.Resign(s.T.Context()))
}

// Faults of a candidate's connection, and none.
var (
	cut        = lockstest.Fault{Hang: true}
	muted      = lockstest.Fault{Mute: true}
	unanswered = lockstest.Fault{LoseAnswers: true}
	whole      = lockstest.Fault{}
)

// altered is a lock that a test changes. What is nil stays as it is.
type altered struct {
	locks.Lock
	can   locks.Capabilities
	read  func(context.Context) (locks.Snapshot, error)
	write func(context.Context, locks.Version, locks.Record) (locks.Snapshot, error)
	watch func(context.Context, locks.Version, chan<- locks.Event) error
	shows func(*locks.Snapshot) // changes what reads, writes and watches show
	event func(*locks.Event)    // changes what watches show
}

// altering gives a candidate an altered lock.
func altering(change func(*altered)) func(*election.Config) {
	return func(c *election.Config) {
		a := &altered{Lock: c.Lock}
		change(a)
		c.Lock = a
	}
}

func (a *altered) Capabilities() locks.Capabilities { return a.can }

func (a *altered) shown(s locks.Snapshot, err error) (locks.Snapshot, error) {
	if a.shows != nil && s.Version.Exists() {
		a.shows(&s)
	}
	return s, err
}

func (a *altered) Read(ctx context.Context) (locks.Snapshot, error) {
	if a.read != nil {
		return a.shown(a.read(ctx))
	}
	return a.shown(a.Lock.Read(ctx))
}

func (a *altered) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if a.write != nil {
		return a.shown(a.write(ctx, base, r))
	}
	return a.shown(a.Lock.Write(ctx, base, r))
}

func (a *altered) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	switch {
	case a.watch != nil:
		return a.watch(ctx, from, events)
	case a.shows == nil && a.event == nil:
		return a.Lock.Watch(ctx, from, events)
	}
	between, ended := make(chan locks.Event), make(chan error, 1)
	go func() { ended <- a.Lock.Watch(ctx, from, between) }()
	for {
		select {
		case e := <-between:
			e.Snapshot, _ = a.shown(e.Snapshot, nil)
			if a.event != nil {
				a.event(&e)
			}
			select {
			case events <- e:
			case <-ctx.Done():
			}
		case err := <-ended:
			return err
		}
	}
}

// stripping is a lock whose admission removes the annotations from each write.
func stripping(a *altered) {
	a.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
		r.Details = locks.Details{}
		return a.Lock.Write(ctx, base, r)
	}
}

// partial marks every record as partial.
func partial(a *altered) { a.shows = func(s *locks.Snapshot) { s.Partial = true } }

// logging calls f with each line that a candidate logs. The candidate waits for it.
func logging(f func(line string)) func(*election.Config) {
	return func(c *election.Config) {
		c.Logger = funcr.New(func(_, line string) { f(line) }, funcr.Options{})
	}
}
