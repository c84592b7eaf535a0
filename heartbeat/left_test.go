// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// few is more locks than a process writes one by one that writes one at a time.
const few = 10

// fewOf plays f with a process that leads a few locks, and writes one at a time. believed is how
// many releases its electors believe in.
func fewOf(t *testing.T, f func(w *world, a *process, believed *atomic.Int32)) {
	t.Helper()
	scenario(t, func(w *world) {
		w.places = 1
		a := w.process("a", true)
		a.slow()
		electors := a.campaign(few)
		elapse(20 * time.Second)
		if n := a.leads(); n != few {
			t.Fatalf("a leads %d of %d", n, few)
		}
		f(w, a, releases(w.T, electors))
	})
}

func releases(t *testing.T, electors []*election.Elector) *atomic.Int32 {
	n := &atomic.Int32{}
	for _, e := range electors {
		transitions := e.Subscribe(t.Context())
		go func() {
			for change := range transitions {
				if change.Change == status.ChangeReleased {
					n.Add(1)
				}
			}
		}()
	}
	return n
}

// follower starts a process that waits for a's few locks.
func follower(w *world) *process {
	b := w.process("b", true)
	b.campaign(few)
	elapse(5 * time.Second)
	return b
}

// soon checks that a process leads n locks within a time.
func (p *process) soon(n int, within time.Duration) {
	p.world.Helper()
	for began := time.Now(); time.Since(began) < within; elapse(100 * time.Millisecond) {
		if p.leads() == n {
			return
		}
	}
	p.world.Errorf("%s leads %d of %d locks after %v", p.id, p.leads(), n, within)
}

// campaignIn starts elections for some locks that end with ctx.
func (p *process) campaignIn(ctx context.Context, from, to int) {
	for i := from; i < to; i++ {
		name := fmt.Sprint("lock-", i)
		lock, err := p.common.lock(name)
		if err != nil {
			p.world.Fatal(err)
		}
		e := p.elector(lock)
		p.electors.Go(func() {
			_ = e.Run(ctx, p.world.history(name).Lead(func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil }))
		})
	}
}

// once returns a function that does something at the first write.
func once(do func()) func(*http.Request) {
	var did atomic.Bool
	return func(r *http.Request) {
		if r.Method == http.MethodPut && !did.Swap(true) {
			do()
		}
	}
}

func TestL8WhateverHappensToTheHeartbeatsLeaseReleasedLocksAreTakenAtOnce(t *testing.T) {
	for what, do := range map[string]func(w *world){
		"deleted": func(w *world) { w.Delete(all + "heart-a") },
		"replaced": func(w *world) {
			l := w.lease("heart-a")
			w.Delete(all + "heart-a")
			l.UID, l.ResourceVersion = "another", ""
			w.Put(all+"heart-a", l)
		},
		"withdrawn": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		},
		"emptied": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") })
		},
		"stripped": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationReleasedLocks) })
		},
	} {
		for _, when := range []string{"before the note", "after the note"} {
			t.Run(what+" "+when, func(t *testing.T) {
				fewOf(t, func(w *world, a *process, believed *atomic.Int32) {
					b := follower(w)
					b.link.cut(when == "after the note") // so that it cannot take them before
					act := once(func() { do(w) })
					if when == "before the note" {
						a.heartLink.intercept(act, nil)
					} else {
						a.heartLink.intercept(nil, act)
					}
					a.quit()
					elapse(time.Second)
					b.link.cut(false)
					b.soon(few, w.Timing.LeaseDuration/3)
					if n := believed.Load(); n != few {
						t.Errorf("a believes in %d releases of %d", n, few)
					}
				})
			})
		}
	}
}

// leftBehind plays f with a process that has released a few locks that nobody waits for, by a
// note, and goes on.
func leftBehind(t *testing.T, f func(w *world, a *process)) {
	t.Helper()
	scenario(t, func(w *world) {
		w.places = 1
		a := w.process("a", true)
		a.slow()
		ctx, end := context.WithCancel(a.ctx)
		a.campaignIn(ctx, 0, few)
		a.campaignFor("other")
		elapse(20 * time.Second)
		end()
		elapse(time.Second)
		if text := w.lease("heart-a").Annotations[record.AnnotationReleasedLocks]; strings.Count(text, "lock-") < few/2 {
			t.Fatalf("a few locks only are released by a note: %q", text)
		}
		f(w, a)
	})
}

