// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestTimingThatBreaksTheLawIsRefusedWithTheNumbers(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	for name, test := range map[string]struct {
		timing election.Timing
		want   []string // what the error says
	}{
		"renewal does not fit": {
			election.Timing{LeaseDuration: 15 * s, RenewDeadline: 3 * s, RenewInterval: 2 * s},
			[]string{"RenewInterval 2s + AttemptTimeout 2s is 1s more than RenewDeadline 3s", "RenewDeadline of at least 4s"},
		},
		"stop does not fit": {
			election.Timing{LeaseDuration: 16 * s, RenewDeadline: 15 * s, RenewInterval: 5 * s, StopGrace: 2 * s},
			[]string{"RenewDeadline 15s + StopGrace 2s + drift 160ms is 1.16s more than LeaseDuration 16s", "LeaseDuration of at least 18s"},
		},
		"client-go's fourth fault": {
			election.Timing{LeaseDuration: 16 * s, RenewDeadline: 16 * s, RenewInterval: 5 * s},
			[]string{"drift 160ms is 160ms more than LeaseDuration 16s", "at least 17s"},
		},
		"shared second": {
			election.Timing{LeaseDuration: 3 * s, RenewDeadline: 2500 * ms, RenewInterval: 500 * ms},
			[]string{"+ 1s (RenewInterval is below 1s", "set Exclusive", "is 530ms more than LeaseDuration 3s", "at least 4s"},
		},
		"below a second": {
			election.Timing{LeaseDuration: 900 * ms, RenewDeadline: 500 * ms, RenewInterval: 200 * ms, Exclusive: true},
			[]string{"LeaseDuration is 900ms", "use 1s"},
		},
		"negative":  {election.Timing{RenewInterval: -s}, []string{"RenewInterval is -1s"}},
		"all drift": {election.Timing{MaxClockDrift: 1}, []string{"MaxClockDrift is 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.timing.WithDefaults().Validate()
			if !errors.Is(err, timing.ErrInvalid) {
				t.Fatalf("Validate: %v, want timing.ErrInvalid", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestNewNamesAllThatIsMissing(t *testing.T) {
	_, err := election.New(election.Config{
		Timing: election.Timing{LeaseDuration: time.Millisecond}, Health: election.Health{Interval: -1, After: -1},
	})
	if !errors.Is(err, election.ErrConfig) || !errors.Is(err, timing.ErrInvalid) {
		t.Fatalf("New: %v, want ErrConfig and timing.ErrInvalid", err)
	}
	for _, part := range []string{"Lock is nil", "Identity is empty", "LeaseDuration", "Health.Interval", "Health.After"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
}

// TestATakeoverTakesNoLongerThanItsBound, although the next leader's watch shows it nothing of the last renewals,
// and each request takes a tenth of AttemptTimeout.
func TestATakeoverTakesNoLongerThanItsBound(t *testing.T) {
	for name, of := range map[string]timing.Timing{"default": {}, "fast": timing.Fast(), "patient": timing.Patient()} {
		t.Run(name, func(t *testing.T) {
			of = of.WithDefaults()
			most, _ := of.Bounds()
			with := func(c *election.Config) { c.Timing = of }
			for after := of.RenewInterval / 50; after < 2*of.RenewInterval; after += of.RenewInterval / 9 {
				scenario(t, func(s *stage) {
					a := s.leader("a", with)
					b := s.start("b", with)
					time.Sleep(5 * time.Minute)
					b.link.Set(lockstest.Fault{Mute: true, Delay: of.AttemptTimeout / 20})
					time.Sleep(after)
					a.link.Set(cut)
					if _, took := b.Leads(); took > most || took < of.LeaseDuration-2*of.RenewInterval {
						t.Errorf("b leads after %v, want %v at most", took, most)
					}
				})
			}
		})
	}
}

// inSeconds gives a candidate the timing of Seconds.
func inSeconds(c *election.Config) { c.Timing = timing.Fast() }

// etcdElections are the ways in which etcd answers nothing while it elects a leader: it queues
// writes, or it has forwarded them to the old leader, which is gone.
var etcdElections = map[string]lockstest.Fault{
	"writes are queued": {Hold: true},
	"writes are lost":   {Hold: true, LoseWrites: true},
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
							c.link.Set(whole)
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
			b.link.Set(muted)
			time.Sleep(2 * time.Millisecond)
			a.link.Set(cut)
			last := s.record().RenewTime
			b.link.Set(lockstest.Fault{Hold: true})
			time.Sleep(takes)
			b.link.Set(whole)
			b.Leads()
			seen := seconds.Silence() - seconds.RenewInterval + seconds.AttemptTimeout
			if took := time.Since(last); took < seconds.LeaseDuration || took > seconds.LeaseDuration+seen {
				t.Errorf("etcd elects for %v: b leads %v after the last renewal", takes, took)
			}
		})
	}
}

// patientOutages are the ways in which the API is away: it is silent, it refuses, or both in turn.
var patientOutages = map[string][]lockstest.Fault{
	"silent":                {cut},
	"refusing":              {{Err: errors.New("connection refused")}},
	"silent, then refusing": {cut, {Err: errors.New("503")}},
	"refusing, then silent": {{Err: errors.New("503")}, cut},
	"writes are lost":       {{Hold: true, LoseWrites: true}},
	"answers are lost":      {{LoseAnswers: true, LoseReads: true}},
}

// TestAPatientTermSurvivesAnOutageOf45SecondsAtAnyMoment. So does a usual one an outage of 5 seconds, and a fast
// one an outage of a second.
func TestAPatientTermSurvivesAnOutageOf45SecondsAtAnyMoment(t *testing.T) {
	for lasts, of := range map[time.Duration]timing.Timing{
		45 * time.Second: timing.Patient(), 5 * time.Second: timing.Timing{}.WithDefaults(), time.Second: timing.Fast(),
	} {
		for name, faults := range patientOutages {
			for _, delay := range []time.Duration{0, 25 * time.Millisecond} {
				t.Run(fmt.Sprint(lasts, " ", name, ", requests take ", 2*delay), func(t *testing.T) {
					for after := time.Millisecond; after < of.RenewInterval; after += 93 * time.Millisecond {
						scenario(t, func(s *stage) {
							a := s.leader("a", func(c *election.Config) { c.Timing = of })
							a.link.Set(lockstest.Fault{Delay: delay})
							time.Sleep(5*time.Minute + after)
							for _, fault := range faults {
								a.link.Set(fault)
								time.Sleep(lasts / time.Duration(len(faults)))
							}
							a.link.Set(lockstest.Fault{Delay: delay})
							time.Sleep(3 * of.LeaseDuration)
							a.Stays()
						})
					}
				})
			}
		}
	}
}
