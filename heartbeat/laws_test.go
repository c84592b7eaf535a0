// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// led begins a scenario in which a leads n locks with heartbeats.
func led(t *testing.T, n int, f func(w *world, a *process)) {
	t.Helper()
	scenario(t, func(w *world) {
		w.lingers = true
		a := w.process("a", true)
		a.campaign(n)
		elapse(30 * time.Second)
		if got := a.leads(); got != n {
			t.Fatalf("a leads %d of %d", got, n)
		}
		f(w, a)
	})
}

func TestL1AHeartbeatRenewsNoLockThatAHandHasChanged(t *testing.T) {
	for what, change := range map[string]func(*coordinationv1.Lease){
		"given to another": func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = apitest.Ptr("x")
			l.Annotations[record.AnnotationHolder] = "x"
			delete(l.Annotations, record.AnnotationHeartbeat)
		},
		"emptied": func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") },
	} {
		t.Run(what, func(t *testing.T) {
			led(t, 1, func(w *world, a *process) {
				a.link.silence(true)
				a.link.intercept(func(r *http.Request) { // nor can it read, or write locks
					<-r.Context().Done()
				}, nil)
				w.edit("lock-0", change)
				elapse(w.Timing.RenewDeadline)
				if n := a.leads(); n != 0 && w.lingers {
					elapse(w.Timing.StopGrace)
				}
				if n := a.leads(); n != 0 {
					t.Errorf("a leads still, though no heartbeat may renew its term")
				}
				if h := w.lease("heart-a"); time.Since(record.Read(h).RenewTime) > 3*time.Second {
					t.Error("there were no heartbeats")
				}
				a.heal()
			})
		})
	}
}

func TestL2AHeartbeatThatComesAfterTheWithdrawalConflicts(t *testing.T) {
	led(t, 3, func(w *world, a *process) {
		b := w.process("b", true)
		b.campaign(3)
		elapse(10 * time.Second)
		hold := make(chan struct{})
		a.heartLink.intercept(func(r *http.Request) {
			if r.Method == http.MethodPut {
				<-hold // it lands whatever the client thinks
			}
		}, nil)
		a.link.cut(true)
		elapse(w.Timing.LeaseDuration + 2*time.Second)
		if n := b.leads(); n != 3 {
			t.Errorf("b leads %d of 3", n)
		}
		close(hold)
		elapse(30 * time.Second)
		if n := b.leads(); n != 3 {
			t.Errorf("then b leads %d of 3", n)
		}
		a.heal()
	})
}

// TestL2AHolderThatComesBackWhileItsLocksAreTakenOneByOne: the first follower has withdrawn the
// epoch, and its writes of the locks are slow.
func TestL2AHolderComesBackWhileItsLocksAreTakenOneByOne(t *testing.T) {
	for what, back := range map[string]func(a *process){
		"all":                        func(a *process) { a.heal() },
		"the heartbeat alone":        func(a *process) { a.heartLink.cut(false) },
		"all but events of watches":  func(a *process) { a.cut(false); a.link.silence(true) },
		"the locks but no heartbeat": func(a *process) { a.link.cut(false) },
	} {
		t.Run(what, func(t *testing.T) {
			led(t, 12, func(w *world, a *process) {
				b := w.process("b", true)
				b.campaign(12)
				elapse(10 * time.Second)
				a.cut(true)
				b.link.intercept(func(r *http.Request) {
					if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "lock-") {
						late(1700 * time.Millisecond)(r)
					}
				}, nil)
				elapse(w.Timing.LeaseDuration - time.Second)
				back(a)
				elapse(time.Minute)
				a.heal()
				elapse(time.Minute)
				if n := a.leads() + b.leads(); n != 12 {
					t.Errorf("%d of 12 are led", n)
				}
			})
		})
	}
}

