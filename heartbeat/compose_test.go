// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

func TestWhatALockAndItsHeartbeatMakeTogether(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	leaseOf := func(name string, number, renewed int) *coordinationv1.Lease {
		l := record.Write(nil, locks.Record{
			Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: start, RenewTime: at(renewed),
			Details: locks.Details{Holder: "a", Nonce: "n"},
		})
		l.Name, l.UID, l.ResourceVersion = name, "uid", strconv.Itoa(number)
		return l
	}
	heartAt := func(number, renewed int) *coordinationv1.Lease { return leaseOf("heart", number, renewed) }
	to := attachment{name: "heart", uid: "uid", epoch: epochOf(heartAt(1, 1)), lease: 15 * time.Second}
	lockAt := func(number, renewed int) *coordinationv1.Lease {
		return attach(leaseOf("lock", number, renewed), to)
	}
	change := func(l *coordinationv1.Lease, do func(*coordinationv1.Lease)) *coordinationv1.Lease { do(l); return l }
	withdrawnAt := func(number int, l *coordinationv1.Lease) *coordinationv1.Lease {
		return change(withdraw(l, to.epoch), func(l *coordinationv1.Lease) { l.ResourceVersion = strconv.Itoa(number) })
	}
	noted := func(number, last, renewed int) *coordinationv1.Lease {
		return withdrawnAt(number, heartAt(last, renewed))
	}
	timeless := func(l *coordinationv1.Lease) *coordinationv1.Lease {
		return change(l, func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil })
	}
	another := change(heartAt(30, 5), func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = at(3) })
	emptied := change(heartAt(30, 5), func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") })
	gone, bare := at(1).Add(time.Microsecond), time.UnixMicro(20)
	for what, c := range map[string]struct {
		lock, heart *coordinationv1.Lease
		number      uint64
		renewed     time.Time
		kept        bool
		void        string
		mayBeat     bool
	}{
		"a heartbeat before the lock's write": {lockAt(20, 7), heartAt(10, 5), 20, at(7), true, "", true},
		"a heartbeat before a hand's write":   {lockAt(20, 1), heartAt(10, 5), 20, at(5), true, "", true},
		"a hand that removed the renewTime":   {timeless(lockAt(20, 1)), heartAt(10, 5), 20, time.Time{}, true, "", true},
		"a heartbeat after it":                {lockAt(20, 1), heartAt(30, 5), 30, at(5), true, "", true},
		"withdrawn":                           {lockAt(20, 1), noted(40, 30, 5), 40, at(5), true, voidWithdrawn, false},
		"withdrawn before the lock's write":   {lockAt(35, 7), noted(40, 30, 5), 40, at(7), true, voidWithdrawn, false},
		"withdrawn before a hand's write":     {lockAt(35, 1), noted(40, 30, 5), 40, at(5), true, voidWithdrawn, false},
		"withdrawn, and the holder's name put back": {lockAt(20, 1), change(noted(40, 30, 5), func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = apitest.Ptr("a")
		}), 40, at(5), true, voidWithdrawn, false},
		"emptied":        {lockAt(20, 1), emptied, 30, gone, true, voidGone, true},
		"deleted":        {lockAt(20, 1), nil, 50, gone, true, voidGone, false},
		"another object": {lockAt(20, 1), change(heartAt(30, 5), func(l *coordinationv1.Lease) { l.UID = "v" }), 30, gone, true, voidGone, false},
		"another epoch":  {lockAt(20, 1), another, 30, gone, true, voidGone, true},
		"another epoch and the note of this one": {lockAt(20, 1), change(noted(40, 30, 5), func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.AcquireTime.Time = apitest.Ptr("a"), at(3)
		}), 40, at(5), true, voidWithdrawn, false},
		"another epoch, and then withdrawn":               {lockAt(20, 1), withdrawnAt(40, another), 40, gone, true, voidWithdrawn, false},
		"emptied, and then withdrawn":                     {lockAt(20, 1), withdrawnAt(40, emptied), 40, gone, true, voidWithdrawn, false},
		"a lock without a renewTime, another epoch":       {timeless(lockAt(20, 1)), another, 30, bare, true, voidGone, true},
		"a lock without a renewTime, withdrawn before it": {timeless(lockAt(35, 1)), noted(40, 30, 5), 40, time.UnixMicro(35), true, voidWithdrawn, false},
		"a lock without a renewTime, withdrawn":           {timeless(lockAt(20, 1)), noted(40, 30, 5), 40, at(5), true, voidWithdrawn, false},
		"a note that is garbage": {lockAt(20, 1), change(noted(40, 30, 5), func(l *coordinationv1.Lease) {
			l.Annotations[record.AnnotationWithdrawn] = "x y z"
		}), 40, gone, true, voidGone, true},
		"no annotation": {change(lockAt(20, 1), func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationHeartbeat) }), heartAt(30, 5),
			20, at(1), false, "", false},
		"an annotation that is garbage": {change(lockAt(20, 1), func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationHeartbeat] = "heart uid x -1" }), heartAt(30, 5),
			20, at(1), false, "", false},
		"a lock that names itself": {change(lockAt(20, 1), func(l *coordinationv1.Lease) {
			l.Annotations[record.AnnotationHeartbeat] = attachment{"lock", l.UID, to.epoch, to.lease}.String()
		}), heartAt(30, 5), 20, at(1), false, "", false},
	} {
		heart := leasewatch.State{Lease: c.heart, Number: 50}
		if c.heart != nil {
			heart.Number = record.Number(c.heart.ResourceVersion)
		}
		s := compose(c.lock, heart)
		st := stateOf(s.Version)
		if s.Version.Number != c.number || !s.Record.RenewTime.Equal(c.renewed) || s.Kept != c.kept || s.void != c.void || st.mayBeat != c.mayBeat {
			t.Errorf("%s: version %d, renewed %v, kept %v, void %q, may beat %v",
				what, s.Version.Number, s.Record.RenewTime.Sub(start), s.Kept, s.void, st.mayBeat)
		}
		if s.Record.LeaseDuration == never {
			t.Errorf("%s: the lease never runs out", what)
		}
	}
}

// TestS3AnEmptiedLockSaysHowLongItsHolderMayWork, which a newcomer cannot know from elsewhere.
func TestS3AnEmptiedLockSaysHowLongItsHolderMayWork(t *testing.T) {
	l := record.Write(nil, locks.Record{Holder: "a", LeaseDuration: 30 * time.Second, Details: locks.Details{Holder: "a", Nonce: "n"}})
	l.Name = "lock"
	l = attach(l, attachment{name: "heart", uid: "uid", epoch: "n.1", lease: 30 * time.Second})
	l.Spec.HolderIdentity = apitest.Ptr("")
	for _, shown := range []time.Duration{never, time.Second} {
		l.Spec.LeaseDurationSeconds = apitest.Ptr(int32(shown / time.Second))
		if s := compose(l, leasewatch.State{}); s.Record.LeaseDuration != 30*time.Second || s.Kept {
			t.Errorf("on a record of %v the lease is %v, kept %v", shown, s.Record.LeaseDuration, s.Kept)
		}
	}
	l.Spec.LeaseDurationSeconds = apitest.Ptr(int32(never / time.Second))
	delete(l.Annotations, record.AnnotationHeartbeat)
	if s := compose(l, leasewatch.State{}); s.Record.LeaseDuration != 0 {
		t.Errorf("without the annotation the lease is %v", s.Record.LeaseDuration)
	}
}
