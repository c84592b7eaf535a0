// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// onTheWay is how long a request of the second candidate takes, each way.
const onTheWay = 10 * time.Millisecond

// deletedTwice lets b take over a deleted record, and cuts b off. Then b's record is
// deleted, too, right before c creates another one.
func deletedTwice(s *stage, link lockstest.Fault, options ...func(*election.Config)) (c *seat) {
	a := s.leader("a")
	b := s.start("b")
	c = s.start("c", options...)
	a.link.Set(cut)
	s.lock.Delete()
	a.Stop()
	synctest.Wait()
	time.Sleep(lease - 2*time.Second)
	link.Delay = onTheWay
	c.link.Set(link)
	b.Leads()
	b.link.Set(cut)
	s.lock.Delete()
	return c
}

// TestS4WhoMakesADeletedRecordAnewWaitsUntilItKnowsThatNobodyElseDid, for the longest lease of those who did.
func TestS4WhoMakesADeletedRecordAnewWaitsUntilItKnowsThatNobodyElseDid(t *testing.T) {
	another := func(lasts time.Duration) func(*stage) {
		return func(s *stage) {
			s.write(held(lasts))
			s.lock.Delete()
		}
	}
	type row struct {
		link    lockstest.Fault
		between func(*stage)
		watch   func(*stage) // before it is heard again
		wait    time.Duration
	}
	each(t, map[string]row{
		"its watch is silent":         {link: muted, wait: lease},
		"its watch begins anew":       {link: muted, watch: func(s *stage) { s.lock.Expire() }, wait: lease},
		"its write is on its way":     {wait: lease},
		"its answers are lost":        {link: lockstest.Fault{LoseAnswers: true, Mute: true}, wait: lease},
		"another had it for a second": {link: muted, between: another(time.Second), wait: lease}, // b's was a lease
		"another had it for four":     {link: muted, between: another(4 * lease), wait: 4 * lease},
	}, func(s *stage, tc row) {
		c := deletedTwice(s, tc.link)
		if tc.between != nil {
			tc.between(s)
		}
		time.Sleep(5 * time.Second) // b trusts its term for twice that
		s.holds("else this tests nothing:", "c")
		if tc.watch != nil {
			tc.watch(s)
		}
		c.link.Set(whole)
		s.leadsNotBefore(c, tc.wait-5*time.Second)
	})
}

func TestS4AGuardianAdoptsATermOnlyOnceNobodyElseCanLead(t *testing.T) {
	scenario(t, func(s *stage) {
		var g *guarded
		c := deletedTwice(s, muted, func(c *election.Config) {
			g = guard(c)
			g.campaign <- granted
		})
		time.Sleep(5 * time.Second) // b trusts its term for twice that
		s.holds("else this tests nothing:", "c")
		c.link.Set(whole)
		began := time.Now()
		<-g.adopted
		if took := time.Since(began); took < lease-5*time.Second {
			t.Errorf("the guardian adopts c's term after %v", took)
		}
		g.work <- granted
		s.leads(c, 0)
	})
}

func TestS4WhoMakesADeletedRecordAnewLeadsAtOnceWhereTheWatchLeavesNothingOut(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		c := s.start("c")
		a.link.Set(cut)
		s.lock.Delete()
		c.link.Set(lockstest.Fault{Delay: onTheWay}) // reads and writes take time, events do not
		s.leads(c, lease+2*onTheWay)
	})
}

func TestS4TheDeathOfWhoWaitsForAnotherProvesNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		c := deletedTwice(s, lockstest.Fault{LoseAnswers: true, Mute: true}, in("x", "1")) // d would follow it
		time.Sleep(time.Second)
		s.start("d", in("x", "2"))
		time.Sleep(time.Second)
		c.link.Set(whole)
		time.Sleep(interval)
		c.link.Set(cut)
		time.Sleep(lease)
	})
}

// TestS4ARecordThatWasMadeAnewDuringASuspensionIsNotReclaimedAtOnce: another candidate had the lock meanwhile, and its
// record was deleted, too.
func TestS4ARecordThatWasMadeAnewDuringASuspensionIsNotReclaimedAtOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		lands := make(chan struct{})
		a := s.candidate("a", altering(func(l *altered) {
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				if l.Lock.(*lockstest.Faulty).Calls("write") > 0 && !base.Exists() {
					<-lands
				}
				return l.Lock.Write(ctx, base, r)
			}
		}))
		asleep := suspends(a)
		a.Start()
		a.Leads()
		a.link.Set(muted)
		s.lock.Delete()
		time.Sleep(interval + interval/2 + time.Millisecond) // when no timer is due
		s.write(held(lease))
		s.lock.Delete()
		asleep(lease)
		close(lands)
		a.Loses()
		s.holds("else this tests nothing:", "a")
		a.link.Set(whole)
		s.leadsNotBefore(a, lease)
	})
}