func TestL8LocksThatANoteHasReleasedStayReleased(t *testing.T) {
	for what, do := range map[string]func(w *world){
		"nothing happens": func(*world) {},
		"another epoch begins": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		},
		"the heartbeat's Lease is deleted": func(w *world) { w.Delete(all + "heart-a") },
		"a hand removes the note": func(w *world) {
			w.edit("heart-a", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationReleasedLocks) })
		},
		"a hand edits the locks": func(w *world) {
			for i := range few {
				w.edit(fmt.Sprint("lock-", i), func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edited": "yes"} })
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			leftBehind(t, func(w *world, _ *process) {
				do(w)
				elapse(2 * w.Timing.RenewInterval)
				w.process("b", true).campaign(few)
				elapse(2 * time.Second)
				if n := w.processes[1].leads(); n != few {
					t.Errorf("b leads %d of %d locks that a has released", n, few)
				}
			})
		})
	}
}

func TestL8ANoteIsRemovedWhenItSaysNothingAnyMore(t *testing.T) {
	leftBehind(t, func(w *world, _ *process) {
		elapse(w.Timing.LeaseDuration)
		heart := w.lease("heart-a")
		if text, is := heart.Annotations[record.AnnotationReleasedLocks]; is {
			t.Errorf("the note is still there: %q", text)
		}
		for i := range few {
			lock := w.lease(fmt.Sprint("lock-", i))
			if s, _ := Compose(lock, heart); s.Record.Holder != "" || record.HeartbeatOf(lock) != "" {
				t.Errorf("lock %d is kept, or held by %q", i, s.Record.Holder)
			}
		}
	})
}

func TestL8ANoteCostsNoTermOnASlowServer(t *testing.T) {
	for _, by := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			scenario(t, func(w *world) {
				w.places = 1
				a := w.process("a", true)
				a.campaignFor("stays")
				ends := make([]context.CancelFunc, 20)
				for i := range ends {
					var ctx context.Context
					ctx, ends[i] = context.WithCancel(a.ctx)
					a.campaignIn(ctx, i, i+1)
				}
				elapse(10 * time.Second)
				for part := range 8 { // slower by and by
					a.links(func(l *link) { l.intercept(late(by*time.Duration(part+1)/8), nil) })
					elapse(8 * time.Second)
				}
				for _, end := range ends {
					end()
					elapse(time.Second)
				}
				elapse(20 * time.Second)
				if n := len(w.history("stays").Terms()); n != 1 {
					t.Errorf("%d terms of the lock that goes on", n)
				}
			})
		})
	}
}

func TestL8AnElectorBelievesInItsReleaseThoughTheLockIsTaken(t *testing.T) {
	fewOf(t, func(w *world, a *process, believed *atomic.Int32) {
		b := follower(w)
		a.link.silence(true) // so that it sees the note and b's writes at the same time
		a.quit()
		elapse(w.Timing.LeaseDuration)
		if n := believed.Load(); n != few {
			t.Errorf("a believes in %d releases of %d", n, few)
		}
		if n := b.leads(); n != few {
			t.Errorf("b leads %d of %d", n, few)
		}
		a.heal()
	})
}

func TestL8AProcessEndsInTimeThoughTheAPIIsAway(t *testing.T) {
	const before, unanswered, after = "before the note", "before the note is answered", "after the note"
	for _, cut := range []string{before, unanswered, after} {
		t.Run(cut, func(t *testing.T) {
			fewOf(t, func(w *world, a *process, _ *atomic.Int32) {
				switch cut {
				case before:
					a.cut(true)
				case unanswered:
					a.heartLink.intercept(nil, func(r *http.Request) {
						if r.Method == http.MethodPut {
							a.cut(true)
							<-r.Context().Done()
						}
					})
				case after:
					a.quit()
					elapse(w.Timing.RenewInterval / 2)
					a.cut(true)
				}
				a.quit()
				a.electors.Wait()
				began := time.Now()
				a.common.heart.settle(w.Context())
				most := w.Timing.RenewInterval/2 + w.Timing.AttemptTimeout
				if took := time.Since(began); took > most || cut != after && took > 0 {
					t.Errorf("to settle took %v", took)
				}
			})
		})
	}
}

