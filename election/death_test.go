// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// coroner answers the candidates' question whether a holder is dead.
type coroner struct {
	mu    sync.Mutex
	dead  map[string]chan struct{} // closed when it is proven, by identity
	asked []locks.Suspect
	ended int // questions that were canceled
}

func (c *coroner) of(identity string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead == nil {
		c.dead = map[string]chan struct{}{}
	}
	if c.dead[identity] == nil {
		c.dead[identity] = make(chan struct{})
	}
	return c.dead[identity]
}

func (c *coroner) questions() []locks.Suspect {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *coroner) unwanted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *coroner) see(ctx context.Context, s locks.Suspect) error {
	c.mu.Lock()
	c.asked = append(c.asked, s)
	c.mu.Unlock()
	select {
	case <-c.of(s.Details.Holder):
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended++
		return ctx.Err()
	}
}

func (c *coroner) heeded(config *election.Config) { config.ProveDead = c.see }

// die ends a candidate as the end of its process does: its work is gone, and it no longer
// sends anything.
func (c *seat) die() {
	c.link.Set(cut)
	c.SetStopTime(0)
	c.Stop()
	synctest.Wait()
}

func TestALeaseNeedNotRunOutOnceItsHolderIsProvenDead(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		b := s.start("b", judge.heeded)
		a.die()
		time.Sleep(3 * time.Second)
		b.Idles()
		close(judge.of("a"))
		term, took := b.Leads()
		s.want("b leads", took, 0)
		if term.Cause != status.CauseDied || term.Previous != "a" {
			t.Errorf("the term is %+v", term)
		}
	})
}

func TestATakeoverDelayIsLeftAlsoWhereTheHolderIsDead(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		b := s.start("b", judge.heeded, func(c *election.Config) {
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Cause != status.CauseDied {
					return time.Minute
				}
				return time.Second
			}
		})
		a.die()
		close(judge.of("a"))
		_, took := b.Leads()
		s.want("b leads", took, time.Second)
	})
}

// TestALateRenewalOfADeadHolderDoesNotBringItBack: the holder sent it before its end, and
// it lands between the proof and the takeover's write.
func TestALateRenewalOfADeadHolderDoesNotBringItBack(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		b := s.start("b", judge.heeded)
		a.die()
		b.link.Set(lockstest.Fault{Delay: 100 * time.Millisecond})
		close(judge.of("a"))
		time.Sleep(50 * time.Millisecond) // b's write is on its way
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(interval) })
		term, took := b.Leads()
		if took > time.Second || term.Cause != status.CauseDied {
			t.Errorf("b leads after %v: %+v", took, term)
		}
	})
}

// TestAProofIsOfOneTermAlone: another process may have the same identity,
// against S9, and lives.
func TestAProofIsOfOneTermAlone(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		first := s.record().AcquireTime
		var judge coroner
		b := s.start("b", func(c *election.Config) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { return time.Second }
			c.ProveDead = func(ctx context.Context, o locks.Suspect) error {
				if o.Acquired.Equal(first.Truncate(time.Microsecond)) {
					return judge.see(ctx, o)
				}
				return errors.New("it lives")
			}
		})
		a.die()
		close(judge.of("a"))
		time.Sleep(time.Second / 2)
		s.write(func(r *locks.Record) {
			r.AcquireTime = r.AcquireTime.Add(time.Minute)
			r.RenewTime, r.Transitions = r.AcquireTime, r.Transitions+1
		})
		_, took := b.Leads()
		s.want("b leads", took, lease+time.Second)
	})
}

func TestNobodyAsksAboutAHolderWhoseDetailsAreNotBelieved(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		a.die()
		s.write(func(r *locks.Record) { r.Holder = "client-go"; r.Transitions++ })
		close(judge.of("client-go"))
		b := s.start("b", judge.heeded)
		_, took := b.Leads()
		s.want("b leads", took, lease)
		if asked := judge.questions(); len(asked) > 0 {
			t.Errorf("asked about %+v", asked)
		}
	})
}

// half marks every record as partial.
type half struct{ *memory.Lock }

