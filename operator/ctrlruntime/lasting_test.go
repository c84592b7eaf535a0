// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// world is a lasting manager without election, and the API server that it asks.
type world struct {
	*Lasting
	server *apitest.Server
	lists  atomic.Int64 // that were asked for
	denied atomic.Value // the resource that nobody may see
}

// Before its logger is set, controller-runtime keeps whatever asks for one. Client-go's handlers of errors
// pace them by the time at which the process began, which is far ahead of that of a bubble.
func init() {
	ctrl.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
}

func newWorld(t *testing.T, objects int, change ...func(*ctrl.Options)) *world {
	t.Helper()
	w := &world{server: apitest.NewServer()}
	for n := range objects {
		w.server.Put(configMap(n), map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": fmt.Sprint(n), "namespace": "ns", "uid": fmt.Sprint(n)}})
	}
	o := ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			m := meta.NewDefaultRESTMapper(nil)
			m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
			return m, nil
		},
	}
	for _, c := range change {
		c(&o)
	}
	config := &rest.Config{Host: "http://api", Transport: apitest.Transport(w.server), ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	if o.LeaderElection {
		config = nowhere
	}
	w.denied.Store("/nothing")
	w.server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.Contains(path, w.denied.Load().(string)) {
			return apitest.Forbidden(verb, path)
		}
		return 0, nil
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, &w.lists} })
	var err error
	if w.Lasting, err = NewLasting(config, o, operator.Options{Disabled: o.LeaderElection}); errors.Is(err, errTooOld) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return w
}

// counting counts lists, as such or as the beginning of a watch.
type counting struct {
	http.RoundTripper
	lists *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Get("watch") != "true" || q.Get("sendInitialEvents") == "true" {
		c.lists.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

func configMap(n int) string { return fmt.Sprintf("/api/v1/namespaces/ns/configmaps/%d", n) }

// serve starts the cache alone: terms are begun by term.
func (w *world) serve(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.GetCache().Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // a queue looks only now and then whether it is shut down
	})
	w.started.Store(true)
	synctest.Wait()
}

// term is one term, which ends when during returns.
func (w *world) term(t *testing.T, during func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.lead(ctx, election.Term{}) }()
	during()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsKeptFromATerm: after a thousand terms there is as much as after a hundred.
func TestNothingIsKeptFromATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		var reconciles, ran atomic.Int64
		w.mustLead(t, func(m ctrl.Manager) error {
			events := make(chan event.GenericEvent, 1)
			events <- event.GenericEvent{Object: &corev1.ConfigMap{}}
			if err := m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "data.a", func(client.Object) []string { return nil }); err != nil {
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
		w.serve(t)
		terms := 1000
		if testing.Short() {
			terms = 200 // with the race detector, which keeps things of its own
		}
		var goroutines, series int
		heap, least := uint64(0), uint64(math.MaxUint64)
		seriesOf(t) // whatever is made when metrics are gathered first
		for n := 1; n <= terms; n++ {
			reconciles.Store(0)
			w.term(t, func() {
				time.Sleep(2 * time.Second)
				synctest.Wait()
			})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if reconciles.Load() < 5 {
				t.Fatalf("term %d had %d reconciles", n, reconciles.Load())
			}
			switch {
			case n > 50 && n <= 100:
				heap = max(heap, live())
			case n > terms-20:
				least = min(least, live())
			}
			switch n {
			case 100:
				goroutines, series = runtime.NumGoroutine(), seriesOf(t)
				t.Logf("after %d terms: %d goroutines, %d series, %d bytes", n, goroutines, series, heap)
			case terms:
				g, s := runtime.NumGoroutine(), seriesOf(t)
				t.Logf("after %d terms: %d goroutines, %d series, %d bytes", n, g, s, least)
				if g > goroutines || s != series || !testing.Short() && least > heap+heap/100 {
					t.Error("more than after 100")
				}
			}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

// doing returns the function that adds a controller of ConfigMaps.
func doing(name string, do func(context.Context, reconcile.Request) (reconcile.Result, error)) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).Named(name).For(&corev1.ConfigMap{}).Complete(reconcile.Func(do))
	}
}

