// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelection

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// The timing of client-go's defaults.
const (
	lease    = 15 * time.Second
	deadline = 10 * time.Second
	retry    = 2 * time.Second
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"

// endless is longer than anybody waits.
const endless = 3 * time.Minute

// api is an API server in the memory of a test in virtual time.
type api struct {
	*apitest.Server
	*apitest.Pipes
	t *testing.T
}

// virtually runs f with an API server in virtual time.
func virtually(t *testing.T, f func(a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &api{apitest.NewServer(), apitest.NewPipes(), t}
		s := &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
		go func() { _ = s.Serve(a) }()
		defer func() {
			_ = s.Close()
			a.Cut()
			time.Sleep(time.Minute)
		}()
		f(a)
	})
}

// replica is a program as client-go's documentation shows one.
type replica struct {
	*LeaderElector
	t      *testing.T
	config LeaderElectionConfig
	end    context.CancelFunc

	mu    sync.Mutex
	lines []string // what happened
	times map[string]time.Time
}

// noted notes that something happened.
func (r *replica) noted(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, what)
	r.times[what] = time.Now()
}

// happened returns what happened, after everything that happens at this moment has.
func (r *replica) happened() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, ", ")
}

// when returns when something happened last; zero if it has not.
func (r *replica) when(what string) time.Time {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[what]
}

func lockOf(t *testing.T, cfg *rest.Config, identity string) *resourcelock.LeaseLock {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "op", Namespace: "ns"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// configOf is the least that a program says.
func configOf(lock resourcelock.Interface, o operator.Options) LeaderElectionConfig {
	return LeaderElectionConfig{
		Lock: lock, LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: retry,
		Callbacks: LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		Options:   o,
	}
}

// newReplica makes a replica whose work stops when it is told to.
func (a *api) newReplica(identity string, change ...func(*LeaderElectionConfig)) *replica {
	a.t.Helper()
	r := &replica{t: a.t, times: map[string]time.Time{}}
	r.config = configOf(lockOf(a.t, a.Config(), identity), operator.Options{
		Config: a.Config(), Logger: logr.Discard(), Self: operator.SelfOptions{Zone: "za"},
	})
	r.config.ReleaseOnCancel = true
	r.config.Callbacks.OnStartedLeading = func(ctx context.Context) {
		r.noted("started")
		<-ctx.Done()
		r.noted("told")
	}
	r.config.Callbacks.OnStoppedLeading = func() { r.noted("stopped") }
	for _, f := range change {
		f(&r.config)
	}
	var err error
	if r.LeaderElector, err = NewLeaderElector(r.config); err != nil {
		a.t.Fatal(err)
	}
	return r
}

// start runs it.
func (r *replica) start() *replica {
	ctx, end := context.WithCancel(r.t.Context())
	r.end = end
	go func() {
		r.Run(ctx)
		r.noted("returned")
	}()
	synctest.Wait()
	return r
}

// works has the work of a replica take so long to stop.
func works(takes time.Duration) func(*LeaderElectionConfig) {
	return func(c *LeaderElectionConfig) {
		started := c.Callbacks.OnStartedLeading
		c.Callbacks.OnStartedLeading = func(ctx context.Context) {
			started(ctx)
			time.Sleep(takes)
		}
	}
}

// returns has OnStartedLeading return at once, and the work go on elsewhere.
func returns(c *LeaderElectionConfig) {
	started := c.Callbacks.OnStartedLeading
	c.Callbacks.OnStartedLeading = func(ctx context.Context) { go started(ctx) }
}

func keeps(c *LeaderElectionConfig) { c.ReleaseOnCancel = false }

// stops has work that stops when it is told to.
func stops(*LeaderElectionConfig) {}

func (r *replica) ends(want string) {
	r.t.Helper()
	if got := r.happened(); got != want {
		r.t.Errorf("%s: it happened: %s, want %s", r.lock.Identity(), got, want)
	}
}

func TestTheCallbacksAreThoseOfClientGo(t *testing.T) {
	virtually(t, func(a *api) {
		one := a.newReplica("one").start()
		other := a.newReplica("other").start()
		time.Sleep(2 * endless)
		if !one.IsLeader() || other.IsLeader() || one.GetLeader() != "one" || other.GetLeader() != "one" {
			t.Errorf("one leads: %v, other leads: %v", one.IsLeader(), other.IsLeader())
		}
		other.end()
		other.ends("stopped, returned") // though it never led
		one.end()
		one.ends("started, told, stopped, returned")
		if one.IsLeader() {
			t.Error("it leads when its context has ended")
		}
	})
}

// TestTheLockIsReleasedBeforeOnStoppedLeading, in which many programs end. The API server takes its time.
func TestTheLockIsReleasedBeforeOnStoppedLeading(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Millisecond, untrusted, 777 * time.Millisecond} {
		virtually(t, func(a *api) {
			a.Landing = func(*http.Request) bool { time.Sleep(late); return true }
			var one *replica
			holder := make(chan any, 1)
			one = a.newReplica("one", func(c *LeaderElectionConfig) {
				c.Callbacks.OnStoppedLeading = func() {
					a.Mu.Lock()
					defer a.Mu.Unlock()
					holder <- a.Objects[leasePath]["spec"].(map[string]any)["holderIdentity"]
				}
			}).start()
			time.Sleep(time.Minute)
			one.end()
			if got := <-holder; got != nil && got != "" {
				t.Errorf("writes take %v: the lock was held by %v", late, got)
			}
			time.Sleep(endless)
		})
	}
}