func (h half) Read(ctx context.Context) (locks.Snapshot, error) {
	s, err := h.Lock.Read(ctx)
	s.Partial = true
	return s, err
}

// TestADeadHolderOfAPartOfTheLockProvesNothing: somebody else may have had the
// other part since.
func TestADeadHolderOfAPartOfTheLockProvesNothing(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		a.die()
		close(judge.of("a"))
		b := s.start("b", judge.heeded, func(c *election.Config) { c.Lock = half{s.lock} })
		_, took := b.Leads()
		s.want("b leads", took, lease)
	})
}

// TestARecordThatCameBackEndsByTimeAlone: it names a holder that is dead, and the candidate
// that held the lock since is alive.
func TestARecordThatCameBackEndsByTimeAlone(t *testing.T) {
	for name, comeBack := range map[string]func(*stage, locks.Record){
		"in a restored backup": func(s *stage, r locks.Record) { s.lock.Restore(r); s.Restored = true },
		"in its own place":     func(s *stage, old locks.Record) { s.write(func(r *locks.Record) { *r = old }) },
		"in its own place, as if it were the next term": func(s *stage, old locks.Record) {
			s.write(func(r *locks.Record) { old.Transitions = r.Transitions; *r = old })
		},
		"recreated": func(s *stage, old locks.Record) {
			s.lock.Delete()
			s.write(func(r *locks.Record) { *r = old })
		},
		"recreated, with a longer history": func(s *stage, old locks.Record) {
			s.lock.Delete()
			s.write(func(r *locks.Record) { *r = old; r.Transitions = 99 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				var judge coroner
				a := s.start("a")
				a.Leads()
				backup := s.record()
				b := s.start("b", judge.heeded)
				c := s.candidate("c", judge.heeded, func(c *election.Config) {
					c.TakeoverDelay = func(election.Takeover) time.Duration { return time.Second }
				})
				c.Start()
				a.die()
				close(judge.of("a"))
				b.Leads()
				b.link.Set(cut) // it hears nothing, and leads on
				time.Sleep(interval)
				comeBack(s, backup)
				_, took := c.Leads()
				if took < lease {
					t.Errorf("c leads after %v", took)
				}
			})
		})
	}
}

// TestARecordThatCameBackEndsByTimeAloneAlsoWhenItIsRenewed, by a manual edit or by a write
// that lands late: the candidate that held the lock since may be alive nevertheless.
func TestARecordThatCameBackEndsByTimeAloneAlsoWhenItIsRenewed(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		backup := s.record()
		b := s.start("b", judge.heeded)
		c := s.start("c", judge.heeded, func(c *election.Config) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { return time.Second }
		})
		a.die()
		close(judge.of("a"))
		b.Leads()
		b.link.Set(cut) // it hears nothing, and leads on
		s.write(func(r *locks.Record) { *r = backup })
		synctest.Wait()
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(interval) })
		if _, took := c.Leads(); took < lease {
			t.Errorf("c leads after %v", took)
		}
	})
}

// TestARestoredRecordEndsByTimeAlsoWhereNoOtherWasSeenSince: others may have
// come unseen.
func TestARestoredRecordEndsByTimeAlsoWhereNoOtherWasSeenSince(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		a := s.start("a")
		a.Leads()
		time.Sleep(interval + 1)
		backup := s.record()
		b := s.start("b", judge.heeded)
		c := s.start("c", judge.heeded)
		c.link.Set(cut)
		a.die()
		close(judge.of("a"))
		b.Leads()
		b.link.Set(cut)
		s.lock.Restore(backup)
		s.Restored = true
		c.link.Set(lockstest.Fault{})
		if _, took := c.Leads(); took < lease {
			t.Errorf("c leads after %v", took)
		}
	})
}

