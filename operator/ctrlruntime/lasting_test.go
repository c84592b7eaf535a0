// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/zonelect/zonelect/election"
)

// TestNothingIsKeptFromATerm: after a thousand terms there is as much as after a hundred.
func TestNothingIsKeptFromATerm(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		var reconciles, ran atomic.Int64
		w.mustLead(func(m ctrl.Manager) error {
			events := make(chan event.GenericEvent, 1)
			events <- event.GenericEvent{Object: &corev1.ConfigMap{}}
			if err := indexing(m); err != nil {
				return err
			}
			if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error { ran.Add(1); <-ctx.Done(); return nil })); err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(m).Named("kept").For(&corev1.ConfigMap{}).
				Watches(&corev1.ConfigMap{}, &handler.EnqueueRequestForObject{}).
				WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
				Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
					reconciles.Add(1)
					return reconcile.Result{RequeueAfter: time.Hour}, nil
				}))
		})
		w.serve()
		terms := 1000
		if testing.Short() {
			terms = 200 // with the race detector, which keeps things of its own
		}
		var goroutines, series int
		most, least := uint64(0), uint64(math.MaxUint64) // bytes of the heap, early and late
		seriesOf(t)                                      // whatever is made when metrics are gathered first
		for n := 1; n <= terms; n++ {
			reconciles.Store(0)
			w.term(func() { time.Sleep(2 * time.Second) })
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if reconciles.Load() < 5 {
				t.Fatalf("term %d had %d reconciles", n, reconciles.Load())
			}
			switch {
			case n > 50 && n <= 100:
				most = max(most, live())
				goroutines, series = runtime.NumGoroutine(), seriesOf(t)
			case n > terms-20:
				least = min(least, live())
			}
		}
		g, s := runtime.NumGoroutine(), seriesOf(t)
		if g > goroutines || s != series || !testing.Short() && least > most+most/100 {
			t.Errorf("after 100 terms %d goroutines, %d series, %d bytes; after %d terms %d, %d, %d", goroutines, series, most, terms, g, s, least)
		}
		if int(ran.Load()) != terms {
			t.Errorf("a runnable ran in %d of %d terms", ran.Load(), terms)
		}
	})
}

// live is how many bytes of the heap are in use.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

func seriesOf(t *testing.T) (n int) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	must(t, err)
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

// TestNoReconcileBeginsAfterItsTerm although thousands of keys are queued: the default queue hands out
// nothing once it is shut down, and the other one needs a Gate.
func TestNoReconcileBeginsAfterItsTerm(t *testing.T) {
	for _, priority := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 5000, func(o *ctrl.Options) {
				if !priority {
					o.Controller.UsePriorityQueue = &priority
				}
			})
			var began atomic.Int64
			var r reconcile.Reconciler = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				began.Add(1)
				time.Sleep(time.Millisecond)
				return reconcile.Result{}, nil
			})
			if !priority {
				r = Gate(r)
			}
			w.mustLead(doing(fmt.Sprint("late-", priority), r.Reconcile))
			w.serve()
			var ends time.Time
			w.term(func() {
				for began.Load() == 0 {
					time.Sleep(700 * time.Microsecond)
				}
				ends = time.Now()
			})
			if took := time.Since(ends); took > 20*time.Millisecond {
				t.Errorf("priority=%v: the term took %v to end", priority, took)
			}
			after := began.Load()
			time.Sleep(time.Minute)
			if began.Load() != after || after > 100 {
				t.Errorf("priority=%v: %d began, %d after the term", priority, after, began.Load()-after)
			}
		})
	}
}

