// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
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
	wire   *wire
}

// wire carries requests to the server, and counts them.
type wire struct {
	next http.RoundTripper

	mu     sync.Mutex
	away   bool // nobody answers
	bodies []*body
	counts map[string]int // by verb
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	verb := "list"
	if q := r.URL.Query(); q.Get("watch") == "true" && q.Get("sendInitialEvents") != "true" {
		verb = "watch" // the others list
	}
	w.mu.Lock()
	w.counts[verb]++
	away := w.away
	w.mu.Unlock()
	if away {
		return nil, errors.New("connection refused")
	}
	answer, err := w.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "true" {
		b := &body{ReadCloser: answer.Body, of: w, cut: make(chan struct{}), closed: make(chan struct{})}
		answer.Body = b
		w.mu.Lock()
		w.bodies = append(w.bodies, b)
		w.mu.Unlock()
	}
	return answer, err
}

// silence has the watches that are open say nothing more; end ends them.
func (w *wire) silence(end bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bodies {
		if b.ends = end; end {
			_ = b.ReadCloser.Close()
		}
		close(b.cut)
	}
	w.bodies = nil
}

func (w *wire) setAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

// count returns how many requests there were. A watch that begins with a list is a list.
func (w *wire) count(verb string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[verb]
}

type body struct {
	io.ReadCloser
	of     *wire
	ends   bool
	cut    chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-b.cut:
		if !b.ends {
			<-b.closed
		}
		return 0, io.EOF
	default:
		return n, err
	}
}

func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.bodies = slices.DeleteFunc(b.of.bodies, func(o *body) bool { return o == b })
	return b.ReadCloser.Close()
}

// Before its logger is set, controller-runtime keeps whatever asks for one.
func init() { ctrl.SetLogger(logr.Discard()) }

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
			return m, nil
		},
	}
	for _, c := range change {
		c(&o)
	}
	var err error
	w.wire = &wire{next: apitest.Transport(w.server), counts: map[string]int{}}
	config := &rest.Config{Host: "http://api", Transport: w.wire, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	if o.LeaderElection {
		config = nowhere
	}
	if w.Lasting, err = NewLasting(config, o, operator.Options{Disabled: o.LeaderElection}); err != nil {
		t.Fatal(err)
	}
	return w
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

func queues(t *testing.T, test func(t *testing.T, priority bool)) {
	for _, priority := range []bool{false, true} {
		t.Run(fmt.Sprintf("priority=%v", priority), func(t *testing.T) { test(t, priority) })
	}
}

// TestNothingIsKeptFromATerm: after a thousand terms there is as much as after a hundred.
func TestNothingIsKeptFromATerm(t *testing.T) {
	queues(t, func(t *testing.T, priority bool) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 5, func(o *ctrl.Options) { o.Controller.UsePriorityQueue = &priority })
			var reconciles, ran atomic.Int64
			name := fmt.Sprintf("kept-%v", priority)
			if err := w.Lead(func(m ctrl.Manager) error {
				events := make(chan event.GenericEvent, 1)
				events <- event.GenericEvent{Object: &corev1.ConfigMap{}}
				if err := m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "data.a", func(client.Object) []string { return nil }); err != nil {
					return err
				}
				if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error { ran.Add(1); <-ctx.Done(); return nil })); err != nil {
					return err
				}
				return ctrl.NewControllerManagedBy(m).Named(name).For(&corev1.ConfigMap{}).
					Watches(&corev1.ConfigMap{}, &handler.EnqueueRequestForObject{}).
					WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
					Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
						reconciles.Add(1)
						return reconcile.Result{RequeueAfter: time.Hour}, nil
					}))
			}); err != nil {
				t.Fatal(err)
			}
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

