// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// TestS1TrustThatRanOutDoesNotComeBack with an answer that is late: the work knows already
// that the term is lost.
func TestS1TrustThatRanOutDoesNotComeBack(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		asleep := suspends(a)
		a.SetStopTime(interval)
		a.Start()
		term, _ := a.Leads()
		a.link.Set(lockstest.Fault{Delay: 700 * time.Millisecond, Mute: true})
		time.Sleep(interval + 900*time.Millisecond) // a renewal has landed, its answer is on its way
		asleep(deadline - interval - 1200*time.Millisecond)
		a.Loses() // before the answer, which would be in time by when it was sent
		time.Sleep(300 * time.Millisecond)
		if left := term.TrustedFor(); left > 0 {
			t.Errorf("the work has heard of the end, and the term is trusted for %v", left)
		}
		a.link.Set(whole)
		if again, _ := a.Leads(); again.Token <= term.Token {
			t.Errorf("after %+v came %+v", term, again)
		}
	})
}

// TestS3ARenewalDiffersFromTheOneThatItReplaces, even if the clock says the same: otherwise
// candidates would not see that it is a renewal.
func TestS3ARenewalDiffersFromTheOneThatItReplaces(t *testing.T) {
	led(t, func(s *stage, _ *seat) {
		time.Sleep(interval / 2)
		now := time.Now()
		s.write(func(r *locks.Record) { r.RenewTime = now }) // which is mended at once
		synctest.Wait()
		if r := s.record(); r.Details.Token == 0 || r.RenewTime.UnixMicro() == now.UnixMicro() {
			t.Errorf("after the renewal the record is %+v, and said %v before", r, now)
		}
	})
}

// TestS4ABlindCandidateDoesNotGoByWhatItKnewOfADeletion, if a watch leaves states out:
// another candidate may have had the lock while its watch was broken.
func TestS4ABlindCandidateDoesNotGoByWhatItKnewOfADeletion(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b", altering(coarse(time.Second)))
		a.link.Set(cut)
		s.lock.Delete()
		a.Stop()
		time.Sleep(lease - 2*time.Second) // b has heard of it for all but three seconds of a lease
		b.link.Set(lockstest.Fault{Err: errors.New("503")})
		c := s.leader("c")
		c.link.Set(cut)
		s.lock.Delete()
		s.lock.Expire()
		b.link.Set(whole)
		b.Leads()
		time.Sleep(time.Second) // c would still work
	})
}

// TestS4WhoMakesARecordOfALongerLeaseAnewWaitsThatLongForItsPast, as in a rollout that shortens LeaseDuration.
func TestS4WhoMakesARecordOfALongerLeaseAnewWaitsThatLongForItsPast(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(held(2 * lease))
		c := s.start("c")
		s.lock.Delete()
		synctest.Wait()
		time.Sleep(2*lease - time.Second)
		c.link.Set(muted)
		s.leads(c, time.Second+2*lease)
	})
}

// TestAHistoryThatWentBackStartsTheWaitAnew, even if the record that came back is the one that was seen
// before, or empty: others may have held the lock since.
func TestAHistoryThatWentBackStartsTheWaitAnew(t *testing.T) {
	now := time.Now()
	old := locks.Record{Holder: "x", LeaseDuration: lease, RenewTime: now}
	for _, back := range []locks.Record{old, {LeaseDuration: time.Second, RenewTime: now.Add(-time.Hour)}} {
		scenario(t, func(s *stage) {
			s.lock.Restore(old)
			s.Restored = true
			b := s.start("b")
			s.write(func(r *locks.Record) { r.Details.Zone = "z" }) // no renewal
			time.Sleep(interval * 3)
			s.lock.Restore(back)
			s.leadsNotBefore(b, lease)
		})
	}
}

func TestS11DetailsOfAnotherHolderAreNotBelieved(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration = "client-go", lease
			r.Details = locks.Details{Holder: "x", Zone: "old", Pod: locks.Pod{Name: "old", UID: "old"}}
		})
		a := s.start("a", func(c *election.Config) {
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Previous != "client-go" || o.PreviousZone != "" {
					t.Errorf("takeover delay is asked for %+v", o)
				}
				return 0
			}
		})
		if got := a.Status(); got.Holder != "client-go" || got.HolderZone != "" {
			t.Errorf("status is %+v", got)
		}
		a.Leads()
	})
}

func TestS11ATakeoverReplacesAllThatIsSaidAboutTheHolder(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			r.Details = locks.Details{Holder: "x", Token: 7, Released: 7, Zone: "old", Node: "old", Nonce: "old", Trace: "old"}
			r.Details.Pod = locks.Pod{Name: "old", UID: "old"}
		})
		s.start("a").Leads()
		d := s.record().Details
		if d.Nonce == "" || d.Nonce == "old" {
			t.Errorf("the nonce is %q", d.Nonce)
		}
		if d.Nonce = ""; d != (locks.Details{Holder: "a", Zone: "z-a"}) {
			t.Errorf("details are %+v", d)
		}
	})
}

func TestS10ATakeoverDelayOnlyDelays(t *testing.T) {
	for _, head := range []time.Duration{-time.Hour, 0, 3 * time.Second} {
		led(t, func(s *stage, a *seat) {
			b := s.start("b", func(c *election.Config) {
				c.TakeoverDelay = func(o election.Takeover) time.Duration {
					if o.Previous != "a" || o.PreviousZone != "z-a" || o.Candidate.Identity != "b" {
						t.Errorf("takeover delay is asked for %+v", o)
					}
					return head
				}
			})
			a.link.Set(cut)
			s.leads(b, lease+max(0, head))
		})
	}
}

