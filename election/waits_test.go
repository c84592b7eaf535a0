// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// sight is what a follower sees of a record, and how long it then waits for the lock.
type sight struct {
	hands []func(*locks.Record) // the first was there before it, each other one follows after a pause
	wait  time.Duration         // after the last
	cause status.Cause          // of its term; empty if that does not matter
	pause time.Duration         // a second if it is zero
}

// waits tests how long followers wait for a lock.
func waits(t *testing.T, sights map[string]sight, change ...func(*election.Config)) {
	t.Helper()
	each(t, sights, func(s *stage, see sight) {
		s.write(see.hands[0])
		a := s.start("a", change...)
		for _, hand := range see.hands[1:] {
			time.Sleep(max(see.pause, time.Second))
			a.Idles()
			s.write(hand)
		}
		if see.wait > 0 { // which may be longer than Leads waits
			time.Sleep(see.wait - 1)
			a.Idles()
		}
		if term := s.leads(a, min(see.wait, 1)); see.cause != "" && term.Cause != see.cause {
			s.T.Errorf("the term is %+v, want the cause %s", term, see.cause)
		}
	})
}

// seen puts the hands of a sight in a row.
func seen(hands ...func(*locks.Record)) []func(*locks.Record) { return hands }

// is has a record replaced.
func is(record locks.Record) func(*locks.Record) {
	return func(r *locks.Record) { *r = record }
}

// held is the record of a holder that renews it now, for so long.
func held(lasts time.Duration) func(*locks.Record) {
	return func(r *locks.Record) { *r = locks.Record{Holder: "x", LeaseDuration: lasts, RenewTime: time.Now()} }
}

// lasting changes the duration alone.
func lasting(d time.Duration) func(*locks.Record) {
	return func(r *locks.Record) { r.LeaseDuration = d }
}

// emptied takes the holder's name off, and nothing else.
func emptied(r *locks.Record) { r.Holder = "" }

// replaced is a record without everything that an object without a spec and annotations lacks.
func replaced(r *locks.Record) { *r = locks.Record{} }

// labeled changes what is not about the term.
func labeled(r *locks.Record) { r.Details.Node = time.Now().String() }

// asked asks for a handover, as kubectl does.
func asked(r *locks.Record) { r.Details.Request = `{"holder":"x","identity":"c"}` }

// renewed is another renewal of the same holder.
func renewed(r *locks.Record) { r.RenewTime = r.RenewTime.Add(time.Microsecond) }

// released is what client-go's release does.
func released(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, time.Now() }

// taken is what client-go's takeover does. Annotations stay.
func taken(r *locks.Record) {
	r.Holder, r.LeaseDuration, r.RenewTime = "client-go", lease, time.Now()
	r.Transitions++
}

// TestS3AHeldLockIsTakenALeaseAfterTheFirstSightOfTheLastRenewal.
func TestS3AHeldLockIsTakenALeaseAfterTheFirstSightOfTheLastRenewal(t *testing.T) {
	nobody := is(locks.Record{Holder: "x", LeaseDuration: lease}) // somebody removed the times, perhaps from a record that was not seen
	endless := is(locks.Record{Holder: "x", RenewTime: time.Now()})
	nameless := is(locks.Record{LeaseDuration: lease})
	strange := is(locks.Record{Holder: "y", RenewTime: time.Now()})
	longer := func(r *locks.Record) { r.LeaseDuration, r.RenewTime = 2*lease, time.Now() }
	waits(t, map[string]sight{
		"a newcomer":                  {hands: seen(held(lease)), wait: lease, cause: status.CauseExpired},
		"a renewal":                   {hands: seen(held(lease), renewed), wait: lease},
		"no renewals":                 {hands: seen(held(lease), labeled, labeled, labeled), wait: lease - 3*time.Second},
		"requests for a handover":     {hands: seen(held(lease), asked, labeled, asked), wait: lease - 3*time.Second},
		"two versions without times":  {hands: seen(nobody, nobody), wait: lease},
		"shortened by a hand":         {hands: seen(held(lease), lasting(time.Second)), wait: lease - time.Second},
		"its duration taken off":      {hands: seen(held(lease), lasting(0)), wait: lease - time.Second},
		"lengthened by a hand":        {hands: seen(held(lease), lasting(2*lease)), wait: 2*lease - time.Second},
		"lengthened, then undone":     {hands: seen(held(lease), lasting(2*lease), lasting(lease)), wait: 2*lease - 2*time.Second},
		"shortened by its holder":     {hands: seen(held(2*lease), held(lease)), wait: lease},
		"its duration and times gone": {hands: seen(held(2*lease), is(locks.Record{Holder: "x"})), wait: 2 * lease},
		"no duration, then one":       {hands: seen(endless, held(40*time.Second)), wait: 40 * time.Second, pause: 10 * time.Hour},
		"emptied, then a duration":    {hands: seen(endless, emptied, longer), wait: 2 * lease, pause: 10 * time.Hour},
		"emptied, then as a release":  {hands: seen(endless, emptied, released, longer), wait: 2 * lease, pause: 10 * time.Hour},
		"both seen as one, twice":     {hands: seen(endless, nameless, longer), wait: 2 * lease, pause: 10 * time.Hour},
		"no duration, then released":  {hands: seen(endless, released), pause: 10 * time.Hour},
		"a negative duration":         {hands: seen(held(-time.Hour), released), pause: 10 * time.Hour},
		"no duration or times":        {hands: seen(is(locks.Record{Holder: "x"}), taken), wait: lease, pause: 10 * time.Hour},
		"no duration after another's": {hands: seen(held(lease), strange, labeled, labeled, taken), wait: lease, pause: lease - time.Second},
	})
}

