// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/handovers"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// faults are what the random schedules choose from.
var faults = []lockstest.Fault{
	{}, {}, {},
	{Hang: true},
	{Mute: true},
	{LoseAnswers: true},
	{LoseAnswers: true, Mute: true},
	{Delay: 300 * time.Millisecond},
	{Delay: 1500 * time.Millisecond},
	{Delay: 3 * time.Second}, // each answer is overtaken
	{Delay: 3 * time.Second, LoseAnswers: true},
	{Err: errors.New("503")},
}

// longestStop is what the work of a schedule may take to stop.
const longestStop = 4800 * time.Millisecond

// skew is how far the wall clocks of a schedule are apart at most.
const skew = 2 * time.Second

func TestNoScheduleOfFaultsMakesTwoLeaders(t *testing.T) {
	schedules := 100
	if testing.Short() {
		schedules = 40
	}
	terms := 0
	for seed := range schedules {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			scenario(t, func(s *stage) { terms += schedule(s, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
	t.Logf("%d terms in %d schedules", terms, schedules)
	if terms < 3*schedules {
		t.Errorf("the schedules do not test much: %d terms in %d of them", terms, schedules)
	}
}

// schedule plays a random schedule, and returns how many terms there were.
func schedule(s *stage, dice *rand.Rand) int {
	var judge coroner
	var sick atomic.Int64 // the number of the candidate that is sick
	all := newCrowd()
	start := func(n int) *seat {
		id := fmt.Sprint("c", n)
		c := s.candidate(id, all.join, judge.heeded, func(c *election.Config) {
			c.WaitOnAbsent = true
			c.Health.Check = func(context.Context) error {
				if int64(n) == sick.Load() {
					return errSick
				}
				return nil
			}
			dice.IntN(2) // so that a seed stands for the schedule that it always stood for
			c.Lock = offset{c.Lock, (time.Duration(dice.Int64N(int64(skew))) - skew/2).Truncate(time.Millisecond)}
		})
		all.change(func(peers []locks.Peer) []locks.Peer { return append(peers, peer(id)) })
		c.SetStopTime(time.Duration(dice.Int64N(int64(longestStop))))
		var asleep atomic.Int64
		c.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
		c.Start()
		return c
	}
	alive := []*seat{start(0), start(1), start(2)}
	for range 40 {
		time.Sleep(time.Duration(dice.Int64N(int64(12 * time.Second))))
		i := dice.IntN(len(alive))
		switch dice.IntN(14) {
		case 0:
			s.lock.Delete()
		case 1:
			s.lock.Expire()
		case 2:
			c := alive[i]
			go func() { _ = c.Resign(s.T.Context()) }()
		case 5:
			sick.Store(int64(s.Seats() - dice.IntN(4)))
		case 3: // a restart in good order
			alive[i].Stop()
			alive[i] = start(s.Seats())
		case 4: // a process that stays silent, or is known to be dead
			if i == 0 {
				alive[i].link.Set(cut)
			} else {
				judge.bury(alive[i])
			}
			alive[i] = start(s.Seats())
		case 6:
			c, to := alive[i], locks.Successor{Identity: alive[dice.IntN(len(alive))].Status().Identity}
			go func() { _ = c.HandOver(s.T.Context(), to) }()
		case 7:
			s.ask(alive[i].Status().Identity, alive[dice.IntN(len(alive))].Status().Identity)
		default:
			alive[i].link.Set(faults[dice.IntN(len(faults))])
		}
	}
	sick.Store(-1)
	mendAndLead(s, alive)
	return len(s.History.Terms())
}

// bury lets c die, and proves it once its work has stopped: at once, unless it is stopping
// already.
func (judge *coroner) bury(c *seat) {
	proven := judge.of(c.Status().Identity)
	c.die()
	if c.Status().State != status.StateStopping {
		close(proven)
		return
	}
	time.AfterFunc(longestStop, func() { close(proven) })
}

// ask evacuates one candidate's zone and no other, and asks the leader to hand over, if
// there is a record.
func (s *stage) ask(evacuated, next string) {
	if now, err := s.lock.Read(s.T.Context()); err == nil && now.Version.Exists() {
		now.Record.Evacuated = "z-" + evacuated
		now.Record.Details.Request = handovers.Format(handovers.Request{Holder: now.Record.Holder, Successor: locks.Successor{Identity: next}})
		_, _ = s.lock.Write(s.T.Context(), now.Version, now.Record) // a write in between wins instead
	}
}

// mendAndLead ends all faults, and checks that somebody leads within the promised bound.
func mendAndLead(s *stage, alive []*seat) {
	s.T.Helper()
	for _, c := range alive {
		c.link.Set(lockstest.Fault{})
	}
	time.Sleep(2*lease + 5*time.Second)
	for _, c := range alive {
		if c.Status().State == status.StateLeader {
			return
		}
	}
	s.T.Errorf("nobody leads %v after all was mended: the record is %+v", 2*lease+5*time.Second, s.record())
}
