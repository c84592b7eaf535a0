// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// The tests of this file show known faults. Each is skipped until its fault is mended.

// lost has the first n writes of a process that match get no answer, and never land.
func (p *process) lost(n int, match func(*http.Request) bool) {
	var left atomic.Int32
	left.Store(int32(n))
	p.link.intercept(func(r *http.Request) {
		if r.Method == http.MethodPut && match(r) && left.Add(-1) >= 0 {
			<-r.Context().Done()
			r.URL.Path = all + "nowhere"
		}
	}, nil)
}

// takeover kills a process that leads some locks, and returns how long it takes until another
// leads them all.
func takeover(w *world, locks int, prepare func(b *process)) time.Duration {
	a, b := w.process("a", true), w.process("b", true)
	a.campaign(locks)
	elapse(20 * time.Second)
	b.campaign(locks)
	elapse(20 * time.Second)
	prepare(b)
	a.cut(true)
	began := time.Now()
	for b.leads() < locks && time.Since(began) < time.Minute {
		elapse(100 * time.Millisecond)
	}
	return time.Since(began)
}

func TestAWithdrawalWithoutAnAnswerIsSentAgain(t *testing.T) {
	t.Skip("the second attempt of a withdrawal waits for the first: to be mended with heartbeats as a module of their own")
	scenario(t, func(w *world) {
		took := takeover(w, 1, func(b *process) {
			b.lost(1, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/heart-a") })
		})
		if most := w.Timing.LeaseDuration + 2*w.Timing.AttemptTimeout; took > most {
			t.Errorf("one lost withdrawal: b leads after %v, want %v at most", took, most)
		}
	})
}

func TestAWriteWithoutAnAnswerGivesItsPlaceBack(t *testing.T) {
	t.Skip("a write without an answer holds its place: to be mended with heartbeats as a module of their own")
	scenario(t, func(w *world) {
		took := takeover(w, 12, func(b *process) {
			b.lost(w.places, func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/lock-") })
		})
		if most := w.Timing.LeaseDuration + 3*w.Timing.AttemptTimeout; took > most {
			t.Errorf("%d lost writes: b leads all after %v, want %v at most", w.places, took, most)
		}
	})
}

func TestALockOfAProcessIsLedBehindAVerySlowServer(t *testing.T) {
	t.Skip("an acquisition and the note of its token are two answers, which do not fit into a RenewDeadline: to be mended with heartbeats as a module of their own")
	for what, heartbeat := range map[string]bool{"with a heartbeat": true, "without": false} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				for _, id := range []string{"a", "b"} {
					p := w.process(id, heartbeat)
					p.links(func(l *link) { l.intercept(nil, late(6*time.Second)) })
					p.campaign(2)
				}
				const span = time.Hour
				led := 0
				for range int(span / time.Second) {
					elapse(time.Second)
					led += w.processes[0].leads() + w.processes[1].leads()
				}
				terms := len(w.history("lock-0").Terms()) + len(w.history("lock-1").Terms())
				if share := 100 * led / int(2*span/time.Second); share < 95 || terms > 8 {
					t.Errorf("answers take 6 s: two locks were led %d %% of an hour, in %d terms", share, terms)
				}
			})
		})
	}
}

func TestNothingOfAHeartOutlivesIt(t *testing.T) {
	t.Skip("nobody waits for the goroutines that confirm and detach: to be mended with heartbeats as a module of their own")
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(2)
		elapse(20 * time.Second)
		a.link.silence(true) // what confirms a heartbeat waits for the watch, and then for a list
		a.link.intercept(func(r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
			}
		}, nil)
		elapse(w.Timing.RenewInterval + w.Timing.AttemptTimeout/2)
		a.stop()
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, f := range []string{"(*Heart).confirm", "(*Heart).detach"} {
			if n := strings.Count(string(stacks), "heartbeat."+f+"("); n > 0 {
				t.Errorf("the process has ended, and %d goroutines are in %s", n, f)
			}
		}
	})
}

func TestS7AHeartbeatThatIsNewerThanAnAnswerHidesNoWrite(t *testing.T) {
	t.Skip("the answer to a lock's own write is composed with a newer heartbeat: to be mended with heartbeats as a module of their own")
	scenario(t, func(w *world) {
		a := w.process("a", true)
		elapse(9500 * time.Millisecond) // half a second before a heartbeat
		number := func() string { return w.lease("heart-a").ResourceVersion }
		var did atomic.Bool
		var answered time.Time
		a.link.intercept(nil, func(r *http.Request) {
			if r.Method != http.MethodPost || did.Swap(true) {
				return
			}
			w.edit("lock-0", func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity = ptr.To("x")
				l.Annotations = nil
			})
			for before := number(); number() == before; {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond)
			answered = time.Now()
		})
		a.campaign(1)
		for answered.IsZero() {
			elapse(10 * time.Millisecond)
		}
		elapse(100 * time.Millisecond)
		if a.leads() > 0 {
			t.Errorf("another holds the lock on record, and a still leads %v after the answer to its write", time.Since(answered))
		}
	})
}