// TestATermIsOverWhenNothingOfItRuns: it waits for a handler, and for a reconciler that ignores its
// context.
func TestATermIsOverWhenNothingOfItRuns(t *testing.T) {
	for what, blocks := range map[string]func(m ctrl.Manager, wait func()) error{
		"a mapper": func(m ctrl.Manager, wait func()) error {
			maps := func(context.Context, client.Object) []reconcile.Request { wait(); return nil }
			return ctrl.NewControllerManagedBy(m).Named("mapper").Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(maps)).
				Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		},
		"a reconciler": func(m ctrl.Manager, wait func()) error {
			return doing("reconciler", func(context.Context, reconcile.Request) (reconcile.Result, error) {
				wait()
				return reconcile.Result{}, nil
			})(m)
		},
		"a runnable": func(m ctrl.Manager, wait func()) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { wait(); return nil }))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				runs, goOn := make(chan struct{}), make(chan struct{})
				var over atomic.Bool
				var calls atomic.Int64
				block := sync.OnceFunc(func() { close(runs); <-goOn })
				w.mustLead(func(m ctrl.Manager) error { return blocks(m, func() { calls.Add(1); block() }) })
				w.serve()
				w.term(func() {
					<-runs
					time.AfterFunc(time.Hour, func() {
						if over.Load() {
							t.Error("the term ended before it")
						}
						close(goOn)
					})
				})
				over.Store(true)
				time.Sleep(2 * time.Hour)
				if calls.Load() != 1 {
					t.Errorf("it was called %d times, and only the first time before the term ended", calls.Load())
				}
			})
		})
	}
}

// TestNoHandlerIsCalledWhenItsTermIsOver: the informer may be about to call it when it is removed.
func TestNoHandlerIsCalledWhenItsTermIsOver(t *testing.T) {
	var over term
	over.close()
	over.call(func() { t.Error("it was called") })
}

// TestAHandlerThatATermRemovesIsForgotten: a reconciler may add and remove them for as long as it leads.
func TestAHandlerThatATermRemovesIsForgotten(t *testing.T) {
	w := newWorld(t, 0)
	m := w.newTerm(false)
	i, err := m.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
	must(t, err)
	r, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	must(t, err)
	if err := i.RemoveEventHandler(r); err != nil || len(m.handlers) > 0 {
		t.Errorf("%d are kept, %v", len(m.handlers), err)
	}
}

// TestNothingIsAddedToATermThatIsOver, by what of it still runs.
func TestNothingIsAddedToATermThatIsOver(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.mustLead(func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				i, err := m.GetCache().GetInformer(w.t.Context(), &corev1.ConfigMap{})
				if err != nil {
					t.Error(err)
					return err
				}
				if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); !errors.Is(err, errOver) {
					t.Errorf("a handler: %v", err)
				}
				if err := m.Add(manager.RunnableFunc(func(context.Context) error { return nil })); !errors.Is(err, errOver) {
					t.Errorf("a runnable: %v", err)
				}
				return nil
			}))
		})
		w.serve()
		w.term(func() { time.Sleep(time.Second) })
	})
}

// TestControllersWaitForWhatTheirInformersAreToHear: nothing of a term runs before an informer that setup
// has asked for has synced. If it never does, the term ends with a word.
func TestControllersWaitForWhatTheirInformersAreToHear(t *testing.T) {
	for _, late := range []time.Duration{5 * time.Second, time.Hour} {
		inWorld(t, 1, func(w *world) {
			w.denied.Store("/configmaps")
			began := time.Now()
			w.mustLead(func(m ctrl.Manager) error {
				i, err := m.GetCache().GetInformer(w.t.Context(), &corev1.ConfigMap{})
				return errors.Join(err, m.Add(manager.RunnableFunc(func(context.Context) error {
					if !i.HasSynced() || time.Since(began) < late {
						t.Error("it runs before the informer has synced")
					}
					return errors.New("enough")
				})))
			})
			w.serve()
			go func() {
				time.Sleep(late)
				w.denied.Store("/secrets")
			}()
			want := "enough"
			if late > 2*time.Minute {
				want = "the cache has no /v1, Kind=ConfigMap after 2m0s"
			}
			if err := w.lead(w.t.Context(), election.Term{}); !errors.Is(err, errTerm) || !strings.Contains(err.Error(), want) {
				t.Errorf("the term ends with: %v", err)
			}
			time.Sleep(2 * late)
		})
	}
}