// TestALossIsToldAtOnce: many programs end in OnStoppedLeading, and others may lead soon.
func TestALossIsToldAtOnce(t *testing.T) {
	for name, change := range map[string]func(*LeaderElectionConfig){
		"work that stops": stops, "work that goes on": works(endless), "a callback that has returned": returns, "without a release": keeps,
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(a *api) {
				one := a.newReplica("one", change).start()
				time.Sleep(time.Minute)
				cut := time.Now()
				a.Cut()
				time.Sleep(lease)
				stopped := one.when("stopped")
				if took := stopped.Sub(cut); took < deadline-retry || took > deadline {
					t.Errorf("OnStoppedLeading was called %v after the API was gone", took)
				}
				if told := one.when("told"); !told.Equal(stopped) {
					t.Errorf("the work was told %v before OnStoppedLeading", stopped.Sub(told))
				}
				if one.IsLeader() || !one.when("returned").Equal(stopped) {
					t.Errorf("it leads: %v, and Run returned %v later", one.IsLeader(), one.when("returned").Sub(stopped))
				}
				time.Sleep(2 * endless)
			})
		})
	}
}

// TestALossWhileTheWorkStopsIsToldAtOnce: the work has more time than the lease.
func TestALossWhileTheWorkStopsIsToldAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		happens     func(*api)
		least, most time.Duration
	}{
		"the API is gone": {func(a *api) { a.Cut() }, deadline - retry, deadline + untrusted},
		"another holder, written by hand": {func(a *api) {
			a.Change(leasePath, func(o apitest.Object) { o["spec"].(apitest.Object)["holderIdentity"] = "other" })
		}, 0, 2 * untrusted},
	} {
		virtually(t, func(a *api) {
			one := a.newReplica("one", works(endless), func(c *LeaderElectionConfig) { c.Options.Timing.StopTimeout = endless }).start()
			time.Sleep(time.Minute)
			one.end()
			time.Sleep(lease)
			one.ends("started, told")
			if err := one.Check(0); err != nil {
				t.Errorf("while it drains: %v", err)
			}
			lost := time.Now()
			tc.happens(a)
			time.Sleep(lease)
			if took := one.when("stopped").Sub(lost); took < tc.least || took > tc.most {
				t.Errorf("%s: OnStoppedLeading was called after %v: %s", name, took, one.happened())
			}
			time.Sleep(2 * endless)
		})
	}
}