func TestL8ANoteHasWhatFits(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		heart, lease := a.common.heart, w.lease("heart-a")
		a.kill() // so that nothing else uses it
		lock := attach(w.lease("lock-0"), attachment{name: lease.Name, uid: lease.UID, epoch: heart.newest, lease: time.Second})
		var leave []*leaving
		for i := range 1000 {
			is, _ := attachmentOf(lock)
			leave = append(leave, &leaving{noted: noted{fmt.Sprintf("%0253d", i), 1 << 60, time.Now()}, attachment: is, term: lock})
		}
		leave[0].epoch = "another"
		next, fit, err := heart.withNote(lease, leave)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(next.Annotations[record.AnnotationReleasedLocks]); size > mostNoted || size < mostNoted-400 {
			t.Errorf("the note has %d bytes", size)
		}
		if slices.Contains(fit, leave[0]) {
			t.Error("the note names a lock of another epoch")
		}
		for _, one := range leave {
			_, is := releasedAt(next, heart.newest, one.noted.name, one.version)
			if noted := len(fit) > 0 && fit[0] == one; is != noted {
				t.Fatalf("of %s: is noted %v, said %v", one.noted.name, is, noted)
			} else if noted {
				fit = fit[1:]
			}
		}
	})
}

// resignAll ends all terms of a process at once.
func resignAll(p *process, electors []*election.Elector) {
	for _, e := range electors {
		go func() {
			ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
			defer cancel()
			_ = e.Resign(ctx)
		}()
	}
}

func TestNothingThatGoesWrongWhileManyLocksAreReleasedMakesTwoLeadNorLeavesALockAlone(t *testing.T) {
	eachSeed(t, "CHAOS", 3, func(t *testing.T, seed uint64) {
		scenario(t, func(w *world) {
			c := &chaos{world: w, random: rand.New(rand.NewPCG(seed, 2))}
			w.lingers, w.places = true, 1
			electors := map[*process][]*election.Elector{}
			for i, id := range []string{"a", "b", "c"} {
				p := w.process(id, i < 2)
				p.slow()
				electors[p] = p.campaign(8)
				elapse(c.within(3 * time.Second))
			}
			var notes []string
			for range 40 {
				what := ""
				p := c.one()
				switch c.random.IntN(8) {
				case 0, 1:
					what = "resign all of " + p.id
					resignAll(p, electors[p])
				case 2:
					what = "strip the note of " + p.id
					c.edit("heart-"+p.id, func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationReleasedLocks) })
				case 3:
					what = "replay a note of " + p.id
					c.edit("heart-"+p.id, func(l *coordinationv1.Lease) {
						if text := l.Annotations[record.AnnotationReleasedLocks]; text != "" {
							notes = append(notes, text)
						}
						if len(notes) > 0 && l.Annotations != nil {
							l.Annotations[record.AnnotationReleasedLocks] = notes[c.random.IntN(len(notes))]
						}
					})
				case 4:
					what = "heal " + p.id
					p.heal()
					p.slow()
				default:
					what = c.strike()
				}
				w.note("%s", what)
				most := 8 * time.Second
				if c.random.IntN(2) == 0 {
					most = 200 * time.Millisecond
				}
				elapse(c.within(most))
			}
			for _, p := range w.processes {
				p.heal()
			}
			elapse(90 * time.Second)
			w.eachIsLedOnce(8)
		})
	})
}

