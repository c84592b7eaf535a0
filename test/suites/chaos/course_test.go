// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
)

// under is a course of two faults in this order, the first at 10, the second that
// much later. The API answered again, and all was well, at the given times.
func under(t *testing.T, first, second string, apart, answered, healed float64) course {
	t.Helper()
	c := course{plan: plan{Timing: timings[0]}, group: onLease, answered: at(answered), healed: at(healed)}
	for i, name := range []string{first, second} {
		if name != "" {
			c.plan.Faults = append(c.plan.Faults, rounds(t, name)[0]...)
			begin := at(10 + float64(i)*apart)
			c.bites = append(c.bites, bite{Fault: name, Began: begin, Bit: begin})
		}
	}
	return c
}

// between is what is promised for a gap between two terms with this beginning
// and end.
func (c course) between(from, to float64) time.Duration {
	return c.limit(gap{from: at(from), to: at(to), within: false})
}

func (c course) within(from, to float64) time.Duration {
	return c.limit(gap{from: at(from), to: at(to), within: true})
}

// near reports whether two durations differ only by the rounding of made-up
// times.
func near(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond }

func TestOneFaultIsPromisedWhatItsTableSays(t *testing.T) {
	timing := timings[0]
	for name, want := range map[string]time.Duration{
		"leader-killed": takeover(timing, 0).gap - hang, "leader-zone-cut": takeover(timing, 0).gap, "follower-killed": slack, "apiserver-frozen": reconnected(timing, 0).gap,
		"etcd-leader-killed": reelection(timing, 0).gap, "etcd-frozen": outage(timing, 6*time.Second).limit(),
		"quorum-and-leader-lost": lossInOutage(timing, 6*time.Second).limit(),
	} {
		if got := under(t, name, "", 0, 16, 17).between(10, 16); !near(got, want) {
			t.Errorf("%s is promised %v, want %v", name, got, want)
		}
	}
}

// Two faults are promised the longer of the two recoveries, not their sum: the
// second counts from when it bit.
func TestWhatASecondFaultMayAddIsWhatItTakesFromThenOn(t *testing.T) {
	kill := takeover(timings[0], 0).gap - hang // no request hangs
	c := under(t, "leader-killed", "leader-stopped", 3, 30, 30)
	both := 3*time.Second + kill + 3*timings[0].RenewInterval
	if got := c.between(10, 20); !near(got, both) {
		t.Errorf("a gap under both is promised %v, want %v", got, both)
	}
	if got := c.between(10, 12.9); !near(got, kill) {
		t.Errorf("a gap that was over before the second began is promised %v, want %v", got, kill)
	}
	if got := c.between(13, 20); !near(got, both-3*time.Second) {
		t.Errorf("a gap that the second made is promised %v, want %v", got, both-3*time.Second)
	}
	if got := under(t, "leader-killed", "lease-deleted", 3, 30, 30).between(10, 14); !near(got, kill) {
		t.Errorf("beside a fault that hits nobody it is promised %v, want %v", got, kill)
	}
}

// A leader that keeps its term need not wait for any lease.
func TestAGapWithinATermIsWhatTheAPITakes(t *testing.T) {
	for name, c := range map[string]struct {
		course course
		want   time.Duration
	}{
		"one server gone":   {under(t, "apiserver-frozen", "", 0, 30, 30), slack},
		"two servers gone":  {under(t, "apiserver-frozen", "apiserver-killed", 1, 30, 30), slack + hang + redials},
		"etcd elects":       {under(t, "etcd-leader-killed", "", 0, 30, 30), slack + electionOfEtcd + mostRedials*hang},
		"the API is away":   {under(t, "follower-killed", "etcd-frozen", 1, 16, 30), 6*time.Second + slack},
		"a follower killed": {under(t, "follower-killed", "lease-deleted", 1, 30, 30), slack},
	} {
		if got := c.course.within(10, 20); !near(got, c.want) {
			t.Errorf("%s: it is promised %v, want %v", name, got, c.want)
		}
	}
}