func (w *world) mustLead(t *testing.T, setup func(ctrl.Manager) error) {
	t.Helper()
	if err := w.Lead(setup); err != nil {
		t.Fatal(err)
	}
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
			w.mustLead(t, doing(fmt.Sprint("late-", priority), r.Reconcile))
			w.serve(t)
			var ends time.Time
			w.term(t, func() {
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
	for what, blocks := range map[string]func(wait func()) func(ctrl.Manager) error{
		"a mapper": func(wait func()) func(ctrl.Manager) error {
			return func(m ctrl.Manager) error {
				return ctrl.NewControllerManagedBy(m).Named("mapper").
					Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { wait(); return nil })).
					Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
			}
		},
		"a reconciler": func(wait func()) func(ctrl.Manager) error {
			return doing("reconciler", func(context.Context, reconcile.Request) (reconcile.Result, error) {
				wait()
				return reconcile.Result{}, nil
			})
		},
		"a runnable": func(wait func()) func(ctrl.Manager) error {
			return func(m ctrl.Manager) error {
				return m.Add(manager.RunnableFunc(func(context.Context) error { wait(); return nil }))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3)
				runs, goOn := make(chan struct{}), make(chan struct{})
				var over atomic.Bool
				var calls atomic.Int64
				block := sync.OnceFunc(func() { close(runs); <-goOn })
				w.mustLead(t, blocks(func() { calls.Add(1); block() }))
				w.serve(t)
				w.term(t, func() {
					<-runs
					go func() {
						time.Sleep(time.Hour)
						if over.Load() {
							t.Error("the term ended before it")
						}
						close(goOn)
					}()
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
	if err != nil {
		t.Fatal(err)
	}
	r, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.RemoveEventHandler(r); err != nil || len(m.handlers) > 0 {
		t.Errorf("%d are kept, %v", len(m.handlers), err)
	}
}

// TestNothingIsAddedToATermThatIsOver, by what of it still runs.
func TestNothingIsAddedToATermThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.mustLead(t, func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				i, err := m.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
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
		w.serve(t)
		w.term(t, func() { time.Sleep(time.Second) })
	})
}

// TestATermThatEndsEarlyLeavesNothing: one that ends before the cache has synced, or in its setup.
func TestATermThatEndsEarlyLeavesNothing(t *testing.T) {
	for what, length := range map[string]time.Duration{"in setup": 0, "before the sync": time.Minute} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.server.Before = func(verb, _ string) (int, apitest.Object) {
					return http.StatusServiceUnavailable, apitest.Status(http.StatusServiceUnavailable, "ServiceUnavailable", verb, "", "")
				}
				w.mustLead(t, doing("early"+what, func(context.Context, reconcile.Request) (reconcile.Result, error) {
					t.Error("it reconciles")
					return reconcile.Result{}, nil
				}))
				w.serve(t)
				w.term(t, func() { time.Sleep(length) })
				time.Sleep(time.Hour)
				synctest.Wait()
				before := runtime.NumGoroutine()
				for range 20 {
					w.term(t, func() { time.Sleep(length) })
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if now := runtime.NumGoroutine(); now > before {
					t.Errorf("%d goroutines, before %d", now, before)
				}
			})
		})
	}
}

// TestControllersWaitForWhatTheirInformersAreToHear: nothing of a term runs before an informer that setup
// has asked for has synced. If it never does, the term ends with a word.
func TestControllersWaitForWhatTheirInformersAreToHear(t *testing.T) {
	for _, late := range []time.Duration{5 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.denied.Store("/configmaps")
			began := time.Now()
			w.mustLead(t, func(m ctrl.Manager) error {
				i, err := m.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
				return errors.Join(err, m.Add(manager.RunnableFunc(func(context.Context) error {
					if !i.HasSynced() || time.Since(began) < late {
						t.Error("it runs before the informer has synced")
					}
					return errors.New("enough")
				})))
			})
			w.serve(t)
			go func() {
				time.Sleep(late)
				w.denied.Store("/secrets")
			}()
			want := "enough"
			if late > 2*time.Minute {
				want = "the cache has no /v1, Kind=ConfigMap after 2m0s"
			}
			if err := w.lead(t.Context(), election.Term{}); !errors.Is(err, errTerm) || !strings.Contains(err.Error(), want) {
				t.Errorf("the term ends with: %v", err)
			}
			time.Sleep(2 * late)
		})
	}
}