// TestS2TimesInARecordCountForNothing: a candidate that has just started waits for a whole lease,
// whatever the record says about when it was written.
func TestS2TimesInARecordCountForNothing(t *testing.T) {
	sights := map[string]sight{}
	for name, written := range map[string]time.Time{
		"an hour ago": time.Now().Add(-time.Hour), "in the future": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		"by a clock that is not set": time.Unix(0, 0), "never": {},
	} {
		record := locks.Record{Holder: "x", LeaseDuration: lease, AcquireTime: written, RenewTime: written}
		sights[name] = sight{hands: seen(is(record)), wait: lease}
	}
	waits(t, sights)
}

// TestS3AnEmptyRecordIsFreeOnlyIfItsHolderGaveItUp: after a zonelect term the record must note its token as
// released, and any other release has a new renewTime and the shortest lease.
func TestS3AnEmptyRecordIsFreeOnlyIfItsHolderGaveItUp(t *testing.T) {
	of := func(token, released uint64) func(*locks.Record) {
		return is(locks.Record{LeaseDuration: time.Second, Details: locks.Details{Holder: "y", Token: token, Released: released}})
	}
	ours := func(token uint64) func(*locks.Record) {
		return func(r *locks.Record) {
			held(lease)(r)
			r.Details = locks.Details{Holder: "x", Token: token, Nonce: "x"}
		}
	}
	longer := is(locks.Record{LeaseDuration: 2 * lease, RenewTime: time.Now()})
	waits(t, map[string]sight{
		"nobody held it":                  {hands: seen(is(locks.Record{LeaseDuration: lease}))},
		"it says nothing":                 {hands: seen(replaced)},
		"released":                        {hands: seen(of(3, 3))},
		"not released":                    {hands: seen(of(3, 0)), wait: lease},
		"no token":                        {hands: seen(of(0, 0)), wait: lease},
		"another token":                   {hands: seen(of(3, 2)), wait: lease},
		"a renewal that was emptied":      {hands: seen(is(locks.Record{LeaseDuration: lease, RenewTime: time.Now()})), wait: lease},
		"emptied twice":                   {hands: seen(held(2*lease), emptied, released), wait: 2 * lease},
		"emptied, then a shorter lease":   {hands: seen(held(3*lease), emptied, longer), wait: 3 * lease},
		"emptied, then as a release":      {hands: seen(longer, released), wait: 2 * lease},
		"emptied, then without a lease":   {hands: seen(longer, is(locks.Record{RenewTime: time.Now()})), wait: 2 * lease},
		"emptied, then as an end":         {hands: seen(longer, is(locks.Record{LeaseDuration: time.Second, Transitions: 7})), wait: 2 * lease},
		"client-go's release":             {hands: seen(ours(3), taken, released), cause: status.CauseReleased},
		"client-go's, or that of a token": {hands: seen(ours(0), taken, released), wait: lease, cause: status.CauseCleared},
	})
	for trace, details := range map[string]locks.Details{
		"no traces":            {},
		"a release of ours":    {Holder: "z", Token: 3, Released: 3, Nonce: "z"},
		"a term of ours":       {Holder: "z", Token: 3, Nonce: "z"},
		"an old token, unsure": {Holder: "z"},
	} {
		sights := map[string]sight{}
		for what, hand := range map[string]func(*locks.Record){
			"the holder":               emptied,
			"the holder and the lease": func(r *locks.Record) { r.Holder, r.LeaseDuration = "", time.Second },
			"the holder and the time":  func(r *locks.Record) { r.Holder, r.RenewTime = "", time.Now() },
			"the times, with a lease":  func(r *locks.Record) { r.Holder, r.LeaseDuration, r.RenewTime = "", time.Second, time.Time{} },
			"all of it":                func(r *locks.Record) { *r = locks.Record{Details: r.Details} },
		} {
			foreign := func(r *locks.Record) { held(2 * lease)(r); r.Details = details }
			sights[trace+", "+what] = sight{hands: seen(foreign, hand), wait: 2 * lease, cause: status.CauseCleared}
		}
		waits(t, sights)
	}
}

