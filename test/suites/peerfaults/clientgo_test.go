// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package peerfaults_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// quick sets the RetryPeriod of a follower so short that chance must not decide
// a test: it polls every one to 2.2 retry periods.
func quick(retry time.Duration, c *candidate) *candidate {
	c.timing.retry = retry
	return c
}

// Release reads the lease, but then goes by what it had read before.
func TestClientGoReleasesAnothersLease(t *testing.T) {
	for name, away := range map[string]func(*candidate){"partition": func(c *candidate) { c.cut() }, "pause": func(c *candidate) { c.stop() }} {
		t.Run(name, func(t *testing.T) {
			shows(t, clientGo, func(s *stage) bool {
				a, b := s.candidate("a"), s.candidate("b")
				a.release = true
				a.start()
				s.pass(5 * time.Second)
				away(a)
				b.start()
				s.until(b.leads)
				a.mend()
				cleared := s.holder() == ""
				c := s.candidate("c").start()
				s.pass(time.Minute)
				return s.overlap(b, c) > 0 || cleared
			})
		})
	}
}

// It keeps trying to renew a lease that it has seen another holder take.
func TestClientGoWorksOnWhileItSeesAnotherLeader(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a := s.candidate("a").start()
		s.pass(4*time.Second + time.Millisecond)
		s.server.Change(leasePath, func(o apitest.Object) {
			spec := o["spec"].(apitest.Object)
			spec["holderIdentity"], spec["leaseTransitions"] = "b", 1
		})
		worked := s.until(a.rests)
		s.t.Logf("work ends after %v", worked.Round(10*time.Millisecond))
		return worked >= s.timing.deadline
	})
}

// With ReleaseOnCancel the lease is free while the work that was told to stop
// still runs.
func TestClientGoReleasesBeforeTheWorkHasStopped(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a, b := s.candidate("a"), s.candidate("b")
		a.release, a.stopTime = true, 10*time.Second
		a.start()
		b.start()
		s.pass(5 * time.Second)
		a.cancel()
		s.until(b.leads)
		s.pass(time.Minute)
		return s.overlap(a, b) > 0
	})
}

// And where the lease is lost, the work is told only after a last attempt to
// release it.
func TestClientGoStopsTheWorkAfterTheRelease(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"no request timeout": 0, "that of controller-runtime": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			shows(t, clientGo, func(s *stage) bool {
				a, b := s.candidate("a"), quick(500*time.Millisecond, s.candidate("b"))
				a.release, a.timeout = true, timeout
				a.start()
				s.pass(4*time.Second + time.Millisecond)
				a.cut()
				b.start()
				worked := s.until(a.rests)
				s.t.Logf("work ends %v after the last renewal", worked.Round(10*time.Millisecond))
				s.until(b.leads)
				return s.overlap(a, b) > 0
			})
		})
	}
}

// The work ends RetryPeriod + RenewDeadline after the last renewal, but
// client-go checks only that RenewDeadline is shorter than the lease.
func TestClientGoAcceptsATimingThatMakesTwoLeaders(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		s.timing = durations{16 * time.Second, 15 * time.Second, 5 * time.Second}
		a, b := s.candidate("a").start(), quick(time.Second, s.candidate("b"))
		s.pass(5*time.Second + time.Millisecond)
		a.cut()
		b.start()
		s.until(b.leads)
		s.until(a.rests)
		return s.overlap(a, b) > 0
	})
}

// refuses checks that zonelect does not accept a timing.
func refuses(t *testing.T, unlawful durations) {
	t.Helper()
	_, err := election.New(election.Config{
		Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}, Timing: unlawful.ours(),
	})
	if !errors.Is(err, timing.ErrInvalid) {
		t.Errorf("zonelect takes %v, or says %v", unlawful, err)
	}
}

// The record has whole seconds, and client-go cuts off the rest: with a lease of
// 1.9 s the others wait for one second.
func TestClientGoCutsTheLeaseToWholeSeconds(t *testing.T) {
	unlawful := durations{1900 * time.Millisecond, 1400 * time.Millisecond, 400 * time.Millisecond}
	if !play(t, clientGo, func(s *stage) bool {
		s.timing = unlawful
		a, b := s.candidate("a").start(), quick(100*time.Millisecond, s.candidate("b"))
		s.pass(801 * time.Millisecond)
		a.cut()
		b.start()
		s.until(b.leads)
		s.until(a.rests)
		return s.overlap(a, b) > 0
	}) {
		t.Error("the fault is gone: correct docs/chaos-findings.md")
	}
	refuses(t, unlawful)
}

