// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