// TestATermWaitsForNoKindThatItDoesNotUse: that may be gone or forbidden (B2, B3).
func TestATermWaitsForNoKindThatItDoesNotUse(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.denied.Store("/secrets")
		var reconciles, synced atomic.Int64
		w.mustLead(func(m ctrl.Manager) error {
			return errors.Join(
				m.Add(manager.RunnableFunc(func(ctx context.Context) error {
					if m.GetCache().WaitForCacheSync(ctx) && ctx.Err() == nil {
						synced.Add(1)
					}
					return nil
				})),
				doing("uses", func(context.Context, reconcile.Request) (reconcile.Result, error) {
					reconciles.Add(1)
					return reconcile.Result{}, nil
				})(m),
			)
		})
		_, err := w.GetCache().GetInformer(w.t.Context(), &corev1.Secret{})
		must(t, err)
		w.serve()
		for n := range int64(2) {
			w.term(func() { time.Sleep(time.Second) })
			if reconciles.Load() != n+1 || synced.Load() != n+1 {
				t.Errorf("after term %d: %d reconciles, synced %d times", n, reconciles.Load(), synced.Load())
			}
		}
	})
}

// TestARehearsalLeavesNoHandler that setup adds: only the leader's is called (B6).
func TestARehearsalLeavesNoHandler(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		var heard atomic.Int64
		w.mustLead(func(m ctrl.Manager) error {
			i, err := m.GetCache().GetInformer(w.t.Context(), &corev1.ConfigMap{})
			if err != nil {
				return err
			}
			_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { heard.Add(1) }})
			return err
		})
		w.warm()
		time.Sleep(time.Minute)
		if heard.Load() != 0 {
			t.Errorf("it was called %d times before the first term", heard.Load())
		}
		w.term(func() { time.Sleep(time.Minute) })
		if heard.Load() != 1 {
			t.Errorf("it was called %d times in the first term", heard.Load())
		}
	})
}

// TestTheCacheIsWarmWhenTheFirstTermBegins if a controller asks for that.
func TestTheCacheIsWarmWhenTheFirstTermBegins(t *testing.T) {
	for _, warm := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, func(o *ctrl.Options) { o.Controller.EnableWarmup = &warm })
			reconciled := make(chan struct{}, 10)
			w.mustLead(doing(fmt.Sprintf("warm%v", warm), func(context.Context, reconcile.Request) (reconcile.Result, error) {
				reconciled <- struct{}{}
				return reconcile.Result{}, nil
			}))
			w.warm()
			synctest.Wait()
			before := w.asked.Load()
			if (before > 0) != warm || len(reconciled) > 0 {
				t.Errorf("warm=%v: %d requests and %d reconciles before the first term", warm, before, len(reconciled))
			}
			w.term(func() { <-reconciled })
			if asked := w.asked.Load(); warm && asked != before {
				t.Errorf("%d requests in the first term", asked-before)
			}
		})
	}
}

// TestTheCacheOfEachNamespaceIsOne: its handlers end with the term, too.
func TestTheCacheOfEachNamespaceIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(o *ctrl.Options) {
			o.Cache.DefaultNamespaces = map[string]cache.Config{"ns": {}, "other": {}}
		})
		w.put("other", 0)
		var n atomic.Int64
		w.mustLead(doing("manyns", func(context.Context, reconcile.Request) (reconcile.Result, error) {
			n.Add(1)
			return reconcile.Result{}, nil
		}))
		w.serve()
		for range 2 {
			w.term(func() { time.Sleep(time.Minute) })
		}
		if n.Load() != 4 {
			t.Errorf("%d reconciles", n.Load())
		}
	})
}

func TestNothingBeginsInATermThatEndedInItsSetup(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		calls := 0
		w.mustLead(func(m ctrl.Manager) error {
			if calls++; calls > 2 {
				time.Sleep(10 * time.Second)
			}
			return m.Add(manager.RunnableFunc(func(context.Context) error { t.Error("it begins after its term has ended"); return nil }))
		})
		w.serve()
		w.term(func() { time.Sleep(5 * time.Second) })
	})
}