// TestRunMayBeCalledInOnStoppedLeading, as it may with client-go.
func TestRunMayBeCalledInOnStoppedLeading(t *testing.T) {
	virtually(t, func(a *api) {
		var one *replica
		ctx, end := context.WithCancel(a.t.Context())
		again := sync.OnceFunc(func() { one.Run(ctx) })
		one = a.newReplica("one", keeps, func(c *LeaderElectionConfig) {
			stopped := c.Callbacks.OnStoppedLeading
			c.Callbacks.OnStoppedLeading = func() {
				stopped()
				if strings.Count(one.happened(), "stopped") == 1 {
					again()
				}
			}
		}).start()
		time.Sleep(time.Minute)
		go func() { _ = one.current.Load().Resign(a.t.Context()) }()
		time.Sleep(time.Minute)
		if got := strings.Count(one.happened(), "started"); got != 2 || !one.IsLeader() {
			t.Errorf("its work began %d times: %s", got, one.happened())
		}
		end()
		time.Sleep(2 * endless)
	})
}

// TestAnyTimingOfClientGoInWholeSecondsIsTaken: it asks for a RenewDeadline of 1.2 times the RetryPeriod.
func TestAnyTimingOfClientGoInWholeSecondsIsTaken(t *testing.T) {
	for _, seconds := range [][3]time.Duration{{10, 5, 3}, {5, 3, 2}, {30, 15, 10}, {60, 15, 5}, {137, 107, 26}, {15, 10, 2}} {
		virtually(t, func(a *api) {
			one := a.newReplica("one", func(c *LeaderElectionConfig) {
				c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = seconds[0]*time.Second, seconds[1]*time.Second, seconds[2]*time.Second
			}).start()
			time.Sleep(endless)
			if !one.IsLeader() || strings.Count(one.happened(), "started") != 1 {
				t.Errorf("%v: %s", seconds, one.happened())
			}
			one.end()
			time.Sleep(endless)
		})
	}
}

// TestAHandoverReleasesOnlyWhatHasStopped: nobody has ended a context with the promise of client-go. The end of
// Run's context is that promise.
func TestAHandoverReleasesOnlyWhatHasStopped(t *testing.T) {
	type span struct{ least, most time.Duration }
	expiry := span{lease - retry, lease + 2*retry}
	for name, tc := range map[string]struct {
		change           func(*LeaderElectionConfig)
		canceled, handed span // how long the next waits
	}{
		"work that stops":          {stops, span{0, time.Second}, span{0, time.Second}},
		"work that needs a moment": {works(time.Second), span{time.Second, 2 * time.Second}, span{time.Second, 2 * time.Second}},
		"work that never stops":    {works(endless), span{retry, retry + time.Second}, expiry},
		"work that is given more time": {func(c *LeaderElectionConfig) {
			works(time.Minute)(c)
			c.Options.Timing.StopTimeout = 2 * time.Minute
		}, span{time.Minute, time.Minute + time.Second}, span{time.Minute, time.Minute + time.Second}},
		"a callback that has returned": {returns, span{0, time.Second}, expiry},
		"without a release":            {keeps, expiry, expiry},
	} {
		for how, want := range map[string]span{"canceled": tc.canceled, "handed over": tc.handed} {
			t.Run(name+", "+how, func(t *testing.T) {
				virtually(t, func(a *api) {
					one := a.newReplica("one", tc.change).start()
					next := a.newReplica("next").start()
					time.Sleep(time.Minute)
					asked := time.Now()
					if how == "canceled" {
						one.end()
					} else {
						go func() { _ = one.current.Load().Resign(a.t.Context()) }()
					}
					time.Sleep(2 * time.Minute)
					if took := next.when("started").Sub(asked); took < want.least || took > want.most {
						t.Errorf("the next led after %v, want from %v to %v", took, want.least, want.most)
					}
					took := one.when("stopped").Sub(asked)
					if next.when("started").Before(one.when("told")) || took > one.config.patience()+time.Second {
						t.Errorf("OnStoppedLeading was called after %v", took)
					}
					next.end()
					time.Sleep(time.Minute)
					if got := one.happened(); strings.Count(got, "started") != 1 || !strings.Contains(got, "returned") || one.IsLeader() {
						t.Errorf("it campaigns when Run has returned: %s", got)
					}
					one.end()
					time.Sleep(2 * endless)
				})
			})
		}
	}
}