// TestL2AnEditOfTheLockHidesNoHeartbeat: a request or a list of evacuated zones is written to the
// Lease of the lock, which renews nothing. A follower that saw the Lease after one such edit, and
// then nothing until another, must not take the first one for the last renewal.
func TestL2AnEditOfTheLockHidesNoHeartbeat(t *testing.T) {
	edit := func(w *world, text string) {
		w.edit("lock-0", func(l *coordinationv1.Lease) { metav1.SetMetaDataAnnotation(&l.ObjectMeta, "example.com/note", text) })
		elapse(0)
	}
	led(t, 1, func(w *world, a *process) {
		b := w.process("b", true)
		b.campaign(1)
		elapse(10 * time.Second)
		edit(w, "first")
		b.cut(true)
		elapse(time.Minute)
		edit(w, "second")
		a.cut(true)
		b.cut(false)
		elapse(w.Timing.LeaseDuration - 3*time.Second)
		if w.holder("lock-0") != "a" {
			t.Error("b took the lock before a lease from the last heartbeat")
		}
		elapse(10 * time.Second)
		if w.holder("lock-0") != "b" {
			t.Error("b never took the lock")
		}
		a.cut(false)
	})
}

func TestL3ThatSomebodyWithdrewShortensNoOthersWait(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		b := w.process("b", true)
		b.campaign(1)
		elapse(10 * time.Second)
		a.cut(true)
		elapse(5 * time.Second)
		w.edit("heart-a", func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		elapse(w.Timing.LeaseDuration - 8*time.Second)
		if w.holder("lock-0") != "a" {
			t.Error("b took the lock before a lease from the last heartbeat")
		}
		elapse(6 * time.Second)
		if w.holder("lock-0") != "b" {
			t.Error("the wait of b started again at the withdrawal")
		}
	})
}

func TestL4AHeartbeatThatIsGoneIsWaitedForAWholeLease(t *testing.T) {
	for what, spoil := range map[string]func(w *world){
		"deleted": func(w *world) { w.Delete(all + "heart-a") },
		"emptied": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") })
		},
		"another epoch": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = time.Now() })
		},
		"another object": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { l.UID = "other" })
		},
		"the annotation removed": func(w *world) {
			w.edit("lock-0", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationHeartbeat) })
		},
		"the annotation spoiled": func(w *world) {
			w.edit("lock-0", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationHeartbeat] = "heart-a x" })
		},
	} {
		t.Run(what, func(t *testing.T) {
			led(t, 1, func(w *world, a *process) {
				b := w.process("b", true)
				b.campaign(1)
				elapse(10 * time.Second)
				a.cut(true)
				elapse(9 * time.Second)
				spoil(w)
				elapse(w.Timing.LeaseDuration - time.Second)
				if w.holder("lock-0") != "a" {
					t.Error("b took the lock before a lease")
				}
				elapse(5 * time.Second)
				if w.holder("lock-0") != "b" {
					t.Error("b never took the lock")
				}
				a.heal()
				elapse(time.Minute)
			})
		})
	}
}

// TestL4NobodyWaitsForAnotherEpoch: the process has begun another one, whose heartbeats and
// whose withdrawal of the former one change the heartbeat's Lease.
func TestL4NobodyWaitsForAnotherEpoch(t *testing.T) {
	for what, spoil := range map[string]func(*coordinationv1.Lease){
		"the lock as it was":         func(*coordinationv1.Lease) {},
		"a lock without a renewTime": func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil },
	} {
		t.Run(what, func(t *testing.T) {
			scenario(t, func(w *world) {
				lock, err := w.process("b", true).common.lock("lock")
				if err != nil {
					w.Fatal(err)
				}
				heart := leaseOf("heart-a", time.Now())
				w.Put(all+"heart-a", heart)
				kept := attach(leaseOf("lock", time.Now()), attachmentTo(heart))
				spoil(kept)
				w.Put(all+"lock", kept)
				look := func() locks.Record {
					s, err := lock.Read(w.Context())
					if err != nil || !s.Kept {
						w.Fatalf("read %+v, %v", s, err)
					}
					return s.Record
				}
				w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.AcquireTime.Time = time.Now().Add(time.Second) })
				is := look()
				for what, change := range map[string]func(*coordinationv1.Lease){
					"a heartbeat":  func(l *coordinationv1.Lease) { l.Spec.RenewTime.Time = time.Now().Add(2 * time.Second) },
					"a withdrawal": func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(heart)) },
				} {
					w.edit("heart-a", change)
					if now := look(); !now.SameRenewal(is) {
						w.Errorf("%s of another epoch renews the lock: %v, then %v", what, is.RenewTime, now.RenewTime)
					}
				}
			})
		})
	}
}

