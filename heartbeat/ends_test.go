// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

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
	scenario(t, func(w *world) {
		took := takeover(w, 12, func(b *process) {
			b.lost(w.places, func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/lock-") })
		})
		if most := w.Timing.LeaseDuration + 3*w.Timing.AttemptTimeout; took > most {
			t.Errorf("%d lost writes: b leads all after %v, want %v at most", w.places, took, most)
		}
	})
}

// TestAServerThatHangsDelaysATakeoverByHeartbeatsNoMoreThanOneOfLeases: the leader dies, and for a minute
// every third write of its follower gets no answer. It prints when half and 90 % of the locks are led.
func TestAServerThatHangsDelaysATakeoverByHeartbeatsNoMoreThanOneOfLeases(t *testing.T) {
	measure := func(n int, campaign func(*process, string) *election.Elector, beats bool) (half, most time.Duration) {
		scenario(t, func(w *world) {
			w.places = mostWrites
			a, b := w.process("a", beats), w.process("b", beats)
			for _, p := range []*process{a, b} {
				p.slow()
				for i := range n {
					campaign(p, fmt.Sprint("lock-", i))
				}
				elapse(30 * time.Second)
			}
			if led := a.leads(); led != n {
				t.Fatalf("a leads %d of %d", led, n)
			}
			var puts atomic.Int32
			began := time.Now()
			b.links(func(l *link) {
				l.intercept(func(r *http.Request) {
					if r.Method == http.MethodPut && puts.Add(1)%3 == 0 && time.Since(began) < time.Minute {
						<-r.Context().Done()
						r.URL.Path = all + "nowhere"
						return
					}
					late(10 * time.Millisecond)(r)
				}, nil)
			})
			a.cut(true)
			for b.leads() < n*9/10 && time.Since(began) < 2*time.Minute {
				elapse(100 * time.Millisecond)
				if half == 0 && b.leads() >= n/2 {
					half = time.Since(began)
				}
			}
			most = time.Since(began)
		})
		return half, most
	}
	sizes := []int{60, 200}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		half, lease := measure(n, (*process).campaignPlainly, false)
		t.Logf("%d leases: half after %v, 90 %% after %v", n, half, lease)
		half, heart := measure(n, (*process).campaignFor, true)
		t.Logf("%d locks with heartbeats: half after %v, 90 %% after %v", n, half, heart)
		queue := time.Duration(n/3/mostWrites+1) * 2 * time.Second // who gets no answer keeps its place for so long
		if heart > lease+queue+4*time.Second {
			t.Errorf("%d locks: with heartbeats they are led after %v, by leases after %v", n, heart, lease)
		}
	}
}

// TestBehindASlowServerAHeartbeatKeepsLocksAsLongAsLeasesAreKept: two candidates and two locks.
// It prints which share of the time they are led, and in how many terms.
func TestBehindASlowServerAHeartbeatKeepsLocksAsLongAsLeasesAreKept(t *testing.T) {
	const span = 10 * time.Minute
	measure := func(by time.Duration, campaign func(*process, string) *election.Elector, beats bool) (share float64, terms int) {
		scenario(t, func(w *world) {
			for _, id := range []string{"a", "b"} {
				p := w.process(id, beats)
				p.links(func(l *link) { l.intercept(nil, late(by)) })
				campaign(p, "lock-0")
				campaign(p, "lock-1")
			}
			led := 0
			for range int(span / time.Second) {
				elapse(time.Second)
				led += w.processes[0].leads() + w.processes[1].leads()
			}
			share = 100 * float64(led) / float64(2*span/time.Second)
			terms = len(w.history("lock-0").Terms()) + len(w.history("lock-1").Terms())
		})
		return share, terms
	}
	for _, by := range []time.Duration{time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second} {
		lease, leaseTerms := measure(by, (*process).campaignPlainly, false)
		heart, heartTerms := measure(by, (*process).campaignFor, true)
		t.Logf("answers take %v: leases %.0f %% in %d terms, with heartbeats %.0f %% in %d terms", by, lease, leaseTerms, heart, heartTerms)
		if heart < lease-5 {
			t.Errorf("answers take %v: with heartbeats the locks are led for a shorter time", by)
		}
	}
}

func TestNothingOfAHeartOutlivesIt(t *testing.T) {
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
		for _, f := range []string{"(*heart).confirm", "(*heart).detach"} {
			if n := strings.Count(string(stacks), "heartbeat."+f+"("); n > 0 {
				t.Errorf("the process has ended, and %d goroutines are in %s", n, f)
			}
		}
	})
}

func TestS7AHeartbeatThatIsNewerThanAnAnswerHidesNoWrite(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		elapse(9500 * time.Millisecond) // half a second before a heartbeat
		number := func() string { return w.lease("heart-a").ResourceVersion }
		var did atomic.Bool
		answered := make(chan time.Time, 1)
		a.link.intercept(nil, func(r *http.Request) {
			if r.Method != http.MethodPost || did.Swap(true) {
				return
			}
			w.edit("lock-0", func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity = apitest.Ptr("x")
				l.Annotations = nil
			})
			for before := number(); number() == before; {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond)
			answered <- time.Now()
		})
		a.campaign(1)
		at := <-answered
		elapse(100 * time.Millisecond)
		if a.leads() > 0 {
			t.Errorf("another holds the lock on record, and a still leads %v after the answer to its write", time.Since(at))
		}
	})
}