// TestNoReconcileBeginsAfterItsTerm although thousands of keys are queued.
func TestNoReconcileBeginsAfterItsTerm(t *testing.T) {
	queues(t, func(t *testing.T, priority bool) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 5000, func(o *ctrl.Options) { o.Controller.UsePriorityQueue = &priority })
			var began, late atomic.Int64
			w.mustLead(t, doing(fmt.Sprintf("late-%v", priority), func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				if began.Add(1); ctx.Err() != nil {
					late.Add(1)
				}
				time.Sleep(time.Millisecond)
				return reconcile.Result{}, nil
			}))
			w.serve(t)
			var ends time.Time
			w.term(t, func() {
				for began.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				ends = time.Now()
			})
			if took := time.Since(ends); took > 20*time.Millisecond {
				t.Errorf("the term took %v to end", took)
			}
			after := began.Load()
			time.Sleep(time.Minute)
			if left := queued(t); len(left) > 0 {
				t.Errorf("the metrics show %v", left)
			}
			if late.Load() > 0 || began.Load() != after || after > 100 {
				t.Errorf("%d began, %d with an ended context, %d after the term", after, late.Load(), began.Load()-after)
			}
		})
	})
}

// TestWhatAQueueCountsAfterItsTermIsForgotten: in a second, or when the next term begins.
func TestWhatAQueueCountsAfterItsTermIsForgotten(t *testing.T) {
	queues(t, func(t *testing.T, priority bool) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 5, func(o *ctrl.Options) { o.Controller.UsePriorityQueue = &priority })
			name := fmt.Sprintf("forgotten-%v", priority)
			w.mustLead(t, doing(name, func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
			w.serve(t)
			count := func() {
				for _, vector := range queueGauges() {
					labels := prometheus.Labels{"name": name, "controller": name, "priority": "0"}
					gauge, err := vector.GetMetricWith(labels)
					if err != nil {
						delete(labels, "priority")
						gauge = vector.With(labels)
					}
					gauge.Dec()
				}
			}
			w.term(t, synctest.Wait)
			count()
			w.term(t, func() {
				time.Sleep(2 * time.Second)
				if left := strings.Join(queued(t), " "); !strings.Contains(left, name) || strings.Contains(left, "value:-1") {
					t.Errorf("in the next term the metrics show %v", left)
				}
			})
			count()
			time.Sleep(2 * time.Second)
			if left := queued(t); len(left) > 0 {
				t.Errorf("the metrics show %v", left)
			}
		})
	})
}

// TestAManagerKeepsItsGaugesWhateverOthersDo: a process has several managers, one after the other or at the
// same time, whose controllers have the same names.
func TestAManagerKeepsItsGaugesWhateverOthersDo(t *testing.T) {
	after := func(pause time.Duration) func(*testing.T, *world) {
		return func(t *testing.T, other *world) {
			other.term(t, synctest.Wait)
			time.Sleep(pause)
		}
	}
	for name, tc := range map[string]struct{ before, during func(*testing.T, *world) }{
		"one has just led":  {before: after(0)},
		"one led 0.9 s ago": {before: after(900 * time.Millisecond)},
		"one led 1.1 s ago": {before: after(1100 * time.Millisecond)},
		"one starts meanwhile": {during: func(t *testing.T, other *world) {
			if err := other.warmUp(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		"one leads meanwhile":    {during: func(t *testing.T, other *world) { other.term(t, func() { time.Sleep(2 * time.Minute) }) }},
		"one begins and ends it": {during: func(t *testing.T, other *world) { _ = other.lead(ended(t), election.Term{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			queues(t, func(t *testing.T, priority bool) {
				synctest.Test(t, func(t *testing.T) {
					same := true
					change := func(o *ctrl.Options) {
						o.Controller.UsePriorityQueue, o.Controller.SkipNameValidation = &priority, &same
					}
					name := fmt.Sprintf("%s-%v", strings.ReplaceAll(t.Name(), " ", "-"), priority)
					one, two := newWorld(t, 5, change), newWorld(t, 5, change)
					for _, w := range []*world{one, two} {
						w.mustLead(t, doing(name, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
							select {
							case <-ctx.Done():
							case <-time.After(10 * time.Second):
							}
							return reconcile.Result{}, nil
						}))
						w.serve(t)
					}
					if tc.before != nil {
						tc.before(t, one)
					}
					two.term(t, func() {
						time.Sleep(time.Second)
						if depth, is := depthOf(t, name); !is || depth != 4 {
							t.Errorf("with four of five waiting the depth is %v, %v", depth, is)
						}
						if tc.during != nil {
							tc.during(t, one)
						}
						time.Sleep(2 * time.Minute)
						if depth, is := depthOf(t, name); !is || depth != 0 {
							t.Errorf("when all is done the depth is %v, %v", depth, is)
						}
					})
					time.Sleep(2 * time.Second)
					if depth, is := depthOf(t, name); is {
						t.Errorf("after the last term the depth is %v", depth)
					}
				})
			})
		})
	}
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// depthOf is the depth that the metrics show of a controller's queue.
func depthOf(t *testing.T, controller string) (depth float64, is bool) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "workqueue_depth" && slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == controller }) {
				depth, is = depth+m.GetGauge().GetValue(), true
			}
		}
	}
	return depth, is
}