func TestALeaseThatRunsOutInAnOutageIsOverAfterIt(t *testing.T) {
	timing := timings[0]
	fromReturn := func(c course) time.Duration { return c.between(10, 40) - c.answered.Sub(at(10)) }
	// The followers have seen the last renewal: nothing is left of the lease.
	if got := fromReturn(under(t, "leader-killed", "etcd-frozen", 2, 30, 31)); !near(got, afterOutage(timing)) {
		t.Errorf("after the outage a follower is promised to lead within %v, want %v", got, afterOutage(timing))
	}
	// They have not: the lease counts from then.
	unseen := lossInOutage(timing, time.Minute).gap
	for name, c := range map[string]course{
		"killed just before": under(t, "leader-killed", "etcd-frozen", 0.1, 30, 31),
		"killed in it":       under(t, "etcd-frozen", "leader-killed", 2, 30, 31),
	} {
		if got := fromReturn(c); !near(got, unseen) {
			t.Errorf("%s: after the outage a follower is promised to lead within %v, want %v", name, got, unseen)
		}
	}
	if afterOutage(timing) >= unseen {
		t.Errorf("with nothing left of the lease it takes %v, and with all of it %v", afterOutage(timing), unseen)
	}
}

func TestTwoOutagesArePromisedOnce(t *testing.T) {
	c := under(t, "etcd-frozen", "apiservers-frozen", 2, 20, 22)
	want := outage(timings[0], 10*time.Second).limit() + timings[0].WithDefaults().AttemptTimeout
	if got := c.between(10, 21); got > want+timings[0].LeaseDuration {
		t.Errorf("two outages are promised %v, where one is %v", got, want)
	}
}

// Without two members of etcd there is no quorum: the API is away until it is
// seen to answer.
func TestTwoMembersGoneAreAnOutage(t *testing.T) {
	c := under(t, "leader-zone-cut", "leader-zone-dark", 2, 25, 30)
	if got, least := c.between(10, 29), 15*time.Second; got < least {
		t.Errorf("while nobody answers a gap of %v is promised, want at least %v", got, least)
	}
	c.answered = at(12.1) // it was the same zone
	if got, most := c.between(10, 29), 15*time.Second; got > most {
		t.Errorf("where the API answers on a gap of %v is promised, want at most %v", got, most)
	}
}

// A term that no lease ends is lost in such an outage, too.
func TestATermThatTwoMembersEndBeginsAnewAfterThem(t *testing.T) {
	c := under(t, "etcd-leader-killed", "disk-slow", 2, 25, 30)
	want := 15*time.Second + outage(timings[0], time.Minute).gap
	if got := c.between(10, 29); !near(got, want) {
		t.Errorf("a gap between terms is promised %v, want %v", got, want)
	}
}

func TestWhatAHandDoesInAnOutageIsWaitedOut(t *testing.T) {
	unseen := 15*time.Second + lossInOutage(timings[0], time.Minute).gap
	if got := under(t, "rights-revoked", "lease-deleted", 2, 25, 25).between(10, 29); !near(got, unseen) {
		t.Errorf("deleted in an outage it is promised %v, want %v", got, unseen)
	}
	seen := 15*time.Second + outage(timings[0], time.Minute).gap
	if got := under(t, "lease-deleted", "rights-revoked", 0, 25, 25).between(10, 29); got > seen+timings[0].WithDefaults().AttemptTimeout {
		t.Errorf("deleted before it it is promised %v, want %v", got, seen)
	}
}

func TestWhatAHandDoesToADeadLeadersLockIsWaitedOut(t *testing.T) {
	lease := takeover(timings[0], 0).gap
	if got := under(t, "leader-killed", "lease-garbled", 3, 30, 31).between(10, 20); !near(got, 3*time.Second+lease-hang) {
		t.Errorf("a dead leader's lock that is edited: promised %v, want a lease from the edit on (%v)", got, lease)
	}
	if got := under(t, "lease-garbled", "leader-killed", 3, 30, 31).between(13, 23); !near(got, lease-hang) {
		t.Errorf("a leader that dies after an edit: promised %v, want a lease (%v)", got, lease)
	}
}

func TestTheAPIAnswersAgainWhenAllIsWellOrAWriteShowsIt(t *testing.T) {
	c := under(t, "follower-killed", "etcd-frozen", 1, 0, 30)
	one, another := newStory(), newStory()
	one.write("a", 10, 5, at(10.9), "")
	one.write("a", 10, 6, at(12), "timed out")
	another.write("b", 20, 4, at(18), "")
	all := map[string]evidence{"one": one.evidence, "another": another.evidence}
	for mending, want := range map[float64]time.Time{
		25: at(18).Add(time.Millisecond), // the API was never away
		15: c.healed,                     // it is away until the last server has started
	} {
		e := evidence{Bites: c.bites, Mending: at(mending), Healed: c.healed}
		if got := answered(c.plan, e, all); !got.Equal(want) {
			t.Errorf("mended from %v on it answered again at %v, want %v", mending, got, want)
		}
	}
}