func TestL5TheTermsOfAWithdrawnEpochEndAtOnce(t *testing.T) {
	led(t, 20, func(w *world, a *process) {
		a.heartLink.cut(true)
		w.edit("heart-a", func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		elapse(time.Millisecond)
		if n := w.noted(voidWithdrawn); n != 20 {
			t.Errorf("%d of 20 terms have ended", n)
		}
		elapse(20 * time.Second)
		if n := a.leads(); n != 20 {
			t.Errorf("a leads %d again", n)
		}
		elapse(time.Minute)
		if n := len(w.history("lock-0").Terms()); n != 2 {
			t.Errorf("%d terms", n)
		}
		a.heal()
	})
}

// TestL5ARenewalDoesNotHideThatItsEpochIsOver: a term renews its lock by a write of its own while it
// is told of the end. The next term is another matter.
func TestL5ARenewalDoesNotHideThatItsEpochIsOver(t *testing.T) {
	h, l := &heart{present: "one", ended: make(chan struct{})}, &lock{epoch: "one"}
	h.goesOn("", nil)
	renewal := locks.Record{Holder: "a", Details: locks.Details{Token: 1}}
	h.keeps(l, renewal)
	if _, why := h.over(l); why == "" {
		t.Error("the term goes on")
	}
	h.keeps(l, locks.Record{Holder: "a"})
	if _, why := h.over(l); why != "" {
		t.Errorf("the next term is over too: %s", why)
	}
}

// TestL4ALeaseThatIsGoneEndsNoEpoch: it is recreated. A watch shows a deletion, or a read does.
func TestL4ALeaseThatIsGoneEndsNoEpoch(t *testing.T) {
	for what, show := range map[string]func(*beats){
		"a watch": func(b *beats) { b.observe(locks.Snapshot{Version: locks.Version{Number: uint64(b.number + 1)}}) },
		"a read":  func(b *beats) { b.learn(locks.Snapshot{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBeats(t)
			b.land(t, b.send())
			one := b.renewal()
			if show(b); len(one.landed) > 0 || b.present == "" {
				t.Errorf("%s has ended the epoch", what)
			}
			b.finish()
		})
	}
}

// TestL5WhoWaitsForAHeartbeatIsToldOfTheEndOfItsEpoch at once.
func TestL5WhoWaitsForAHeartbeatIsToldOfTheEndOfItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeats(t)
		b.land(t, b.send())
		one := b.renewal()
		emptied := record.Write(nil, locks.Record{})
		b.observe(locks.Snapshot{Version: locks.Version{Number: uint64(b.number + 1), UID: "u", Opaque: emptied}})
		select {
		case l := <-one.landed:
			if !errors.Is(l.err, locks.ErrConflict) || len(b.waiting) != 0 {
				t.Errorf("it hears %v, and %d wait", l.err, len(b.waiting))
			}
		default:
			t.Error("it hears nothing")
		}
		b.finish()
	})
}

func TestL6ALockThatNoElectorRenewsRunsOut(t *testing.T) {
	led(t, 2, func(w *world, a *process) {
		b := w.process("b", true)
		b.campaign(3)
		elapse(5 * time.Second)
		// As if an acquisition had landed that nobody waits for any more.
		l := w.lease("lock-0")
		l.Name, l.UID = "lock-2", "of another"
		w.Put(all+"lock-2", l)
		elapse(w.Timing.LeaseDuration + 15*time.Second)
		if got := w.holder("lock-2"); got != "b" {
			t.Errorf("%q holds the lock that a's heartbeat kept", got)
		}
		if n := a.leads(); n != 2 {
			t.Errorf("a leads %d of 2", n)
		}
	})
}

func TestL6UnfinishedWorkLetsItsLockRunOut(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		lock, err := a.common.lock("other")
		if err != nil {
			t.Fatal(err)
		}
		e := a.elector(lock)
		a.electors.Go(func() {
			_ = e.Run(a.ctx, func(context.Context, election.Term) error {
				time.Sleep(10 * time.Second)
				return election.ErrUnfinished
			})
		})
		elapse(5 * time.Second)
		b := w.process("b", true)
		b.campaignFor("other")
		elapse(10*time.Second + w.Timing.LeaseDuration + 15*time.Second)
		if w.holder("other") != "b" {
			t.Errorf("%q holds the lock", w.holder("other"))
		}
	})
}