// queued are the metrics of queues that there are.
func queued(t *testing.T) (all []string) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "workqueue_") && f.GetType() == dto.MetricType_GAUGE {
			all = append(all, f.String())
		}
	}
	return all
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
	var h handlers
	h.remove()
	h.call(func() { t.Error("it was called") })
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

// TestNoReconcileSeesACacheOlderThanItsTerm: what changed while no watch said anything is seen by the
// first reconcile of the next term.
func TestNoReconcileSeesACacheOlderThanItsTerm(t *testing.T) {
	for what, away := range map[string]func(w *world) (back func()){
		"a watch that is silent": func(w *world) func() { w.wire.silence(false); return func() {} },
		"no watch": func(w *world) func() {
			w.wire.setAway(true)
			w.wire.silence(true)
			time.Sleep(time.Minute)
			return func() { w.wire.setAway(false) }
		},
		"no watch and no history": func(w *world) func() {
			w.wire.setAway(true)
			w.wire.silence(true)
			time.Sleep(time.Minute)
			return func() { w.server.Compact(); w.wire.setAway(false) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				saw := ""
				w.mustLead(t, doing("older"+what, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					var c corev1.ConfigMap
					err := w.GetClient().Get(ctx, r.NamespacedName, &c)
					if saw == "" {
						saw = c.Data["written"] + "."
					}
					return reconcile.Result{}, err
				}))
				w.serve(t)
				w.term(t, func() { time.Sleep(time.Minute) })
				if saw != "." {
					t.Errorf("the first term saw %q", saw)
				}
				saw = ""
				back := away(w)
				w.server.Change(configMap(0), func(o apitest.Object) { o["data"] = apitest.Object{"written": "in between"} })
				go func() {
					time.Sleep(10 * time.Second)
					back()
				}()
				w.term(t, func() { time.Sleep(time.Minute) })
				if saw != "in between." {
					t.Errorf("the first reconcile saw %q", saw)
				}
			})
		})
	}
}

// TestAnOutageCostsNoList: a cache whose watches cannot be opened for long goes on where it was, and
// at once when it is told that the API answers again.
func TestAnOutageCostsNoList(t *testing.T) {
	for what, outage := range map[string]time.Duration{"a blink": 0, "five seconds": 5 * time.Second, "four minutes": 4 * time.Minute, "five minutes": 5 * time.Minute, "six minutes": 6 * time.Minute, "seven minutes": 7 * time.Minute} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				var seen atomic.Value
				w.mustLead(t, doing("outage"+what, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					var c corev1.ConfigMap
					err := w.GetClient().Get(ctx, r.NamespacedName, &c)
					seen.Store(c.Data["written"])
					return reconcile.Result{}, err
				}))
				w.serve(t)
				w.term(t, func() {
					time.Sleep(time.Minute)
					lists, watches := w.wire.count("list"), w.wire.count("watch")
					w.wire.setAway(true)
					w.wire.silence(true)
					time.Sleep(outage)
					asked := w.wire.count("watch") - watches
					if most := 12 + int(outage/(10*time.Second))*2; asked > most {
						t.Errorf("%d watches were asked for meanwhile, want at most %d", asked, most)
					}
					w.wire.setAway(false)
					w.informers.wake()
					for range 3 { // a server that begins ends watches soon
						time.Sleep(100 * time.Millisecond)
						w.wire.silence(true)
					}
					w.server.Change(configMap(0), func(o apitest.Object) { o["data"] = apitest.Object{"written": "meanwhile"} })
					time.Sleep(2 * time.Second)
					if seen.Load() != "meanwhile" {
						t.Errorf("2 s later it has seen %q", seen.Load())
					}
					if now := w.wire.count("list"); now != lists {
						t.Errorf("it has listed %d times", now-lists)
					}
				})
			})
		})
	}
}