func TestAFaultOfOneGroupTouchesNoOther(t *testing.T) {
	c := under(t, "collector-racing", "leader-killed", 1, 30, 30)
	if got, want := c.between(10, 10.5), slack; !near(got, want) {
		t.Errorf("a group without a shield is promised %v, want %v", got, want)
	}
	other := c
	other.group = onShield
	if c.changes() != 1 || other.changes() < 1 {
		t.Errorf("leaders may change %d and %d times", c.changes(), other.changes())
	}
}

func TestOnlyARecordThatNamesAnotherHolderEndsATerm(t *testing.T) {
	ends := 0
	for i := range 200 {
		c := under(t, "lease-garbled", "", 0, 30, 30)
		c.plan.Seed, c.plan.Index = 7, i
		named := c.plan.dice("lease-garbled").IntN(len(leaseEdits)) == namesAnother
		if limit := c.between(10, 20); named != (limit > slack) {
			t.Errorf("run %d, which names another: %v, is promised %v", i, named, limit)
		}
		if named {
			ends++
		}
	}
	if ends == 0 || ends == 200 {
		t.Errorf("%d of 200 edits name another holder", ends)
	}
}

func TestChangesOfLeaderAreJudgedInPairs(t *testing.T) {
	for name, most := range map[string]int{
		"follower-killed+lease-deleted":      0,
		"leader-killed+follower-killed":      1,
		"leader-killed+leader-stopped":       2,
		"apiserver-killed+follower-killed":   0,
		"apiserver-killed+apiserver-frozen":  1, // a term may not survive both
		"leader-killed+etcd-frozen":          2, // and may be lost again
		"candidates-rolled+follower-killed":  3,
		"candidates-rolled+apiserver-killed": 4,
	} {
		pair := strings.Split(name, "+")
		if got := under(t, pair[0], pair[1], 1, 30, 30).changes(); got != most {
			t.Errorf("%s: leaders may change %d times, want %d", name, got, most)
		}
	}
}

// The Precedence that counts is that of the candidate that waits.
func TestAfterAnOutageAnotherMayLeadWhereTimingsDiffer(t *testing.T) {
	c := under(t, "etcd-frozen", "", 0, 30, 30)
	if got := c.changes(); got != 0 {
		t.Errorf("with one timing leaders may change %d times", got)
	}
	c.plan.Mix = []election.Timing{timings[0], twice}
	if got := c.changes(); got != 1 {
		t.Errorf("with two timings leaders may change %d times, want 1", got)
	}
}