// TestTheQuestionIsAskedWhileTheAnswerMatters: once for all that is known of a
// holder, and again when more is known.
func TestTheQuestionIsAskedWhileTheAnswerMatters(t *testing.T) {
	scenario(t, func(s *stage) {
		var judge coroner
		var marks atomic.Value
		marks.Store(locks.ProcessID{ProcessLock: "seat"})
		a := s.start("a", judge.heeded, func(c *election.Config) {
			c.ProcessID = func() locks.ProcessID { return marks.Load().(locks.ProcessID) }
		})
		a.Leads()
		b := s.start("b", judge.heeded)
		time.Sleep(3 * interval)
		before := len(judge.questions())
		time.Sleep(10 * interval)
		if now := len(judge.questions()); now != before {
			t.Errorf("asked %d times, though nothing was new", now-before)
		}
		more := locks.ProcessID{ProcessLock: "seat", ContainerID: "id"}
		marks.Store(more)
		time.Sleep(interval)
		synctest.Wait()
		asked := judge.questions()
		if last := asked[len(asked)-1]; len(asked) != before+1 || last.Details.ProcessID != more || !last.Early {
			t.Errorf("asked %d times more, last about %+v", len(asked)-before, last)
		}
		if r := s.record(); r.Details.ProcessID != more {
			t.Errorf("the record says %+v", r.Details)
		}
		if err := a.Resign(s.T.Context()); err != nil {
			t.Fatal(err)
		}
		b.Leads()
		synctest.Wait()
		for _, o := range judge.questions() {
			if o.Details.Holder != "a" && o.Details.Holder != "b" {
				t.Errorf("asked about %+v", o)
			}
		}
		if ended := judge.unwanted(); ended != len(asked) {
			t.Errorf("%d of %d questions have ended", ended, len(asked))
		}
	})
}

func TestWhoCannotTellIsNotAskedTheSameAgain(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		time.Sleep(2 * interval) // its token is noted
		var asked atomic.Int32
		b := s.start("b", func(c *election.Config) {
			c.ProveDead = func(context.Context, locks.Suspect) error { asked.Add(1); return errors.New("no idea") }
		})
		time.Sleep(10 * interval)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		a.die()
		if _, took := b.Leads(); took < lease-interval {
			t.Errorf("b leads after %v", took)
		}
	})
}

func TestTheTwoThatGoFirstAreEarly(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		peers := []locks.Peer{peer("a"), peer("b"), peer("c"), peer("d"), peer("e")}
		delays := map[string]time.Duration{"c": 2, "d": 1, "e": 1}
		var judges [4]coroner
		for i, who := range []string{"b", "c", "d", "e"} {
			s.start(who, judges[i].heeded, func(c *election.Config) {
				c.WatchPeers = func(ctx context.Context, tell func([]locks.Peer)) { tell(peers); <-ctx.Done() }
				c.TakeoverDelay = func(o election.Takeover) time.Duration { return delays[o.Candidate.Identity] }
			})
		}
		time.Sleep(3 * interval)
		var early []bool
		for i := range judges {
			asked := judges[i].questions()
			early = append(early, asked[len(asked)-1].Early)
		}
		if got := fmt.Sprint(early); got != "[true false true false]" {
			t.Errorf("b to e are early: %s", got)
		}
	})
}

func TestWhoIsEarlyIsReckonedAnewOnlyWhenSomethingChanges(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.Leads()
		var judge coroner
		var asked atomic.Int32 // for takeover delays of others
		all := newCrowd("a", "d")
		s.start("d", judge.heeded, all.join, func(c *election.Config) {
			c.TakeoverDelay = func(o election.Takeover) time.Duration {
				if o.Candidate.Identity == "d" {
					return 1
				}
				asked.Add(1)
				return 0
			}
		})
		time.Sleep(2 * interval) // the term's token is noted
		early := func() bool {
			questions := judge.questions()
			return questions[len(questions)-1].Early
		}
		if !early() {
			t.Error("the only follower is not early")
		}
		all.change(func(peers []locks.Peer) []locks.Peer { return append(peers, peer("b"), peer("c")) })
		if early() {
			t.Error("it is early, though two others go first")
		}
		before := asked.Load()
		time.Sleep(10 * interval)
		if n := asked.Load(); n != before {
			t.Errorf("reckoned %d times more, though nothing was new", n-before)
		}
		s.write(func(r *locks.Record) { r.Evacuated = "z-b" })
		synctest.Wait()
		if n := asked.Load(); n == before {
			t.Error("not reckoned again after an evacuation")
		}
	})
}