// TestTheWorkOfALeaderElectorRunsOnceAtATime: client-go begins it again beside what is left of the former.
func TestTheWorkOfALeaderElectorRunsOnceAtATime(t *testing.T) {
	virtually(t, func(a *api) {
		other := a.newReplica("other").start()
		var leaders []string
		one := a.newReplica("one", works(time.Minute), func(c *LeaderElectionConfig) {
			c.Callbacks.OnNewLeader = func(identity string) { leaders = append(leaders, identity) }
		}).start()
		ctx, endSecond := context.WithCancel(a.t.Context())
		go one.Run(ctx)
		time.Sleep(time.Minute)
		other.end()
		time.Sleep(time.Minute)
		one.ends("started")
		if !slices.Equal(leaders, []string{"other", "one"}) {
			t.Errorf("told of the leaders %q", leaders)
		}
		one.end()
		time.Sleep(50 * time.Second)
		one.ends("started, told, stopped, returned") // and the lock is released
		time.Sleep(time.Minute)
		one.ends("started, told, stopped, returned, started")
		if !one.IsLeader() {
			t.Error("it does not lead")
		}
		endSecond()
		time.Sleep(2 * endless)
	})
}

func TestEventsGoToTheLocksRecorder(t *testing.T) {
	virtually(t, func(a *api) {
		recorder := record.NewFakeRecorder(10)
		recorder.IncludeObject = true
		one := a.newReplica("one", func(c *LeaderElectionConfig) {
			c.Lock.(*resourcelock.LeaseLock).LockConfig.EventRecorder = recorder
		}).start()
		time.Sleep(time.Minute)
		one.end()
		synctest.Wait()
		close(recorder.Events)
		for _, want := range []string{"Normal LeaderElection one became leader", "Normal LeaderElection one stopped leading", ""} {
			if got := <-recorder.Events; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("the event is %q, want %q", got, want)
			}
		}
		a.Mu.Lock()
		defer a.Mu.Unlock()
		for path := range a.Objects {
			if strings.Contains(path, "/events/") {
				t.Errorf("%s was posted", path)
			}
		}
	})
}

func TestWorkThatOutlivesItsLeadershipFailsTheCheck(t *testing.T) {
	virtually(t, func(a *api) {
		dog := NewLeaderHealthzAdaptor(20 * time.Second)
		check := func(want bool) {
			t.Helper()
			synctest.Wait()
			if err := dog.Check(nil); (err == nil) != want {
				t.Errorf("it is healthy: %v, want %v: %v", err == nil, want, err)
			}
		}
		check(true) // nobody has said what it checks
		one := a.newReplica("one", works(time.Minute))
		dog.SetLeaderElection(one.LeaderElector)
		check(true)
		one.start()
		time.Sleep(time.Minute)
		check(true)
		a.Cut() // an outage is no reason to end
		time.Sleep(deadline)
		check(true)
		time.Sleep(lease - deadline + 19*time.Second)
		check(true)
		time.Sleep(3 * time.Second)
		check(false)
		time.Sleep(time.Minute)
		check(true) // it has stopped
	})
	if name := NewLeaderHealthzAdaptor(0).Name(); name != "leaderElection" {
		t.Errorf("it is called %q", name)
	}
}

func TestRunOrDieTellsTheWatchDogAndDies(t *testing.T) {
	virtually(t, func(a *api) {
		dog := NewLeaderHealthzAdaptor(0)
		r := a.newReplica("one", func(c *LeaderElectionConfig) { c.WatchDog = dog })
		ctx, end := context.WithCancel(a.t.Context())
		time.AfterFunc(time.Minute, end)
		RunOrDie(ctx, r.config)
		r.ends("started, told, stopped")
		if dog.elector.Load() == nil {
			t.Error("nobody told the watch dog")
		}
		defer func() {
			if err, died := recover().(error); !died || !errors.Is(err, ErrConfig) {
				t.Errorf("it died of %v", err)
			}
		}()
		r.config.Coordinated = true
		RunOrDie(ctx, r.config)
	})
}