func TestL8ALockThatIsTakenAgainIsNotReleased(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second)
	term := func(change func(*locks.Record)) *coordinationv1.Lease {
		r := locks.Record{Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: at, RenewTime: at, Transitions: 3}
		change(&r)
		l := attach(record.Write(nil, r), attachment{name: "heart", uid: "uid", epoch: "e", lease: 15 * time.Second})
		l.Name, l.UID = "lock", "lock"
		return l
	}
	is := term(func(*locks.Record) {})
	a, _ := attachmentOf(is)
	l := left{leaving: leaving{attachment: a, term: is}}
	for what, c := range map[string]struct {
		lease *coordinationv1.Lease
		is    bool
	}{
		"the same":           {is, true},
		"a token is noted":   {term(func(r *locks.Record) { r.Details.Token = 7 }), true},
		"another time":       {term(func(r *locks.Record) { r.AcquireTime = at.Add(time.Microsecond) }), false},
		"another transition": {term(func(r *locks.Record) { r.Transitions++ }), false},
		"another holder":     {term(func(r *locks.Record) { r.Holder = "b" }), false},
		"no holder":          {term(func(r *locks.Record) { r.Holder = "" }), false},
		"no heartbeat":       {detach(is), false},
		"another heartbeat":  {attach(is, attachment{name: "heart", uid: "uid", epoch: "f", lease: 15 * time.Second}), false},
	} {
		if got := l.isTerm(c.lease); got != c.is {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestL8AReleaseCountsIfItsNoteDoes(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		lock, err := a.common.lock("lock-0")
		if err != nil {
			t.Fatal(err)
		}
		now, err := lock.Read(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		was, heart := stateOf(now.Version), w.lease("heart-a")
		note := heart.DeepCopy()
		metav1.SetMetaDataAnnotation(&note.ObjectMeta, record.AnnotationReleasedLocks, string(was.epoch)+" "+noted{"lock-0", was.number(), time.Now()}.String())
		later := note.DeepCopy()
		later.ResourceVersion = fmt.Sprint(record.Number(note.ResourceVersion) + 5)
		check := func(what string, l landed, counts, conflicts bool) {
			s, err := l.released(was)
			if counts != (err == nil) || conflicts != errors.Is(err, locks.ErrConflict) || counts && s.Record.Holder != "" {
				t.Errorf("%s: holder %q, %v", what, s.Record.Holder, err)
			}
		}
		check("no note", landed{lease: heart, leases: a.common.view}, false, true)
		check("a note", landed{lease: note, leases: a.common.view}, true, false)
		w.edit("lock-0", func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edited": "yes"} })
		synctest.Wait()
		list, err := a.common.view.Read(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		check("a note before the edit", landed{lease: note, leases: a.common.view}, true, false)
		check("a note before the edit, by a list", landed{lease: note, leases: list}, false, false)
		elapse(w.Timing.RenewInterval)
		w.edit("heart-a", func(*coordinationv1.Lease) {})
		w.edit("heart-a", func(*coordinationv1.Lease) {})
		w.edit("heart-a", func(*coordinationv1.Lease) {})
		later.ResourceVersion = w.lease("heart-a").ResourceVersion
		synctest.Wait()
		check("a note after the edit", landed{lease: later, leases: a.common.view}, false, true)
	})
}

// TestL8AfterANoteThatFailedNoneIsTriedForAWhile: each lock is released by a write of its own instead.
func TestL8AfterANoteThatFailedNoneIsTriedForAWhile(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		heart, kept := a.common.heart, w.lease("lock-0")
		to, _ := attachmentOf(kept)
		one := &leaving{noted: noted{"lock-9", record.Number(kept.ResourceVersion), time.Now()}, attachment: to, term: kept, landed: make(chan landed, 1)}
		a.heartLink.cut(true)
		heart.noteTogether([]*leaving{one})
		a.heal()
		elapse(2 * w.Timing.RenewInterval)
		if _, _, err := heart.writeNote(w.Context(), nil); !errors.Is(err, errNotNoted) {
			t.Errorf("soon after it another note is written: %v", err)
		}
		elapse(w.Timing.RenewDeadline)
		if _, _, err := heart.writeNote(w.Context(), nil); err != nil {
			t.Errorf("later it is not: %v", err)
		}
	})
}

func TestL8ANoteIsNoMatterForHeartbeatsThatHaveTrouble(t *testing.T) {
	led(t, 1, func(w *world, a *process) {
		heart := a.common.heart
		lock, err := a.common.lock("lock-0")
		if err != nil {
			t.Fatal(err)
		}
		now, err := lock.Read(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		refuse := func() { heart.answered(heart.depart(locks.Record{}), locks.ErrConflict) }
		refuse()
		began := time.Now()
		if !heart.beatsLand(w.Context()) {
			t.Error("no heartbeat landed")
		}
		if took := time.Since(began); took == 0 || took > w.Timing.RenewInterval {
			t.Errorf("it took %v", took)
		}
		a.heartLink.cut(true)
		refuse()
		ctx, cancel := context.WithTimeout(w.Context(), w.Timing.AttemptTimeout)
		defer cancel()
		if _, _, err := heart.writeNote(ctx, nil); !errors.Is(err, errNotNoted) {
			t.Errorf("after a conflict: %v", err)
		}
		heart.answered(&beat{sent: time.Now().Add(-w.Timing.RenewInterval - 1)}, nil)
		if _, err := heart.release(ctx, stateOf(now.Version), noted{}); !errors.Is(err, errNotNoted) {
			t.Errorf("after a slow answer: %v", err)
		}
		a.heal()
	})
}
