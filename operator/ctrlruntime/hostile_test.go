// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// fakeAPI is what an informer lists and watches by.
type fakeAPI struct {
	list   func(context.Context, metav1.ListOptions) (k8sruntime.Object, error)
	watch  func(context.Context, metav1.ListOptions) (watch.Interface, error)
	stream bool // watch-list
}

func (f *fakeAPI) IsWatchListSemanticsUnSupported() bool { return !f.stream }
func (f *fakeAPI) List(o metav1.ListOptions) (k8sruntime.Object, error) {
	return f.list(context.Background(), o)
}
func (f *fakeAPI) ListWithContext(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
	return f.list(ctx, o)
}
func (f *fakeAPI) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return f.watch(context.Background(), o)
}
func (f *fakeAPI) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return f.watch(ctx, o)
}

// informer returns an informer on the API, among those of a lasting manager.
func (f *fakeAPI) informer(t *testing.T) (*informers, toolscache.SharedIndexInformer) {
	all := newInformers()
	all.log = logr.Discard()
	// Without a resync, client-go v0.34 waits for a channel that is not of the bubble.
	return all, all.maker(nil)(f, &corev1.ConfigMap{}, 10*time.Hour, toolscache.Indexers{})
}

// run runs an informer until the test ends, and waits until it has synced.
func run(t *testing.T, i toolscache.SharedIndexInformer) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); i.Run(ctx.Done()) }()
	t.Cleanup(func() { cancel(); <-done; time.Sleep(time.Minute) })
	toolscache.WaitForCacheSync(ctx.Done(), i.HasSynced)
}

// cm is a ConfigMap, and cms is a list, of which more is the continuation.
func cm(n, rv int, written string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n), Namespace: "ns", ResourceVersion: fmt.Sprint(rv)}, Data: map[string]string{"w": written}}
}

func cms(rv int, more string, items ...*corev1.ConfigMap) *corev1.ConfigMapList {
	l := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(rv), Continue: more}}
	for _, i := range items {
		l.Items = append(l.Items, *i)
	}
	return l
}

// chanWatch sends what feed sends until it is stopped.
type chanWatch struct {
	c    chan watch.Event
	done chan struct{}
	once sync.Once
}

func newChanWatch(feed func(*chanWatch)) *chanWatch {
	w := &chanWatch{c: make(chan watch.Event), done: make(chan struct{})}
	go func() {
		defer close(w.c)
		feed(w)
	}()
	return w
}

func (w *chanWatch) ResultChan() <-chan watch.Event { return w.c }
func (w *chanWatch) Stop()                          { w.once.Do(func() { close(w.done) }) }
func (w *chanWatch) idle()                          { <-w.done }

// send reports whether the watch goes on.
func (w *chanWatch) send(e watch.Event) bool {
	select {
	case w.c <- e:
		return true
	case <-w.done:
		return false
	}
}

// idle is a watch that shows nothing.
func idle() *chanWatch { return newChanWatch((*chanWatch).idle) }

// written is what an informer shows of the n-th ConfigMap.
func written(i toolscache.SharedIndexInformer, n int) string {
	o, is, _ := i.GetIndexer().GetByKey(fmt.Sprintf("ns/%d", n))
	if !is {
		return "-"
	}
	return o.(*corev1.ConfigMap).Data["w"]
}

// gone is the event by which a server says that it does not know a version any more.
func gone() watch.Event {
	e := apierrors.NewResourceExpired("too old")
	return watch.Event{Type: watch.Error, Object: &e.ErrStatus}
}

func TestTheCacheOfEachNamespaceHears(t *testing.T) {
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
		synctest.Wait()
		for range 2 {
			w.term(t, func() { time.Sleep(time.Minute) })
		}
		if n.Load() != 4 {
			t.Errorf("%d reconciles", n.Load())
		}
	})
}