func TestAPairWithTooManyChangesFails(t *testing.T) {
	s := newStage(nil, plan{Faults: append(rounds(t, "follower-killed")[0], rounds(t, "lease-deleted")[0]...), Timing: timings[0]})
	all := map[string]evidence{}
	for _, g := range s.groups {
		one := newStory() // a story in which the leader changes once
		one.Bites = []bite{{Fault: "follower-killed", Began: at(5), Bit: at(5)}, {Fault: "lease-deleted", Began: at(6), Bit: at(6)}}
		all[g.name] = one.evidence
	}
	r := result{}
	s.judge(&r, all, nil, nil)
	if r.Verdict != failed || !strings.Contains(r.Reason, "lease: the leader changed 1 times, promised are 0") {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}

func TestAGapOfOneTermIsToldFromOneBetweenTwo(t *testing.T) {
	s := newStory()
	s.write("b", 20, 4, at(13), "")
	s.Over = at(14)
	f := judge(s.evidence)
	between := 0
	for _, g := range f.gaps {
		if !g.within {
			between++
		}
	}
	if between != 1 || len(f.gaps) != 4 {
		t.Errorf("found %d gaps between terms in %+v, want one of four", between, f.gaps)
	}
	s.say("b", events.Event{Event: "leading", Token: 30, Time: at(13.1)})
	s.Terms = append(s.Terms, history.Span{Pod: "b", Start: at(13.1), End: at(14)})
	s.write("b", 30, 1, at(13.5), "")
	if f := judge(s.evidence); f.gaps[len(f.gaps)-1].within {
		t.Error("who leads again has another term")
	}
}

// Two faults are promised no less than each of them alone.
func TestNoPairIsPromisedLessThanItsFaults(t *testing.T) {
	for _, timing := range timings {
		for _, a := range faults() {
			for _, b := range faults() {
				if a.name == b.name {
					continue
				}
				c := under(t, a.name, b.name, 1, 16, 20)
				c.plan.Timing, c.group = timing, onShield
				for i, f := range []fault{a, b} {
					alone := c
					alone.plan.Faults, alone.bites = []fault{f}, c.bites[i:i+1]
					for _, g := range []gap{{from: at(10), to: at(21), within: false}, {from: at(10), to: at(21), within: true}, {from: at(15), to: at(21), within: false}} {
						if one, two := alone.limit(g), c.limit(g); one > two {
							t.Errorf("%s: %s alone is promised %v, and %s+%s %v", timingName(timing), f.name, one, a.name, b.name, two)
						}
					}
				}
			}
		}
	}
}

func TestAGapIsJudgedByWhoLedBeforeInAndAfterIt(t *testing.T) {
	s := newStory() // a story in which b follows a
	if got := judge(s.evidence).gaps[0].by; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("it is judged by %v", got)
	}
	s.Terms = append(s.Terms, history.Span{Pod: "c", Start: at(6), End: at(7)}) // and wrote nothing
	if got := judge(s.evidence).gaps[0].by; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("with a third between them it is judged by %v", got)
	}
	s.Healed, s.Over = at(11.5), at(31)
	if gaps := judge(s.evidence).gaps; gaps[len(gaps)-1].by != nil {
		t.Errorf("where nobody led after it, it is judged by %v", gaps[len(gaps)-1].by)
	}
}

// If a follower's zone is lost, etcd's leader may have been in it.
func TestAZoneWithEtcdsLeaderIsPromisedAnElection(t *testing.T) {
	c := under(t, "follower-zone-dark", "", 0, 30, 30)
	if got := c.within(10, 20); !near(got, slack) || c.changes() != 0 {
		t.Errorf("another zone is promised %v and %d changes", got, c.changes())
	}
	c.bites[0].Elects = true
	if got := c.within(10, 20); !near(got, slack+electionOfEtcd) {
		t.Errorf("a gap within a term is promised %v, want %v", got, slack+electionOfEtcd)
	}
	if got, want := c.between(10, 20), reelection(timings[0], 0); !near(got, want.gap) || c.changes() != want.changes {
		t.Errorf("a gap between terms is promised %v and %d changes, want %+v", got, c.changes(), want)
	}
}

func TestAnElectionOfEtcdsIsOverWithTheFirstWriteSince(t *testing.T) {
	c := under(t, "etcd-leader-killed", "", 0, 30, 30)
	for sent, want := range map[float64]time.Duration{
		9.5: electionOfEtcd, // before it
		11:  time.Second + time.Millisecond,
		18:  electionOfEtcd, // the largest
	} {
		c.acks = []events.Event{{Sent: at(sent), Time: at(sent).Add(time.Millisecond)}}
		want += slack + mostRedials*hang
		if got := c.within(10, 20); !near(got, want) {
			t.Errorf("with a write at %v a gap within a term is promised %v, want %v", sent, got, want)
		}
	}
}

func TestALeaseThatWasReleasedNeedNotRunOut(t *testing.T) {
	c := under(t, "candidates-rolled", "apiserver-killed", 1, 30, 30)
	g := gap{from: at(11.5), to: at(20)}
	if got, least := c.limit(g), takeover(timings[0], 0).gap; got < least {
		t.Errorf("where nobody released it %v is promised, want at least %v", got, least)
	}
	kept := c.limit(g)
	g.released = true
	if got := c.limit(g); got >= kept {
		t.Errorf("where the lease was released %v is promised, and %v where it was not", got, kept)
	}
	s := newStory()
	if judge(s.evidence).gaps[0].released {
		t.Error("nobody released it")
	}
	s.say("a", events.Event{Event: "released", Time: at(5)})
	if !judge(s.evidence).gaps[0].released {
		t.Error("it was released")
	}
}