func TestL7AnAcquisitionIsWaitedForFromItsOwnWrite(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		b := w.process("b", true)
		b.campaign(2)
		elapse(10 * time.Second)
		a.heartLink.cut(true) // the epoch is about to be withdrawn
		elapse(8 * time.Second)
		a.campaignFor("lock-9")
		elapse(time.Second)
		b.campaignFor("lock-9")
		elapse(10 * time.Second)
		w.edit("heart-a", func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		elapse(time.Minute)
		a.heal()
	})
}

// TestWhoKnowsNothingOfHeartbeatsNeverLeadsBeside: nor once the holder is gone.
func TestWhoKnowsNothingOfHeartbeatsNeverLeadsBeside(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		client := apitest.Wire(w.T, w.Server, coordinationv1.SchemeGroupVersion)
		lock, err := lease.New(lease.Config{Client: client, Namespace: "ns", Name: "lock-0", Observe: func(s locks.Snapshot) locks.Snapshot {
			if lease, is := s.Version.Opaque.(*coordinationv1.Lease); is { // as client-go from 0.27 on, it goes by the Lease alone
				s.Barred, s.Record = "", record.Read(lease)
			}
			return s
		}})
		if err != nil {
			t.Fatal(err)
		}
		x := &process{world: w, id: "x", led: map[string]election.Term{}}
		ctx, cancel := context.WithCancel(context.Background())
		defer x.electors.Wait()
		defer cancel()
		e := x.elector(lock)
		x.electors.Go(func() {
			_ = e.Run(ctx, w.history("lock-0").Lead(func(ctx context.Context, _ election.Term) error {
				<-ctx.Done()
				return nil
			}))
		})
		elapse(5 * time.Minute)
		if n := len(w.history("lock-0").Terms()); n != 1 {
			t.Errorf("%d terms while a's heartbeat kept the lock", n)
		}
		a.cut(true)
		elapse(5 * time.Minute)
		if n := len(w.history("lock-0").Terms()); n != 1 {
			t.Errorf("%d terms since a was cut off", n)
		}
		a.cut(false)
		elapse(time.Minute)
		a.stop() // it releases the lock
		elapse(10 * time.Second)
		if w.holder("lock-0") != "x" {
			t.Error("x did not take a lock that was released")
		}
	})
}

func TestTwoProcessesThatWithdrawEachOtherGoOn(t *testing.T) {
	led(t, 2, func(w *world, a *process) {
		b := w.process("b", true)
		b.campaignFor("lock-8")
		b.campaignFor("lock-9")
		elapse(10 * time.Second)
		a.campaignFor("lock-8")
		a.campaignFor("lock-9")
		b.campaign(2)
		elapse(10 * time.Second)
		a.heartLink.cut(true)
		b.heartLink.cut(true)
		elapse(w.Timing.LeaseDuration + 10*time.Second)
		a.heal()
		b.heal()
		elapse(time.Minute)
		if n := a.leads() + b.leads(); n != 4 {
			t.Errorf("%d of 4 locks are led", n)
		}
	})
}

func TestARolloutToHeartbeatsAndBack(t *testing.T) {
	scenario(t, func(w *world) {
		last := w.process("p0", false)
		last.campaign(5)
		elapse(20 * time.Second)
		for i, heartbeat := range []bool{true, false, true} {
			next := w.process([]string{"p1", "p2", "p3"}[i], heartbeat)
			next.campaign(5)
			elapse(10 * time.Second)
			last.stop()
			elapse(5 * time.Second)
			if n := next.leads(); n != 5 {
				t.Errorf("%s leads %d of 5", next.id, n)
			}
			last = next
		}
	})
}

func TestShortTimingHoldsTheLaws(t *testing.T) {
	scenario(t, func(w *world) {
		w.Timing = timing.Timing{LeaseDuration: 3 * time.Second, RenewDeadline: 2500 * time.Millisecond, RenewInterval: 500 * time.Millisecond, Exclusive: true}.WithDefaults()
		w.lingers = true
		a, b := w.process("a", true), w.process("b", true)
		a.campaign(20)
		elapse(10 * time.Second)
		b.campaign(20)
		elapse(time.Minute)
		if n, terms := a.leads(), len(w.history("lock-7").Terms()); n != 20 || terms != 1 {
			t.Errorf("a leads %d, %d terms", n, terms)
		}
		a.cut(true)
		elapse(5 * time.Second)
		if n := b.leads(); n != 20 {
			t.Errorf("b leads %d", n)
		}
		a.heal()
		elapse(10 * time.Second)
	})
}
