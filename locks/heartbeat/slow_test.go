// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/record"
)

func late(by time.Duration) func(*http.Request) {
	return func(r *http.Request) {
		select {
		case <-time.After(by):
		case <-r.Context().Done():
		}
	}
}

func TestManyLocksAreTakenFromASlowServerAndKept(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.links(func(l *link) { l.intercept(nil, late(time.Second)) })
		a.campaign(60)
		elapse(2 * time.Minute)
		if n := a.leads(); n != 60 {
			t.Errorf("leads %d of 60", n)
		}
		terms := 0
		for _, h := range w.histories {
			terms += len(h.Terms())
		}
		if terms > 60 {
			t.Errorf("%d terms for 60 locks", terms)
		}
	})
}

func TestWhatIsNotedAboutTermsDelaysNoTakeover(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.links(func(l *link) { l.intercept(nil, late(time.Second)) })
		a.campaignFor("first")
		elapse(10 * time.Second)
		a.campaign(40)
		elapse(15 * time.Second) // two reads, and 40 writes, four at a time
		if n := a.leads(); n != 41 {
			t.Errorf("leads %d of 41 after the time for one write each", n)
		}
		elapse(20 * time.Second)
		for i := range 40 {
			if l := w.lease(fmt.Sprint("lock-", i)); l.Annotations[record.AnnotationToken] == "" {
				t.Errorf("the token of lock %d is not noted", i)
			}
		}
	})
}

func TestRenewalsLeaveTurnsForAcquisitions(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", false)
		a.links(func(l *link) { l.intercept(nil, late(time.Second)) }) // four renewals a second
		a.campaign(20)                                                 // which want ten
		elapse(2 * time.Minute)
		if n := a.leads(); n != 20 {
			t.Errorf("leads %d of 20", n)
		}
		for name, h := range w.histories {
			if n := len(h.Terms()); n != 1 {
				t.Errorf("%d terms of %s", n, name)
			}
		}
	})
}

func TestLocksAreKeptWhileAnswersAreSlow(t *testing.T) {
	for _, by := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second, 7 * time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			scenario(t, func(w *world) {
				a := w.process("a", true)
				a.campaign(5)
				elapse(30 * time.Second)
				for part := range 8 { // slower by and by
					a.links(func(l *link) { l.intercept(nil, late(by*time.Duration(part+1)/8)) })
					elapse(10 * time.Second)
				}
				elapse(2 * time.Minute)
				for name, h := range w.histories {
					if n := len(h.Terms()); n != 1 {
						t.Errorf("%d terms of %s", n, name)
					}
				}
			})
		})
	}
}

func TestAFollowersSilentWatchIsReplaced(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", false)
		a.campaign(20)
		elapse(30 * time.Second)
		b.campaign(20)
		elapse(30 * time.Second)
		b.link.silence(true)
		elapse(10 * time.Second)
		b.link.deafen() // the old watch stays mute, a new one does not
		b.count("GET")
		elapse(time.Minute)
		if n := b.count("GET"); n > 20 {
			t.Errorf("%d reads in a minute", n)
		}
	})
}