func TestAnInformerListsAgainIfTheServerWillNeverHaveItsVersion(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint(stream), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				restored := atomic.Bool{}
				tooLarge := apierrors.NewTimeoutError("Too large resource version: 1000, current: 10", 1)
				tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
				check := func(o metav1.ListOptions) error {
					if rv, _ := strconv.Atoi(o.ResourceVersion); restored.Load() && rv > 10 {
						return tooLarge
					}
					return nil
				}
				state := func() (*corev1.ConfigMap, int) {
					if restored.Load() {
						return cm(0, 9, "restored"), 10
					}
					return cm(0, 999, "before"), 1000
				}
				kill := make(chan struct{})
				f := &fakeAPI{stream: stream, list: func(_ context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
					if err := check(o); err != nil {
						return nil, err
					}
					c, rv := state()
					return cms(rv, "", c), nil
				}}
				f.watch = func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if o.SendInitialEvents != nil {
						if err := check(o); err != nil {
							return nil, err
						}
					}
					return newChanWatch(func(w *chanWatch) {
						if o.SendInitialEvents != nil {
							c, rv := state()
							w.send(watch.Event{Type: watch.Added, Object: c})
							b := cm(0, rv, "")
							b.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
							w.send(watch.Event{Type: watch.Bookmark, Object: b})
						}
						select {
						case <-kill:
							w.send(gone())
						case <-w.done:
						}
					}), nil
				}
				_, i := f.informer(t)
				run(t, i)
				restored.Store(true)
				close(kill)
				time.Sleep(30 * time.Minute)
				if got := written(i, 0); got != "restored" {
					t.Errorf("half an hour after etcd was restored the cache has %q", got)
				}
			})
		})
	}
}

func TestAnEventThatCannotBeDecodedHasTheReflectorListAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists, watches, told atomic.Int64
		f := &fakeAPI{list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) {
			lists.Add(1)
			return cms(10, "", cm(0, 9, "")), nil
		}}
		f.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			watches.Add(1)
			return newChanWatch(func(w *chanWatch) {
				w.send(watch.Event{Type: watch.Error, Object: apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").AsObject(errors.New("unable to decode an event from the watch stream: json: cannot unmarshal"))})
			}), nil
		}
		_, i := f.informer(t)
		_ = i.SetWatchErrorHandler(func(*toolscache.Reflector, error) { told.Add(1) })
		run(t, i)
		time.Sleep(10 * time.Minute)
		if w := watches.Load(); w > 150 || lists.Load() < 5 {
			t.Errorf("%d watches in 10 minutes, %d lists, the handler was told %d times", w, lists.Load(), told.Load())
		}
	})
}

func TestAnAnswerThatCannotBeDecodedIsToldToTheWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		f := &fakeAPI{list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) {
			return nil, errors.New("json: cannot unmarshal string into Go struct field")
		}}
		f.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return idle(), nil }
		_, i := f.informer(t)
		_ = i.SetWatchErrorHandler(func(*toolscache.Reflector, error) { told.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		go i.Run(ctx.Done())
		time.Sleep(10 * time.Minute)
		if told.Load() == 0 {
			t.Error("the WatchErrorHandler of the cache's options was not told in 10 minutes")
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

func TestATermBeginsWithAllThatItsInformersHaveMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := atomic.Bool{}
		f := &fakeAPI{list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) {
			return cms(10, "", cm(0, 9, "")), nil
		}}
		f.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			if !behind.Load() {
				return idle(), nil
			}
			return newChanWatch(func(w *chanWatch) {
				for n := range 1000 {
					time.Sleep(time.Millisecond)
					if !w.send(watch.Event{Type: watch.Modified, Object: cm(0, 11+n, fmt.Sprint(n))}) {
						return
					}
				}
				w.idle()
			}), nil
		}
		all, i := f.informer(t)
		run(t, i)
		time.Sleep(time.Minute)
		behind.Store(true)
		if err := all.hear(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := written(i, 0); got != "999" {
			t.Errorf("the term's reconciles begin at event %q of 999 that were there before it", got)
		}
	})
}

func TestATermBeginsWhenTheStoreHasWhatWasListed(t *testing.T) {
	for what, pages := range map[string]int{"one page": 1, "three pages": 3} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := atomic.Bool{}
				f := &fakeAPI{}
				f.list = func(_ context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
					if !behind.Load() {
						return cms(10, "", cm(0, 9, "old"), cm(1, 9, "old"), cm(2, 9, "old")), nil
					}
					time.Sleep(time.Second)
					if pages == 1 {
						return cms(20, "", cm(0, 19, "new"), cm(1, 19, "new"), cm(2, 19, "new")), nil
					}
					if o.ResourceVersion != "" {
						e := apierrors.NewResourceExpired("no cache")
						if o.Continue == "" {
							return nil, e
						}
					}
					n, _ := strconv.Atoi(o.Continue)
					more := fmt.Sprint(n + 1)
					if n == 2 {
						more = ""
					}
					return cms(20, more, cm(n, 19, "new")), nil
				}
				f.watch = func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if behind.Load() && o.ResourceVersion == "10" {
						return newChanWatch(func(w *chanWatch) { w.send(gone()) }), nil
					}
					return idle(), nil
				}
				all, i := f.informer(t)
				run(t, i)
				time.Sleep(time.Minute)
				behind.Store(true)
				if err := all.hear(t.Context(), time.Minute); err != nil {
					t.Fatal(err)
				}
				if got := written(i, 2); got != "new" {
					t.Errorf("the term begins with %q", got)
				}
			})
		})
	}
}

