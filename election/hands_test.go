// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// What manual edits do to the record of a live leader, and what followers make of it.

func TestS3AHandThatChangesTheDurationShortensNoWait(t *testing.T) {
	for name, tc := range map[string]struct {
		edits []time.Duration
		wait  time.Duration
	}{
		"shortened":               {[]time.Duration{time.Second}, lease},
		"taken off":               {[]time.Duration{0}, lease},
		"lengthened":              {[]time.Duration{2 * lease}, 2 * lease},
		"lengthened, then undone": {[]time.Duration{2 * lease, lease}, 2 * lease},
	} {
		t.Run(name, func(t *testing.T) {
			led(t, func(s *stage, a *seat) {
				b := s.start("b")
				time.Sleep(interval + interval/2)
				a.link.Set(cut)
				for _, d := range tc.edits {
					s.write(func(r *locks.Record) { r.LeaseDuration = d })
					synctest.Wait()
				}
				_, took := b.Leads()
				s.want("b leads", took, tc.wait-interval/2)
			})
		})
	}
}

// TestS3AHolderMayShortenItsLease: from the renewal that says so on, it trusts its term no
// longer than that.
func TestS3AHolderMayShortenItsLease(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			*r = locks.Record{Holder: "x", LeaseDuration: 2 * lease, RenewTime: time.Now()}
		})
		b := s.start("b")
		time.Sleep(interval)
		s.write(func(r *locks.Record) { r.LeaseDuration, r.RenewTime = lease, time.Now() })
		_, took := b.Leads()
		s.want("b leads", took, lease)
	})
}

// TestS3AHandThatEmptiesTheRecordOfAnotherElectorReleasesNothing: client-go's
// release always has a new renewTime and a lease of one second.
func TestS3AHandThatEmptiesTheRecordOfAnotherElectorReleasesNothing(t *testing.T) {
	traces := map[string]locks.Details{
		"no traces":            {},
		"a release of ours":    {Holder: "z", Token: 3, Released: 3, Nonce: "z"},
		"a term of ours":       {Holder: "z", Token: 3, Nonce: "z"},
		"an old token, unsure": {Holder: "z"},
	}
	hands := map[string]func(*locks.Record){
		"the holder":               func(r *locks.Record) { r.Holder = "" },
		"the holder and the lease": func(r *locks.Record) { r.Holder, r.LeaseDuration = "", time.Second },
		"the holder and the time":  func(r *locks.Record) { r.Holder, r.RenewTime = "", time.Now() },
		"the times, with a lease":  func(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, time.Time{} },
		"all of it":                func(r *locks.Record) { *r = locks.Record{Details: r.Details} },
	}
	for trace, details := range traces {
		for what, hand := range hands {
			t.Run(trace+", "+what, func(t *testing.T) {
				scenario(t, func(s *stage) {
					s.write(func(r *locks.Record) {
						*r = locks.Record{Holder: "client-go", LeaseDuration: 2 * lease, RenewTime: time.Now(), Details: details}
					})
					b := s.start("b")
					time.Sleep(time.Second)
					s.write(hand)
					term, took := b.Leads()
					s.want("b leads", took, 2*lease)
					if term.Cause != status.CauseCleared {
						t.Errorf("the term is %+v", term)
					}
				})
			})
		}
	}
}

func TestS3AnEmptiedRecordThatIsChangedAgainIsNoReleaseEither(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) {
			*r = locks.Record{Holder: "client-go", LeaseDuration: 2 * lease, RenewTime: time.Now()}
		})
		b := s.start("b")
		time.Sleep(time.Second)
		s.write(func(r *locks.Record) { r.Holder = "" })
		synctest.Wait()
		s.write(func(r *locks.Record) { r.LeaseDuration, r.RenewTime = time.Second, time.Now() })
		_, took := b.Leads()
		s.want("b leads", took, 2*lease)
	})
}

// TestS3AnEmptiedRecordThatIsForgedAgainShortensNoWait: the candidate that had the lock in
// between was never seen.
func TestS3AnEmptiedRecordThatIsForgedAgainShortensNoWait(t *testing.T) {
	for what, forge := range map[string]func(*locks.Record){
		"as a release":    func(r *locks.Record) { r.LeaseDuration, r.RenewTime = time.Second, time.Now() },
		"without a lease": func(r *locks.Record) { r.LeaseDuration, r.RenewTime = 0, time.Now() },
		"as another's end": func(r *locks.Record) {
			*r = locks.Record{LeaseDuration: time.Second, RenewTime: time.Now(), Transitions: 7}
		},
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(s *stage) {
				s.write(func(r *locks.Record) { *r = locks.Record{LeaseDuration: 2 * lease, RenewTime: time.Now()} })
				b := s.start("b")
				time.Sleep(time.Second)
				s.write(forge)
				_, took := b.Leads()
				s.want("b leads", took, 2*lease)
			})
		})
	}
}

// TestS3AFirstRecordThatAHandEmptiedIsNoRelease: it still has the times and the lease of a
// renewal.
func TestS3AFirstRecordThatAHandEmptiedIsNoRelease(t *testing.T) {
	scenario(t, func(s *stage) {
		s.write(func(r *locks.Record) { *r = locks.Record{LeaseDuration: lease, RenewTime: time.Now()} })
		_, took := s.start("b").Leads()
		s.want("b leads", took, lease)
	})
}

func TestS3ARestoredBackupThatIsEmptyIsNoRelease(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b")
		time.Sleep(2 * interval)
		a.link.Set(cut)
		s.lock.Restore(locks.Record{LeaseDuration: time.Second, RenewTime: time.Now().Add(-time.Hour)})
		_, took := b.Leads()
		if took < lease {
			t.Errorf("b leads %v after the restore", took)
		}
		s.Restored = true
	})
}

// TestS3AFormerHolderDoesNotReclaimWhatAnotherElectorHadSince, although the record that
// somebody emptied still has its traces.
func TestS3AFormerHolderDoesNotReclaimWhatAnotherElectorHadSince(t *testing.T) {
	for name, seen := range map[string]bool{"it saw the other": true, "it was told of nothing": false} {
		t.Run(name, func(t *testing.T) {
			led(t, func(s *stage, a *seat) {
				time.Sleep(interval + time.Millisecond)
				take := func(r *locks.Record) {
					r.Holder, r.RenewTime, r.Transitions = "client-go", r.RenewTime.Add(time.Second), r.Transitions+1
				}
				if seen {
					s.write(take)
					a.Loses()
					s.write(func(r *locks.Record) { r.Holder = "" })
				} else {
					s.write(func(r *locks.Record) { take(r); r.Holder = "" })
					a.Loses()
				}
				_, took := a.Leads()
				s.want("a leads again", took, lease)
			})
		})
	}
}

// TestS3AReleaseThatIsFollowedByAnotherTermFreesNothing: a candidate that saw the release,
// and then a record that somebody emptied, has not seen who led in between.
func TestS3AReleaseThatIsFollowedByAnotherTermFreesNothing(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		a.link.Set(lockstest.Fault{Mute: true})      // its watch reports nothing now
		b := s.start("b", func(c *election.Config) { // after a has read its own release
			c.TakeoverDelay = func(election.Takeover) time.Duration { return interval / 10 }
		})
		if err := a.Resign(s.T.Context()); err != nil {
			t.Fatal(err)
		}
		b.Leads()
		b.link.Set(cut) // else it would put its name back
		s.write(func(r *locks.Record) { r.Holder, r.Details = "", locks.Details{} })
		if _, took := a.Leads(); took < lease-interval {
			t.Errorf("a leads %v after b was cut off", took)
		}
	})
}