// TestATermWhoseCacheHearsNothingEndsWithAWord instead of working on what is old.
func TestATermWhoseCacheHearsNothingEndsWithAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.mustLead(t, doing("nothing", func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		w.serve(t)
		w.term(t, func() { time.Sleep(time.Minute) })
		w.wire.setAway(true)
		w.wire.silence(true)
		from := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := w.lead(ctx, election.Term{})
		if !errors.Is(err, errTerm) || !strings.Contains(err.Error(), "no watch of v1.ConfigMap was answered within 2m0s") || time.Since(from) != 2*time.Minute {
			t.Errorf("after %v: %v", time.Since(from), err)
		}
	})
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
			w.serve(t)
			if err := w.warmUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if lists := w.wire.count("list"); (lists == 1) != warm || len(reconciled) > 0 {
				t.Errorf("warm=%v: %d lists and %d reconciles before the first term", warm, lists, len(reconciled))
			}
			w.term(t, func() { <-reconciled })
			if lists := w.wire.count("list"); lists != 1 {
				t.Errorf("warm=%v: %d lists", warm, lists)
			}
		})
	}
}

// TestWhatCannotBeRepeatedIsRefused when Lead is called, with what to do.
func TestWhatCannotBeRepeatedIsRefused(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "refused_total"})
	w := newWorld(t, 0)
	events := source.Channel(make(chan event.GenericEvent), &handler.EnqueueRequestForObject{})
	named := func(m ctrl.Manager, name string) *builder.Builder {
		return ctrl.NewControllerManagedBy(m).Named(name)
	}
	nothing := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
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
		"was made outside of it": func(m ctrl.Manager) error {
			return named(m, "outside").WatchesRawSource(events).Complete(nothing)
		},
		"watches through a cache that is not that of the manager": func(m ctrl.Manager) error {
			return named(m, "cache").WatchesRawSource(source.Kind(w.GetCache(), &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})).Complete(nothing)
		},
		`is indexed by "f" twice`: func(m ctrl.Manager) error {
			index := func() error {
				return m.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "f", func(client.Object) []string { return nil })
			}
			return errors.Join(index(), index())
		},
		"pass its reconciler through Gate": func(m ctrl.Manager) error {
			return builder.TypedControllerManagedBy[string](m).Named("typed").
				WatchesRawSource(source.TypedFunc[string](func(context.Context, workqueue.TypedRateLimitingInterface[string]) error { return nil })).
				Complete(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }))
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

// TestTypedRequestsPassThroughAGate that their author makes.
func TestTypedRequestsPassThroughAGate(t *testing.T) {
	w := newWorld(t, 0)
	w.mustLead(t, func(m ctrl.Manager) error {
		return builder.TypedControllerManagedBy[string](m).Named("gated").
			WatchesRawSource(source.TypedFunc[string](func(context.Context, workqueue.TypedRateLimitingInterface[string]) error { return nil })).
			Complete(Gate(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil })))
	})
}

// TestTermsThatFailArePacedAndCounted: the fifth in a row ends Start.
func TestTermsThatFailArePacedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newElectedWorld(t)
		var terms []time.Time
		calls := 0
		w.mustLead(t, func(m ctrl.Manager) error {
			if calls++; calls <= 2 { // rehearsals
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
func newElectedWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, 1, func(o *ctrl.Options) { o.LeaderElection, o.LeaderElectionID = true, "op" })
}

// TestALastingManagerIsElectedForNoTerm: what waits for Elected would go on without leadership.
func TestALastingManagerIsElectedForNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newElectedWorld(t)
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
		if err := w.Start(ctx); err != nil {
			t.Error(err)
		}
	})
}