// TestATermBeginsAfterAListThatTakesLong: the server streams it, and knows the old version no more.
func TestATermBeginsAfterAListThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := atomic.Bool{}
		state := func() (thing *corev1.ConfigMap, version int) {
			if behind.Load() {
				return cm(0, 19, "new"), 20
			}
			return cm(0, 9, "old"), 10
		}
		f := &fakeAPI{stream: true, list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) {
			thing, version := state()
			return cms(version, "", thing), nil
		}}
		f.watch = func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return newChanWatch(func(w *chanWatch) {
				switch {
				case o.SendInitialEvents != nil:
					if behind.Load() {
						time.Sleep(2 * busy)
					}
					thing, version := state()
					end := cm(0, version, "")
					end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
					w.send(watch.Event{Type: watch.Added, Object: thing})
					w.send(watch.Event{Type: watch.Bookmark, Object: end})
				case behind.Load() && o.ResourceVersion == "10":
					w.send(gone())
				}
				w.idle()
			}), nil
		}
		all, i := f.informer(t)
		run(t, i)
		time.Sleep(time.Minute)
		behind.Store(true)
		if err := all.hear(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := written(i, 0); got != "new" {
			t.Errorf("the term begins with %q", got)
		}
	})
}

func TestAWatchThatIsRenewedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) { return cms(10, ""), nil }}
		f.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.Filter(newChanWatch(func(w *chanWatch) {
				for rv := 11; w.send(watch.Event{Type: watch.Modified, Object: cm(0, rv, "")}); rv++ {
				}
			}), func(e watch.Event) (watch.Event, bool) { return e, true }), nil
		}
		all := newInformers()
		all.log = logr.Discard()
		var l *lister
		all.maker(func(from toolscache.ListerWatcher, o k8sruntime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
			l = from.(*lister)
			return toolscache.NewSharedIndexInformer(from, o, resync, by)
		})(f, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
		before := runtime.NumGoroutine()
		for range 100 { // a reflector that stores each event in a millisecond, and a term a second
			w, err := l.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				time.Sleep(time.Second)
				_ = all.hear(t.Context(), time.Minute)
			}()
			for range w.ResultChan() {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > before+5 {
			t.Fatalf("%d goroutines more after 100 terms", now-before)
		}
	})
}

func TestAnInformerThatNeverSyncsHoldsUpNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(o *ctrl.Options) {
			o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
				m := meta.NewDefaultRESTMapper(nil)
				m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
				m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
				return m, nil
			}
		})
		w.server.Before = func(verb, path string) (int, apitest.Object) {
			if strings.Contains(path, "secrets") {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		w.mustLead(t, doing("forbidden", func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		w.serve(t)
		synctest.Wait()
		w.term(t, func() { time.Sleep(time.Minute) })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := w.GetClient().Get(ctx, client.ObjectKey{Namespace: "ns", Name: "s"}, &corev1.Secret{}); err == nil {
			t.Fatal("no error")
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := w.lead(ctx, election.Term{}); err != nil {
			t.Error(err)
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
		synctest.Wait()
		for range 2 {
			w.term(t, func() { time.Sleep(time.Minute) })
		}
	})
}

func TestASourceOnAnInformerOfTheLastingManagerIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	i, err := w.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Lead(func(m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).Named("foreign").
			WatchesRawSource(&source.Informer{Informer: i, Handler: &handler.EnqueueRequestForObject{}}).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
	}); err == nil {
		t.Error("Lead accepts a source whose handlers stay when the term is over")
	}
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
		synctest.Wait()
		w.term(t, func() { time.Sleep(5 * time.Second) })
	})
}

func TestAWarmUpTakesNoEventFromAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warm := true
		w := newWorld(t, 0, func(o *ctrl.Options) { o.Controller.EnableWarmup = &warm })
		events := make(chan event.GenericEvent, 1)
		events <- event.GenericEvent{Object: cm(7, 1, "")}
		var n atomic.Int64
		w.mustLead(t, func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).Named("steals").
				WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
				Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
					n.Add(1)
					return reconcile.Result{}, nil
				}))
		})
		w.serve(t)
		synctest.Wait()
		if err := w.warmUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.term(t, func() { time.Sleep(time.Minute) })
		if n.Load() == 0 {
			t.Error("the event was lost in the warm-up")
		}
	})
}

func TestAnInformerThatWasRemovedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.serve(t)
		synctest.Wait()
		for range 100 {
			if _, err := w.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
				t.Fatal(err)
			}
			if err := w.GetCache().RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := len(w.informers.all); n > 2 {
			t.Errorf("%d informers that were removed are kept, with all that they had", n)
		}
	})
}

func TestTermsDoNotRestartAListThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeAPI{list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) { return cms(10, ""), nil }, stream: true}
		opened := 0
		f.watch = func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			opened++
			return newChanWatch(func(w *chanWatch) {
				if o.SendInitialEvents != nil {
					for n := range 100 {
						time.Sleep(100 * time.Millisecond)
						if !w.send(watch.Event{Type: watch.Added, Object: cm(n, n+1, "")}) {
							return
						}
					}
					b := cm(0, 200, "")
					b.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
					w.send(watch.Event{Type: watch.Bookmark, Object: b})
				}
				w.idle()
			}), nil
		}
		all, i := f.informer(t)
		ctx, cancel := context.WithCancel(t.Context())
		go i.Run(ctx.Done())
		for range 12 {
			next := time.Now().Add(5 * time.Second)
			_ = all.hear(t.Context(), 5*time.Second)
			time.Sleep(time.Until(next))
		}
		if !i.HasSynced() {
			t.Errorf("a list that takes 10 s has not come to an end in a minute: it was begun %d times", opened)
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

func TestStartReturnsSoonAfterItsContextHasEnded(t *testing.T) {
	for _, grace := range []time.Duration{-1, 30 * time.Second} {
		for what, at := range map[string]time.Duration{"at once": time.Millisecond, "warm-up": time.Second, "hear or running": 20 * time.Second, "running": time.Minute} {
			for _, away := range []bool{false, true} {
				t.Run(fmt.Sprint(what, away, grace), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						warm := true
						w := newWorld(t, 1, func(o *ctrl.Options) { o.Controller.EnableWarmup = &warm; o.GracefulShutdownTimeout = &grace })
						w.wire.setAway(away)
						calls := 0
						w.mustLead(t, func(m ctrl.Manager) error {
							if calls++; calls > 2 {
								time.Sleep(10 * time.Second)
							}
							return doing("down"+what+fmt.Sprint(away, grace), func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })(m)
						})
						ctx, cancel := context.WithTimeout(t.Context(), at)
						defer cancel()
						if err := w.Start(ctx); err != nil {
							t.Error(err)
						}
						<-ctx.Done()
						if over := time.Now(); true {
							d, _ := ctx.Deadline()
							if over.Sub(d) > 11*time.Second {
								t.Errorf("%v late", over.Sub(d))
							}
						}
						time.Sleep(time.Minute)
					})
				})
			}
		}
	}
}

// unhashable is as what AddEventHandler of a cache with DefaultNamespaces returns in controller-runtime
// v0.22.
type unhashable struct {
	toolscache.ResourceEventHandlerRegistration
	_ map[string]bool
}

func TestARegistrationThatIsNoKeyOfAMapIsKept(t *testing.T) {
	var h handlers
	if _, err := h.add(nil, func() (toolscache.ResourceEventHandlerRegistration, error) { return unhashable{}, nil }); err != nil {
		t.Error(err)
	}
}

func TestATermDoesNotWaitForAnInformerThatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := atomic.Bool{}
		f := &fakeAPI{list: func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) { return cms(10, ""), nil }}
		f.watch = func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			if behind.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return idle(), nil
		}
		all, i := f.informer(t)
		stop := make(chan struct{})
		go i.Run(stop)
		time.Sleep(time.Minute)
		behind.Store(true)
		go func() { time.Sleep(time.Second); close(stop) }()
		if err := all.hear(t.Context(), time.Minute); err != nil {
			t.Errorf("it was removed: %v", err)
		}
		time.Sleep(time.Minute)
	})
}
