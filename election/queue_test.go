// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// TestS2ShortSuspensionsBetweenBeatsDoNotAddUp: each counts for the beats that may have left before it.
func TestS2ShortSuspensionsBetweenBeatsDoNotAddUp(t *testing.T) {
	for _, beats := range []bool{true, false} {
		scenario(t, func(s *stage) {
			lock := &beating{}
			lock.off.Store(!beats)
			var asleep atomic.Int64
			a := s.candidate("a", func(c *election.Config) { lock.Lock, c.Lock = c.Lock, lock })
			a.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
			a.Start()
			term, _ := a.Leads()
			for range 12 {
				time.Sleep(time.Minute)
				synctest.Wait()
				asleep.Add(int64(time.Second))
				time.Sleep(2*interval + time.Millisecond)
				synctest.Wait()
			}
			if a.Elector.Term().Token != term.Token || term.TrustedFor() <= 0 {
				t.Errorf("beats=%v: the term was lost: %v", beats, a.Status().State)
			}
		})
	}
}

// TestANoteThatNoBeatReplacesKeepsItsPlaceInTheQueue, though its turn takes longer than a RenewInterval.
func TestANoteThatNoBeatReplacesKeepsItsPlaceInTheQueue(t *testing.T) {
	for _, renewer := range []bool{true, false} {
		scenario(t, func(s *stage) {
			lock := &beating{}
			lock.off.Store(true)
			queue := func(ctx context.Context) (func(), error) {
				select {
				case <-time.After(3 * time.Second):
					return func() {}, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			a := s.candidate("a", func(c *election.Config) {
				c.Queue = queue
				if renewer {
					lock.Lock, c.Lock = c.Lock, lock
				}
			})
			a.Start()
			term, _ := a.Leads()
			time.Sleep(time.Minute)
			synctest.Wait()
			if term.TrustedFor() <= 0 {
				t.Errorf("renewer=%v: the term was lost needlessly", renewer)
			}
		})
	}
}

// TestS2ATermThatASuspensionEndedIsNotRenewedByAWriteThatWaited: the write had its turn before the work was told.
func TestS2ATermThatASuspensionEndedIsNotRenewedByAWriteThatWaited(t *testing.T) {
	scenario(t, func(s *stage) {
		var asleep atomic.Int64
		var hold atomic.Bool
		gate := make(chan struct{})
		a := s.candidate("a", func(c *election.Config) {
			c.Queue = func(ctx context.Context) (func(), error) {
				if hold.Load() {
					select {
					case <-gate:
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}
				return func() {}, nil
			}
		})
		a.SetSuspended(func() time.Duration { return time.Duration(asleep.Load()) })
		a.Start()
		a.SetStopTime(time.Second)
		term, _ := a.Leads()
		time.Sleep(10 * interval)
		hold.Store(true)
		time.Sleep(interval + time.Second) // the renewal waits
		synctest.Wait()
		writes := a.link.Calls("write")
		asleep.Store(int64(time.Hour))
		hold.Store(false)
		close(gate)
		synctest.Wait()
		time.Sleep(interval)
		synctest.Wait()
		if a.link.Calls("write") != writes && term.TrustedFor() > 0 {
			t.Errorf("a term that was not trusted any more is trusted again, and its work never ended")
		}
	})
}

// TestALeaderStopsIfTheAnswerToItsRenewalSaysThatItIsBarred.
func TestALeaderStopsIfTheAnswerToItsRenewalSaysThatItIsBarred(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := &bars{}
		a := s.start("a", func(c *election.Config) { lock.Lock, c.Lock = c.Lock, lock })
		a.Leads()
		a.link.Set(lockstest.Fault{Mute: true}) // else the watch says so, too
		lock.set.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if a.Elector.Term().TrustedFor() > 0 {
			t.Errorf("it still leads an hour after each renewal's answer said that the record is barred")
		}
	})
}