// TestS3AFormerHolderDoesNotReclaimWhatAnotherElectorHadSince, although the record that
// somebody emptied still has its traces.
func TestS3AFormerHolderDoesNotReclaimWhatAnotherElectorHadSince(t *testing.T) {
	each(t, map[string]bool{"it saw the other": true, "it was told of nothing": false}, func(s *stage, seen bool) {
		a := s.leader("a")
		time.Sleep(interval + time.Millisecond)
		take := func(r *locks.Record) {
			r.Holder, r.RenewTime, r.Transitions = "client-go", r.RenewTime.Add(time.Second), r.Transitions+1
		}
		if seen {
			s.write(take)
			a.Loses()
			s.write(emptied)
		} else {
			s.write(func(r *locks.Record) { take(r); r.Holder = "" })
			a.Loses()
		}
		s.leads(a, lease)
	})
}

// TestS3AReleaseThatIsFollowedByAnotherTermFreesNothing: a candidate that saw the release,
// and then a record that somebody emptied, has not seen who led in between.
func TestS3AReleaseThatIsFollowedByAnotherTermFreesNothing(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.link.Set(muted)                                                       // its watch reports nothing now
		b := s.start("b", behind(map[string]time.Duration{"b": interval / 10})) // after a has read its own release
		s.resigns(a)
		b.Leads()
		b.link.Set(cut) // else it would put its name back
		s.write(func(r *locks.Record) { r.Holder, r.Details = "", locks.Details{} })
		s.leadsNotBefore(a, lease-interval)
	})
}

// Identities are unique per process start (S9). If they are pod names, as with client-go,
// two processes may nevertheless have the same one.

func TestS9AnotherProcessOfTheSameIdentityIsWaitedOut(t *testing.T) {
	each(t, map[string]time.Duration{
		"before its first renewal, which notes the token": 0,
		"after its first renewal":                         interval + interval/2,
	}, func(s *stage, age time.Duration) {
		first := s.leader("pod-0")
		time.Sleep(age)
		first.link.Set(cut)
		s.leads(s.start("pod-0"), lease, status.CauseExpired)
	})
}

func TestS7AnotherProcessOfTheSameIdentityEndsTheTermAtOnce(t *testing.T) {
	each(t, map[string]func(*locks.Record){
		"it has noted a newer token":  func(r *locks.Record) { r.Details.Token = 1 << 40 },
		"it has not noted its token":  func(r *locks.Record) { r.Details.Nonce, r.Details.Token = "other", 0 },
		"it has no nonce, as of old":  func(r *locks.Record) { r.Details.Nonce, r.Transitions = "", r.Transitions+1 },
		"it writes no details at all": func(r *locks.Record) { r.Details, r.AcquireTime = locks.Details{}, r.RenewTime },
	}, func(s *stage, harm func(*locks.Record)) {
		a := s.leader("a")
		time.Sleep(interval + time.Millisecond)
		other := s.write(func(r *locks.Record) {
			r.RenewTime = r.RenewTime.Add(time.Second)
			harm(r)
		})
		took, cause := a.Loses()
		s.want("the term ends", took, 0)
		if !errors.Is(cause, election.ErrLost) || !strings.Contains(cause.Error(), "another process of this identity") {
			s.T.Errorf("cause is %v", cause)
		}
		synctest.Wait()
		if now := s.record(); now != other.Record {
			s.T.Errorf("the other's record %+v became %+v", other.Record, now)
		}
		s.leads(a, lease)
	})
}

// TestALeaderWhoseAnnotationsAreTakenOffReleasesAllTheSame: the times of its term show that
// the record is its own.
func TestALeaderWhoseAnnotationsAreTakenOffReleasesAllTheSame(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", altering(stripping))
		b := s.start("b")
		time.Sleep(time.Minute)
		a.Idles()
		a.Stop()
		s.leads(b, 0, status.CauseReleased)
	})
}

// wantPrevious checks who led before, by the record, and for how long nobody led then.
func (s *stage) wantPrevious(when, holder, cause string, nobodyLed time.Duration) {
	s.T.Helper()
	r := s.record()
	p := r.Previous
	differs := (r.AcquireTime.Sub(p.Until) - nobodyLed).Abs() > time.Millisecond
	if p.Holder != holder || p.Cause != cause || p.Until.IsZero() != (nobodyLed < 0) || nobodyLed >= 0 && differs {
		s.T.Errorf("%s: before led %+v, and the lock was acquired at %v; want %q, %s, %v", when, p, r.AcquireTime, holder, cause, nobodyLed)
	}
}

// TestTheRecordSaysWhoLedBefore, until the next acquisition: renewals and answers that are lost change
// nothing.
func TestTheRecordSaysWhoLedBefore(t *testing.T) {
	const unknown = -1
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		a.link.Set(unanswered)
		a.Start()
		time.Sleep(time.Second)
		a.link.Set(whole)
		a.Leads()
		s.wantPrevious("a leads at last", "", "absent", unknown)
		b := s.start("b")
		time.Sleep(interval + time.Second)
		a.Stop()
		b.Leads()
		s.wantPrevious("a gave up", "a", "released", 0)
		time.Sleep(10*interval + time.Millisecond)
		s.wantPrevious("b leads on", "a", "released", 0)
		c := s.start("c")
		time.Sleep(interval)
		b.link.Set(cut)
		c.Leads()
		s.wantPrevious("b fell silent", "b", "expired", lease)
		c.Stop()
		took := time.Now()
		s.write(func(r *locks.Record) {
			r.Holder, r.LeaseDuration, r.AcquireTime, r.RenewTime = "client-go", lease, took, took
		})
		s.start("d").Leads()
		s.wantPrevious("d waited for what it found", "client-go", "expired", unknown)
	})
}