// TestS9ARecordOfTheOwnIdentityWithoutANonceIsWaitedOut: client-go wrote it, or a zonelect
// version from before there were nonces.
func TestS9ARecordOfTheOwnIdentityWithoutANonceIsWaitedOut(t *testing.T) {
	sights := map[string]sight{}
	for name, details := range map[string]locks.Details{
		"client-go's":       {},
		"on others' traces": {Holder: "other", Token: 3, Nonce: "other"},
		"an old zonelect's": {Holder: "a", Zone: "z"},
	} {
		now := time.Now()
		own := locks.Record{Holder: "a", LeaseDuration: lease, RenewTime: now, AcquireTime: now, Details: details}
		sights[name] = sight{hands: seen(is(own)), wait: lease}
	}
	waits(t, sights)
}

// TestAPrecedenceIsNeverLongerThanALease, and who is named before a release, or without one, gains nothing.
func TestAPrecedenceIsNeverLongerThanALease(t *testing.T) {
	sights := map[string]sight{}
	for _, wild := range []time.Duration{-time.Hour, 0, time.Second, lease + 1, 1 << 62} {
		gave := func(r *locks.Record) {
			released(r)
			r.Details = locks.Details{Holder: "x", Token: 3, Released: 3, Handover: locks.Handover{To: "nobody", Precedence: wild}}
		}
		sights[fmt.Sprint(wild)] = sight{hands: seen(held(lease), gave), wait: min(max(0, wild), lease)}
	}
	// What client-go leaves of a handover when it takes the lock and releases it names nobody.
	named := is(locks.Record{LeaseDuration: time.Second, Details: locks.Details{
		Holder: "x", Token: 3, Released: 3, Handover: locks.Handover{To: "nobody", Precedence: time.Minute},
	}})
	sights["client-go's"] = sight{hands: seen(named, taken, released)}
	ours := func(r *locks.Record) { held(lease)(r); r.Details = locks.Details{Holder: "x", Token: 3, Nonce: "x"} }
	names := func(r *locks.Record) { r.Details.Handover = locks.Handover{To: "a"} }
	sights["no release"] = sight{hands: seen(ours, names, emptied), wait: lease}
	waits(t, sights)
}

// in makes a candidate one process of a container. Another one of it begins when that has ended.
func in(container, process string) func(*election.Config) {
	return func(c *election.Config) { c.ProcessLock = func() string { return container + "/" + process } }
}

// die ends a candidate as the end of its process does: its work is gone, and it no longer
// sends anything.
func (c *seat) die() {
	c.link.Set(cut)
	c.SetStopTime(0)
	c.Stop()
	synctest.Wait()
}

func TestS3TheNextProcessOfTheHoldersContainerNeedNotWaitForTheLease(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", in("x", "1"))
		a.die()
		b := s.start("b", in("x", "2"))
		s.leads(b, 0, status.CauseDied)
		time.Sleep(2 * interval)
		if got := s.record().Details.ProcessLock; got != "x/2" {
			t.Errorf("the record says that its holder has the process lock %q", got)
		}
	})
}

// TestALateRenewalOfADeadHolderDoesNotBringItBack: the holder sent it before its end, and
// it lands between the proof and the takeover's write.
func TestALateRenewalOfADeadHolderDoesNotBringItBack(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.leader("a", in("x", "1"))
		a.die()
		b := s.candidate("b", in("x", "2"))
		b.link.Set(lockstest.Fault{Delay: 100 * time.Millisecond})
		b.Start()
		time.Sleep(250 * time.Millisecond) // b's write is on its way
		s.write(func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(interval) })
		term, took := b.Leads()
		if took > time.Second || term.Cause != status.CauseDied {
			t.Errorf("b leads after %v: %+v", took, term)
		}
	})
}

// TestS3WhoseProcessMayLiveKeepsTheLockForItsLease: the holder is a process of another container, or
// lives in this one, or is not known by what the record says.
func TestS3WhoseProcessMayLiveKeepsTheLockForItsLease(t *testing.T) {
	type row struct {
		leads, asks func(*election.Config)
		then        func(*locks.Record)
	}
	each(t, map[string]row{
		"another container": {leads: in("x", "1"), asks: in("y", "2")},
		"the same process":  {leads: in("x", "1"), asks: in("x", "1")},
		"the holder has no process lock": {
			leads: func(*election.Config) {}, asks: in("x", "2"),
		},
		"the holder's is garbage": {
			leads: func(c *election.Config) { c.ProcessLock = func() string { return "garbage" } }, asks: func(*election.Config) {},
		},
		"neither has one": {leads: func(*election.Config) {}, asks: func(*election.Config) {}},
		"client-go's candidate has taken the lock since": {
			leads: in("x", "1"), asks: in("x", "2"), then: func(r *locks.Record) { r.Holder = "client-go"; r.Transitions++ },
		},
		"another process of the identity has taken the lock since": {
			leads: in("x", "1"), asks: in("x", "2"), then: func(r *locks.Record) { r.Details.ProcessLock = "y/1"; r.Transitions++ },
		},
		"a part of the record is gone": {leads: in("x", "1"), asks: func(c *election.Config) {
			in("x", "2")(c)
			altering(partial)(c)
		}},
	}, func(s *stage, tc row) {
		a := s.leader("a", tc.leads)
		a.die()
		if tc.then != nil {
			s.write(tc.then)
		}
		s.leads(s.start("b", tc.asks), lease)
	})
}
