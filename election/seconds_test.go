// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// inSeconds gives a candidate the timing of Seconds.
func inSeconds(c *election.Config) { c.Timing = timing.Fast() }

// etcdElections are the ways in which etcd answers nothing while it elects a leader: it queues
// writes, or it has forwarded them to the old leader, which is gone.
var etcdElections = map[string]lockstest.Fault{
	"writes are queued": {Hold: true},
	"writes are lost":   {Hold: true, LoseWrites: true},
}

func TestSecondsObeysTheLawAndLeavesNothingUnused(t *testing.T) {
	got := timing.Fast()
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	if got.WithDefaults() != got {
		t.Errorf("%+v has defaults to fill in", got)
	}
	if want := 470 * time.Millisecond; got.StopGrace != want {
		t.Errorf("the work has %v to stop, documented are %v", got.StopGrace, want)
	}
	for name, more := range map[string]func(*timing.Timing){
		"StopGrace":     func(t *timing.Timing) { t.StopGrace++ },
		"RenewDeadline": func(t *timing.Timing) { t.RenewDeadline++ },
		"MaxClockDrift": func(t *timing.Timing) { t.MaxClockDrift += 0.001 },
		"shared":        func(t *timing.Timing) { t.Exclusive = false },
	} {
		greedy := got
		if more(&greedy); greedy.Validate() == nil {
			t.Errorf("%s: the law allows %+v as well", name, greedy)
		}
	}
}

func TestWithSecondsATermSurvivesAnEtcdElection(t *testing.T) {
	of := timing.Fast()
	for name, fault := range etcdElections {
		for _, takes := range []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second} {
			t.Run(fmt.Sprint(name, " for ", takes), func(t *testing.T) {
				for after := time.Millisecond; after < of.RenewInterval; after += 7 * time.Millisecond {
					scenario(t, func(s *stage) {
						a := s.leader("a", inSeconds)
						all := []*seat{a, s.start("b", inSeconds), s.start("c", inSeconds)}
						time.Sleep(time.Until(s.record().RenewTime.Add(3*of.RenewInterval + after)))
						for _, c := range all {
							c.link.Set(fault)
						}
						time.Sleep(takes)
						for _, c := range all {
							c.link.Set(lockstest.Fault{})
						}
						time.Sleep(3 * of.LeaseDuration)
						a.Stays()
						all[1].Idles()
						all[2].Idles()
					})
				}
			})
		}
	}
}

// TestS3TheLastRenewalIsSeenWhileEtcdElects: the watch died before it reported the renewal, and
// etcd answers no read. An API server goes on to tell watches what it has in memory.
func TestS3TheLastRenewalIsSeenWhileEtcdElects(t *testing.T) {
	seconds := timing.Fast()
	for takes := 100 * time.Millisecond; takes < 2500*time.Millisecond; takes += 100 * time.Millisecond {
		scenario(t, func(s *stage) {
			a := s.leader("a", inSeconds)
			b := s.start("b", inSeconds)
			time.Sleep(time.Until(s.record().RenewTime.Add(3*seconds.RenewInterval - time.Millisecond)))
			b.link.Set(lockstest.Fault{Mute: true})
			time.Sleep(2 * time.Millisecond)
			a.link.Set(cut)
			last := s.record().RenewTime
			b.link.Set(lockstest.Fault{Hold: true})
			time.Sleep(takes)
			b.link.Set(lockstest.Fault{})
			b.Leads()
			seen := seconds.Silence() - seconds.RenewInterval + seconds.AttemptTimeout
			if took := time.Since(last); took < seconds.LeaseDuration || took > seconds.LeaseDuration+seen {
				t.Errorf("etcd elects for %v: b leads %v after the last renewal", takes, took)
			}
		})
	}
}
