// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package electiontest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
)

// Stage is where candidates campaign in virtual time. It records their terms.
type Stage struct {
	T       *testing.T // that of the bubble
	History History
	// Restored says that the lock's own history went back, so that tokens may
	// repeat: the terms are not checked then.
	Restored bool

	seats []*Seat
}

// Scenario runs f in a bubble of testing/synctest, on its own stage. When f has returned
// and the cleanups of T have run, it stops all candidates and checks that no two led
// together, and that tokens grew.
func Scenario(t *testing.T, f func(s *Stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &Stage{T: t}
		t.Cleanup(s.end)
		f(s)
	})
}

func (s *Stage) end() {
	for _, c := range s.seats {
		c.Stop()
	}
	for _, c := range s.seats {
		<-c.done
	}
	if err := s.History.Check(); err != nil && !s.Restored {
		s.T.Error(err)
	}
}

// Seat is one candidate. Its methods are for the goroutine of the test.
type Seat struct {
	*election.Elector
	Leading chan election.Term // gets each term when its work begins
	Ended   chan error         // gets the cause of each term's end when the work learns of it
	Quit    chan error         // makes the work return what it gets
	// Work replaces work that waits for Quit or for the end of its term. Set it before Start.
	Work func(context.Context, election.Term) error

	stage    *Stage
	stopTime atomic.Int64
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
}

// Seat makes a candidate. It does nothing before Start.
func (s *Stage) Seat(config election.Config) *Seat {
	s.T.Helper()
	e, err := election.New(config)
	if err != nil {
		s.T.Fatal(err)
	}
	c := &Seat{
		Elector: e, stage: s, Leading: make(chan election.Term, 100), Ended: make(chan error, 100), Quit: make(chan error),
	}
	c.Work = c.work
	return c
}

// Start lets c campaign, perhaps once more, and waits until all is quiet.
func (c *Seat) Start() {
	ctx, cancel := context.WithCancel(context.Background()) // T's context ends before its cleanups
	done := make(chan struct{})
	c.cancel, c.done = cancel, done
	c.stage.seats = append(c.stage.seats, c)
	go func() {
		defer close(done)
		c.err = c.Run(ctx, c.stage.History.Lead(c.Work))
	}()
	synctest.Wait()
}

func (c *Seat) work(ctx context.Context, term election.Term) error {
	c.Leading <- term
	select {
	case err := <-c.Quit:
		return err
	case <-ctx.Done():
	}
	c.Ended <- context.Cause(ctx)
	time.Sleep(time.Duration(c.stopTime.Load()))
	return ctx.Err()
}

// SetStopTime sets how long the work takes to stop; at first no time.
func (c *Seat) SetStopTime(d time.Duration) { c.stopTime.Store(int64(d)) }

// Stop ends the context of Run, and does not wait.
func (c *Seat) Stop() { c.cancel() }

// Wait waits for the end of Run, an hour at most, and returns its error.
func (c *Seat) Wait() error {
	c.stage.T.Helper()
	_, _ = awaited(c, "Run does not return", c.done)
	return c.err
}

// Leads waits for c's next term, an hour at most, and then until all is quiet. It returns
// the term and how long that took.
func (c *Seat) Leads() (election.Term, time.Duration) {
	c.stage.T.Helper()
	term, took := awaited(c, "no term begins", c.Leading)
	synctest.Wait()
	return term, took
}

// Loses waits for the end of c's term, an hour at most. It returns how long that took, and
// the cause.
func (c *Seat) Loses() (time.Duration, error) {
	c.stage.T.Helper()
	cause, took := awaited(c, "the term does not end", c.Ended)
	return took, cause
}

// awaited returns what comes within an hour, and after how long.
func awaited[T any](c *Seat, without string, box <-chan T) (it T, took time.Duration) {
	c.stage.T.Helper()
	start := time.Now()
	select {
	case it = <-box:
	case <-time.After(time.Hour):
		c.stage.T.Fatalf("%s within an hour: %+v", without, c.Status())
	}
	return it, time.Since(start)
}

// Idles checks that, once all is quiet, no term has begun that Leads has not returned.
func (c *Seat) Idles() {
	c.stage.T.Helper()
	synctest.Wait()
	if len(c.Leading) > 0 {
		c.stage.T.Fatalf("it leads: %+v", <-c.Leading)
	}
}

// Stays checks that, once all is quiet, no term has ended that Loses has not returned.
func (c *Seat) Stays() {
	c.stage.T.Helper()
	synctest.Wait()
	if len(c.Ended) > 0 {
		c.stage.T.Fatalf("the term has ended: %v", <-c.Ended)
	}
}