// TestATermWaitsForNoKindThatItDoesNotUse: that may be gone or forbidden (B2, B3).
func TestATermWaitsForNoKindThatItDoesNotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.denied.Store("/secrets")
		reconciled, synced := make(chan struct{}, 10), make(chan bool, 2)
		w.mustLead(t, func(m ctrl.Manager) error {
			return errors.Join(
				m.Add(manager.RunnableFunc(func(ctx context.Context) error {
					ctx, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					synced <- m.GetCache().WaitForCacheSync(ctx)
					return nil
				})),
				doing("uses", func(context.Context, reconcile.Request) (reconcile.Result, error) {
					reconciled <- struct{}{}
					return reconcile.Result{}, nil
				})(m),
			)
		})
		if _, err := w.GetCache().GetInformer(t.Context(), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		w.serve(t)
		for range 2 {
			began := time.Now()
			w.term(t, func() {
				late, done := context.WithTimeout(t.Context(), time.Hour)
				defer done()
				select {
				case <-reconciled:
				case <-late.Done():
				}
				select {
				case has := <-synced:
					if !has || time.Since(began) > time.Second {
						t.Errorf("it has waited for %v: %v", time.Since(began), has)
					}
				case <-late.Done():
					t.Error("nothing of it runs")
				}
			})
		}
	})
}

// TestARehearsalLeavesNoHandler that setup adds: only the leader's is called (B6).
func TestARehearsalLeavesNoHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		var heard atomic.Int64
		w.mustLead(t, func(m ctrl.Manager) error {
			i, err := m.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
			if err != nil {
				return err
			}
			_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { heard.Add(1) }})
			return err
		})
		w.warm(t)
		time.Sleep(time.Minute)
		if heard.Load() != 0 {
			t.Errorf("it was called %d times before the first term", heard.Load())
		}
		w.term(t, func() { time.Sleep(time.Minute) })
		if heard.Load() != 1 {
			t.Errorf("it was called %d times in the first term", heard.Load())
		}
	})
}

// warm rehearses all setups, starts the cache and warms up, as Start does.
func (w *world) warm(t *testing.T) {
	t.Helper()
	var err error
	if w.trial, err = w.rehearse(true, w.setups...); err != nil {
		t.Fatal(err)
	}
	w.serve(t)
	if err := w.warmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestTheCacheIsWarmWhenTheFirstTermBegins if a controller asks for that.
func TestTheCacheIsWarmWhenTheFirstTermBegins(t *testing.T) {
	for _, warm := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, func(o *ctrl.Options) { o.Controller.EnableWarmup = &warm })
			reconciled := make(chan struct{}, 10)
			w.mustLead(t, doing(fmt.Sprintf("warm%v", warm), func(context.Context, reconcile.Request) (reconcile.Result, error) {
				reconciled <- struct{}{}
				return reconcile.Result{}, nil
			}))
			w.warm(t)
			synctest.Wait()
			if lists := w.lists.Load(); (lists == 1) != warm || len(reconciled) > 0 {
				t.Errorf("warm=%v: %d lists and %d reconciles before the first term", warm, lists, len(reconciled))
			}
			w.term(t, func() { <-reconciled })
			if lists := w.lists.Load(); lists != 1 {
				t.Errorf("warm=%v: %d lists", warm, lists)
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
		w.server.Put("/api/v1/namespaces/other/configmaps/0", map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "0", "namespace": "other", "uid": "o"}})
		var n atomic.Int64
		w.mustLead(t, doing("manyns", func(context.Context, reconcile.Request) (reconcile.Result, error) {
			n.Add(1)
			return reconcile.Result{}, nil
		}))
		w.serve(t)
		for range 2 {
			w.term(t, func() { time.Sleep(time.Minute) })
		}
		if n.Load() != 4 {
			t.Errorf("%d reconciles", n.Load())
		}
	})
}

func TestAnIndexIsMadeAgainForAnInformerThatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		terms := 0
		w.mustLead(t, func(m ctrl.Manager) error {
			if err := m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "f", func(client.Object) []string { return []string{"x"} }); err != nil {
				return err
			}
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				terms++
				var l corev1.ConfigMapList
				if err := m.GetClient().List(ctx, &l, client.MatchingFields{"f": "x"}); err != nil {
					t.Errorf("term %d: %v", terms, err)
				}
				<-ctx.Done()
				return m.GetCache().RemoveInformer(t.Context(), &corev1.ConfigMap{})
			}))
		})
		w.serve(t)
		for range 2 {
			w.term(t, func() { time.Sleep(time.Minute) })
		}
	})
}

func TestNothingBeginsInATermThatEndedInItsSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		calls := 0
		w.mustLead(t, func(m ctrl.Manager) error {
			if calls++; calls > 2 {
				time.Sleep(10 * time.Second)
			}
			return m.Add(manager.RunnableFunc(func(context.Context) error { t.Error("it begins after its term has ended"); return nil }))
		})
		w.serve(t)
		w.term(t, func() { time.Sleep(5 * time.Second) })
	})
}

// TestSetupsThatIndexTheSameFieldAreRefused: each works alone, and no term could begin with both (B5).
func TestSetupsThatIndexTheSameFieldAreRefused(t *testing.T) {
	w := newWorld(t, 0)
	for range 2 {
		w.mustLead(t, func(m ctrl.Manager) error {
			return m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "f", func(client.Object) []string { return nil })
		})
	}
	if err := w.Start(t.Context()); err == nil || errors.Is(err, errTerm) || !strings.Contains(err.Error(), `is indexed by "f" twice`) {
		t.Errorf("Start: %v", err)
	}
}

// TestWhatCannotBeRepeatedIsRefused when Lead is called, with what to do.
func TestWhatCannotBeRepeatedIsRefused(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "refused_total"})
	w := newWorld(t, 0)
	for want, setup := range map[string]func(ctrl.Manager) error{
		"the webhook /a cannot be added in each term: add it to the lasting manager": func(m ctrl.Manager) error {
			m.GetWebhookServer().Register("/a", &webhook.Admission{Handler: admission.HandlerFunc(nil)})
			return nil
		},
		"the health check a cannot be":    func(m ctrl.Manager) error { return m.AddHealthzCheck("a", healthz.Ping) },
		"the readiness check b cannot be": func(m ctrl.Manager) error { return m.AddReadyzCheck("b", healthz.Ping) },
		"handler of /m cannot be":         func(m ctrl.Manager) error { return m.AddMetricsServerExtraHandler("/m", http.NotFoundHandler()) },
		"everywhere needs no leader, so that it belongs to no term": func(m ctrl.Manager) error {
			return m.Add(everywhere(func(context.Context) error { return nil }))
		},
		"fails the second time: panic: duplicate metrics collector registration": func(ctrl.Manager) error {
			metrics.Registry.MustRegister(counter)
			return nil
		},
		"no such thing":                     func(ctrl.Manager) error { return errors.New("no such thing") },
		"is started by the lasting manager": func(m ctrl.Manager) error { return m.Start(t.Context()) },
	} {
		if err := w.Lead(setup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
	if err := w.Add(manager.RunnableFunc(nil)); err == nil || !strings.Contains(err.Error(), "add it in a function given to Lead") {
		t.Errorf("Add: %v", err)
	}
	w.started.Store(true)
	if err := w.Lead(func(ctrl.Manager) error { return nil }); err == nil || !strings.Contains(err.Error(), "after Start") {
		t.Errorf("Lead after Start: %v", err)
	}
}

// TestTermsThatFailArePacedAndCounted: the fifth in a row ends Start.
func TestTermsThatFailArePacedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newElectedWorld(t)
		var terms []time.Time
		calls := 0
		w.mustLead(t, func(m ctrl.Manager) error {
			if calls++; calls <= 3 { // rehearsals
				return nil
			}
			terms = append(terms, time.Now())
			if len(terms) == 3 {
				return m.Add(manager.RunnableFunc(func(context.Context) error { time.Sleep(longTerm + time.Second); return errors.New("later") }))
			}
			return errors.New("at once")
		})
		err := w.Start(t.Context())
		if !errors.Is(err, errTerm) || !strings.Contains(err.Error(), "5 terms in a row: ") || len(terms) != 7 {
			t.Errorf("%d terms, and then: %v", len(terms), err)
		}
		for n, at := range terms[1:3] {
			if pause := at.Sub(terms[n]); pause < 400*time.Millisecond {
				t.Errorf("term %d began %v after the one before", n+1, pause)
			}
		}
	})
}

// newElectedWorld has an election that nobody else takes part in.
func newElectedWorld(t *testing.T, change ...func(*ctrl.Options)) *world {
	t.Helper()
	return newWorld(t, 1, append(change, func(o *ctrl.Options) { o.LeaderElection, o.LeaderElectionID = true, "op" })...)
}