// A lease below a second becomes zero. A real API server refuses such a record,
// so that nobody ever leads.
func TestClientGoWritesNoLeaseOfLessThanASecond(t *testing.T) {
	unlawful := durations{900 * time.Millisecond, 600 * time.Millisecond, 200 * time.Millisecond}
	if !play(t, clientGo, func(s *stage) bool {
		s.timing = unlawful
		s.candidate("a").start()
		return *s.lease().Spec.LeaseDurationSeconds == 0
	}) {
		t.Error("the fault is gone: correct docs/chaos-findings.md")
	}
	refuses(t, unlawful)
}

// A slow answer extends the leader's trust beyond what the others wait.
func TestClientGoTrustsFromTheAnswer(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a, b := s.candidate("a").start(), s.candidate("b")
		s.pass(3 * time.Second)
		a.set(fault{answers: true})
		s.pass(time.Second + time.Millisecond) // the renewal of the fourth second has arrived
		b.start()
		s.pass(9500 * time.Millisecond)
		a.mend()
		a.cut()
		s.until(b.leads)
		s.until(a.rests)
		return s.overlap(a, b) > 0
	})
}

// The work ends only once a request returns. A request ignores its context if its
// credentials come from a program that hangs, or from a network file system that
// hangs.
func TestNothingEndsClientGosTermWhileARequestHangs(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a, b := s.candidate("a").start(), s.candidate("b")
		s.pass(4*time.Second + time.Millisecond)
		a.stop()
		b.start()
		s.until(b.leads)
		s.pass(time.Minute)
		a.mend()
		s.until(a.rests)
		return s.overlap(a, b) >= time.Minute
	})
}

// Two renewals within a second look the same to a follower, so it takes the
// lease of a healthy leader.
func TestClientGoDoesNotSeeRenewalsWithinASecond(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		s.timing = durations{time.Second, 650 * time.Millisecond, 300 * time.Millisecond}
		a, b := s.candidate("a").start(), quick(50*time.Millisecond, s.candidate("b")).start()
		s.pass(10 * time.Second)
		return s.overlap(a, b) > 0
	})
}

// leader_election_master_status stays at 1 after a release.
func TestClientGosGaugeStaysAfterARelease(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a := s.candidate("a")
		a.release = true
		a.start()
		s.pass(5 * time.Second)
		if !a.gaugeSaysLeader() {
			s.t.Error("the gauge does not say that it leads")
		}
		a.cancel()
		<-a.done
		return s.holder() == "" && a.gaugeSaysLeader()
	})
}

// OnStoppedLeading is called for a candidate that never led. zonelect has no
// such callback: its one function is called when the work begins, and returns
// when it ends.
func TestClientGoTellsThatItStoppedLeadingThoughItNeverLed(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		s.candidate("a").start()
		b := s.candidate("b").start()
		s.pass(5 * time.Second)
		b.cancel()
		<-b.done
		return b.stoppedLeading
	})
}

// Run returns while the work that it started still runs, and most programs exit
// then.
func TestClientGoReturnsWhileTheWorkRuns(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a := s.candidate("a")
		a.stopTime = 3 * time.Second
		a.start()
		s.pass(5 * time.Second)
		a.cancel()
		<-a.done
		return a.leads()
	})
}

// A follower polls all the time.
func TestClientGosFollowersPoll(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		a, b := s.candidate("a").start(), s.candidate("b").start()
		s.pass(time.Minute)
		leader, follower := a.sent(), b.sent()
		s.pass(5 * time.Minute)
		leader, follower = a.sent()-leader, b.sent()-follower
		s.t.Logf("in five minutes the leader sends %d requests, an idle follower %d", leader, follower)
		return follower > 60
	})
}

// A renewal whose answer was lost is retried with the same time: the leader
// counts its term from the retry, and nobody else can tell it from the first
// renewal.
func TestClientGoRenewsWithoutAnyoneSeeingIt(t *testing.T) {
	shows(t, clientGo, func(s *stage) bool {
		var mu sync.Mutex
		same := 0 // writes by the leader that nobody can tell from the one before
		s.server.Stored = func(_ *http.Request, path string, before, after apitest.Object) {
			mu.Lock()
			defer mu.Unlock()
			if path == leasePath && before != nil && string(apitest.Marshal(before["spec"])) == string(apitest.Marshal(after["spec"])) {
				same++
			}
		}
		a, b := s.candidate("a"), quick(500*time.Millisecond, s.candidate("b"))
		a.timeout = 5 * time.Second // as controller-runtime sets it
		a.start()
		s.pass(3 * time.Second)
		a.set(fault{lost: true})
		s.pass(time.Second + time.Millisecond) // the renewal of the fourth second has arrived
		b.start()
		s.pass(time.Second)
		a.mend()
		s.pass(4 * time.Second)
		a.cut()
		s.until(b.leads)
		s.until(a.rests)
		return s.overlap(a, b) > 0 && same > 0
	})
}