// TestS4ADeletedRecordIsMadeAnewAtOnceAfterARenewalThatFailed: that one can no longer land.
func TestS4ADeletedRecordIsMadeAnewAtOnceAfterARenewalThatFailed(t *testing.T) {
	scenario(t, func(s *stage) {
		var fails atomic.Bool
		s.leader("a", altering(func(l *altered) {
			l.write = func(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
				if fails.CompareAndSwap(true, false) {
					return locks.Snapshot{}, errors.New("500")
				}
				return l.Lock.Write(ctx, base, r)
			}
		}))
		time.Sleep(interval / 2)
		fails.Store(true)
		time.Sleep(interval/2 + 10*time.Millisecond)
		s.deletes()
		time.Sleep(time.Millisecond)
		s.holds("right after the deletion", "a")
	})
}

// coarse is a lock whose watches report only the newest state, and late.
func coarse(late time.Duration) func(*altered) {
	return func(l *altered) {
		l.watch = func(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
			all, ended := make(chan locks.Event), make(chan error, 1)
			go func() { ended <- l.Lock.Watch(ctx, from, all) }()
			var last locks.Event
			var tell <-chan time.Time
			for {
				select {
				case last = <-all:
					if last.Gapless = false; tell == nil {
						tell = time.After(late)
					}
				case <-tell:
					tell = nil
					select {
					case events <- last:
					case <-ctx.Done():
					}
				case err := <-ended:
					return err
				}
			}
		}
	}
}

func TestS4ADeletionAfterAReleaseIsNoReleaseWhereAWatchLeavesThingsOut(t *testing.T) {
	led(t, func(s *stage, a *seat) {
		b := s.start("b", altering(coarse(time.Second)), behind(map[string]time.Duration{"b": 1500 * time.Millisecond}))
		time.Sleep(2 * interval)
		a.Stop()
		time.Sleep(1100 * time.Millisecond) // b has seen the release
		c := s.leader("c")
		c.link.Set(cut)
		s.lock.Delete() // which is all that b hears of c's term
		b.Leads()
		time.Sleep(time.Second) // c would still work
	})
}

func TestS4ALockThatOthersMayHaveIsNotGivenUp(t *testing.T) {
	scenario(t, func(s *stage) {
		c := deletedTwice(s, muted)
		time.Sleep(time.Second)
		d := s.start("d")
		c.Stop()
		s.leadsNotBefore(d, lease-3*time.Second)
	})
}

// TestS4ARecordThatIsDeletedAgainAndAgainIsMadeAnewAtTheRateOfRenewals: the first time at once.
// The term goes on.
func TestS4ARecordThatIsDeletedAgainAndAgainIsMadeAnewAtTheRateOfRenewals(t *testing.T) {
	scenario(t, func(s *stage) {
		said := 0
		a := s.leader("a", logging(func(line string) {
			if strings.Contains(line, "recreating it") {
				said++
			}
		}))
		b := s.start("b")
		time.Sleep(interval + interval/2)
		s.lock.Delete()
		synctest.Wait()
		s.holds("right after the first deletion", "a")
		if uid, x, y := s.read().Version.UID, a.Status().LockUID, b.Status().LockUID; x != uid || y != uid {
			t.Errorf("the UID is %q, for the leader %q, and for the follower %q", uid, x, y)
		}
		const span, every = 10 * time.Minute, 5 * time.Millisecond
		deleted := 0
		for began := time.Now(); time.Since(began) < span; time.Sleep(every) {
			if s.lock.Delete() {
				deleted++
			}
		}
		if least, most := int(span/interval)/2, int(span/interval)+10; deleted < least || deleted > most {
			t.Errorf("it was recreated %d times in %v, and renewals are %v apart", deleted, span, interval)
		}
		synctest.Wait()
		if said > 1 {
			t.Errorf("the log says it %d times", said)
		}
		time.Sleep(2 * time.Minute)
		s.lock.Delete()
		synctest.Wait()
		if r := s.record(); r.Holder != "a" || said != 2 {
			t.Errorf("when it had lasted, and was deleted, the holder is %q, and the log said %d times that it is recreated", r.Holder, said)
		}
		a.Idles() // no second term
		b.Idles()
	})
}