// TestALastingManagerIsElectedForNoTerm: what waits for Elected would go on without leadership.
func TestALastingManagerIsElectedForNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said atomic.Bool
		w := newElectedWorld(t, func(o *ctrl.Options) {
			o.Logger = funcr.New(func(_, args string) {
				said.Store(said.Load() || strings.Contains(args, "is never closed"))
			}, funcr.Options{})
		})
		ctx, cancel := context.WithCancel(t.Context())
		w.mustLead(t, func(m ctrl.Manager) error {
			<-m.Elected()
			return m.Add(manager.RunnableFunc(func(context.Context) error {
				select {
				case <-w.Elected():
					t.Error("it is elected for ever")
				default:
				}
				cancel()
				return nil
			}))
		})
		if err := w.Start(ctx); err != nil || !said.Load() {
			t.Errorf("%v, and it says so: %v", err, said.Load())
		}
	})
}

// TestTheClientOfATermIsGuarded: it writes only while this process leads.
func TestTheClientOfATermIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newElectedWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		write := func(c client.Client) error {
			return c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}})
		}
		var last client.Client
		w.mustLead(t, func(m ctrl.Manager) error {
			last = m.GetClient()
			return m.Add(manager.RunnableFunc(func(context.Context) error {
				if err := write(m.GetClient()); errors.Is(err, election.ErrUntrusted) {
					t.Errorf("while it leads: %v", err)
				}
				cancel()
				return nil
			}))
		})
		if err := w.Start(ctx); err != nil {
			t.Error(err)
		}
		if err := write(last); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("when the term is over: %v", err)
		}
	})
}

// TestWorkThatOutlivesItsTermEndsTheProcess whatever the options say. The test runs itself as that process.
func TestWorkThatOutlivesItsTermEndsTheProcess(t *testing.T) {
	if os.Getenv("OUTLIVES") != "" {
		short := 100 * time.Millisecond
		w := newElectedWorld(t, func(o *ctrl.Options) { o.GracefulShutdownTimeout = &short })
		ctx, cancel := context.WithCancel(t.Context())
		w.mustLead(t, func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { cancel(); fmt.Println("it works"); select {} }))
		})
		t.Fatal(w.Start(ctx))
	}
	newWorld(t, 0) // skips with an old controller-runtime
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), "OUTLIVES=yes")
	said, err := process.CombinedOutput()
	if ended := new(exec.ExitError); !errors.As(err, &ended) || !strings.Contains(string(said), "it works") || strings.Contains(string(said), "FAIL") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestTheReleaseFollowsTheGracefulShutdownTimeout, which is the controllers' alone (B7).
func TestTheReleaseFollowsTheGracefulShutdownTimeout(t *testing.T) {
	newWorld(t, 0) // skips with an old controller-runtime
	server := apitest.NewServer()
	var stopping atomic.Bool
	server.Before = func(verb, _ string) (int, apitest.Object) {
		if stopping.Load() && verb == "update" {
			time.Sleep(700 * time.Millisecond)
		}
		return 0, nil
	}
	api := httptest.NewServer(server)
	defer api.Close()
	defer api.CloseClientConnections()
	config := &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	o, grace := options(), time.Second
	o.GracefulShutdownTimeout = &grace
	m, err := NewLasting(config, o, self)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Election.Timing().StopTimeout; got != grace {
		t.Errorf("StopTimeout is %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := m.Lead(func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			time.Sleep(grace - 300*time.Millisecond)
			stopping.Store(true)
			return nil
		}))
	}); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Error(err)
	}
	if s := m.Election.Status(); s.Holder != "" {
		t.Errorf("the lease is held by %q", s.Holder)
	}
}

// TestAnOlderControllerRuntimeIsRefused with what to do, and one that the build does not name is not.
func TestAnOlderControllerRuntimeIsRefused(t *testing.T) {
	for built, refused := range map[string]bool{"v0.22.5": true, "v0.24.9": true, "v0.25.0": false, "v0.25.2": false, "v1.0.0": false, "(devel)": false} {
		err := newEnough(&debug.BuildInfo{Deps: []*debug.Module{
			{Path: "k8s.io/client-go", Version: "v0.22.0"}, {Path: "sigs.k8s.io/controller-runtime", Version: "v0.0.1", Replace: &debug.Module{Version: built}},
		}}, true)
		if errors.Is(err, errTooOld) != refused || refused && !strings.Contains(err.Error(), "use NewManager (this is "+built) {
			t.Errorf("%s: %v", built, err)
		}
	}
	if err := newEnough(nil, false); err != nil {
		t.Error(err)
	}
}
