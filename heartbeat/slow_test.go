// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
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

// The kubelet reports the container when its process has begun to campaign.
func TestAContainerThatBecomesKnownMeanwhileCostsNoTerm(t *testing.T) {
	scenario(t, func(w *world) {
		var known atomic.Bool
		w.logs = true
		w.processID = func() locks.ProcessID {
			if known.Load() {
				return locks.ProcessID{ContainerID: "containerd://1"}
			}
			return locks.ProcessID{}
		}
		a := w.process("a", true)
		a.links(func(l *link) { l.intercept(nil, late(time.Second)) })
		a.campaignFor("first")
		elapse(10 * time.Second)
		a.campaign(60) // for a quarter of a minute, four at a time
		elapse(4 * time.Second)
		known.Store(true)
		elapse(2 * time.Minute)
		for name, h := range w.histories {
			if n := len(h.Terms()); n != 1 {
				t.Errorf("%d terms of %s", n, name)
			}
			if w.lease(name).Annotations[record.AnnotationContainerID] == "" {
				t.Errorf("%s does not note the container", name)
			}
		}
		if n := w.noted("somebody changed the record"); n > 0 {
			t.Errorf("%d times it looked as if somebody had changed a record", n)
		}
	})
}

func TestLocksAreKeptWhileAnswersAreSlow(t *testing.T) {
	for _, by := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second} {
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
