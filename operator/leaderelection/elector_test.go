// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelection

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/doctest"
	"github.com/zonelect/zonelect/operator"
)

func TestEachGoroutineIsListed(t *testing.T) { doctest.CheckGoroutines(t) }

// The timing of client-go's defaults.
const (
	lease    = 15 * time.Second
	deadline = 10 * time.Second
	retry    = 2 * time.Second
)

// endless is longer than anybody waits.
const endless = 3 * time.Minute

// api is an API server in the memory of a test in virtual time.
type api struct {
	*apitest.Server
	*apitest.Pipes
}

// virtually runs f with an API server in virtual time.
func virtually(t *testing.T, f func(t *testing.T, a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &api{apitest.NewServer(), apitest.NewPipes()}
		s := &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
		go func() { _ = s.Serve(a) }()
		defer func() {
			_ = s.Close()
			a.Cut()
			time.Sleep(time.Minute)
		}()
		f(t, a)
	})
}

// replica is a program as client-go's documentation shows one.
type replica struct {
	*LeaderElector
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

// newReplica makes a replica whose work stops when it is told to.
func (a *api) newReplica(t *testing.T, identity string, change ...func(*LeaderElectionConfig)) *replica {
	t.Helper()
	r := &replica{times: map[string]time.Time{}}
	r.config = LeaderElectionConfig{
		Lock: lockOf(t, a.Config(), identity), LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: retry, ReleaseOnCancel: true,
		Callbacks: LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				r.noted("started")
				<-ctx.Done()
				r.noted("told")
			},
			OnStoppedLeading: func() { r.noted("stopped") },
		},
		Options: operator.Options{Config: a.Config(), Logger: logr.Discard(), Self: operator.SelfOptions{Zone: "za"}},
	}
	for _, f := range change {
		f(&r.config)
	}
	var err error
	if r.LeaderElector, err = NewLeaderElector(r.config); err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs it.
func (r *replica) start(t *testing.T) *replica {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
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

func (r *replica) ends(t *testing.T, want string) {
	t.Helper()
	if got := r.happened(); got != want {
		t.Errorf("%s: it happened: %s, want %s", r.lock.Identity(), got, want)
	}
}

func TestTheCallbacksAreThoseOfClientGo(t *testing.T) {
	virtually(t, func(t *testing.T, a *api) {
		one := a.newReplica(t, "one").start(t)
		other := a.newReplica(t, "other").start(t)
		time.Sleep(2 * endless)
		if !one.IsLeader() || other.IsLeader() || one.GetLeader() != "one" || other.GetLeader() != "one" {
			t.Errorf("one leads: %v, other leads: %v; it is said to be %q and %q", one.IsLeader(), other.IsLeader(), one.GetLeader(), other.GetLeader())
		}
		other.end()
		other.ends(t, "stopped, returned") // though it never led
		one.end()
		one.ends(t, "started, told, stopped, returned")
		if one.IsLeader() {
			t.Error("it leads when its context has ended")
		}
	})
}

func TestALockIsReleasedWhenTheWorkHasStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		change []func(*LeaderElectionConfig)
		least  time.Duration // after the end of its context
		most   time.Duration
	}{
		"work that stops":               {nil, 0, time.Second},
		"work that needs a moment":      {[]func(*LeaderElectionConfig){works(time.Second)}, time.Second, 2 * time.Second},
		"work that never stops":         {[]func(*LeaderElectionConfig){works(endless)}, retry, retry + time.Second},
		"work that is given more time":  {[]func(*LeaderElectionConfig){works(time.Minute), func(c *LeaderElectionConfig) { c.Options.Timing.StopTimeout = 2 * time.Minute }}, time.Minute, time.Minute + time.Second},
		"a callback that has returned":  {[]func(*LeaderElectionConfig){returns}, 0, time.Second},
		"nobody says when it may be so": {[]func(*LeaderElectionConfig){keeps}, lease - retry, lease + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, a *api) {
				one := a.newReplica(t, "one", tc.change...).start(t)
				next := a.newReplica(t, "next").start(t)
				time.Sleep(time.Minute)
				told := time.Now()
				one.end()
				time.Sleep(2 * endless)
				if took := next.when("started").Sub(told); took < tc.least || took > tc.most {
					t.Errorf("the next led after %v, want from %v to %v", took, tc.least, tc.most)
				}
				next.end()
			})
		})
	}
}

// TestTheLockIsReleasedBeforeOnStoppedLeading, in which many programs end. The API server takes its time.
func TestTheLockIsReleasedBeforeOnStoppedLeading(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Millisecond, untrusted, 777 * time.Millisecond} {
		virtually(t, func(t *testing.T, a *api) {
			a.Landing = func(*http.Request) bool { time.Sleep(late); return true }
			var one *replica
			holder := make(chan any, 1)
			one = a.newReplica(t, "one", func(c *LeaderElectionConfig) {
				c.Callbacks.OnStoppedLeading = func() {
					a.Mu.Lock()
					defer a.Mu.Unlock()
					holder <- a.Objects["/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"]["spec"].(map[string]any)["holderIdentity"]
				}
			}).start(t)
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
	for name, change := range map[string][]func(*LeaderElectionConfig){
		"work that stops": nil, "work that goes on": {works(endless)}, "a callback that has returned": {returns}, "without a release": {keeps},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, a *api) {
				one := a.newReplica(t, "one", change...).start(t)
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

// draining is a leader whose work stops for longer than a lease, and may.
func (a *api) draining(t *testing.T) *replica {
	t.Helper()
	one := a.newReplica(t, "one", works(endless), func(c *LeaderElectionConfig) { c.Options.Timing.StopTimeout = endless }).start(t)
	time.Sleep(time.Minute)
	one.end()
	time.Sleep(lease)
	return one
}

// TestALossWhileTheWorkStopsIsToldAtOnce: the work has more time than the lease.
func TestALossWhileTheWorkStopsIsToldAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T, a *api) {
		one := a.draining(t)
		one.ends(t, "started, told")
		if err := one.Check(0); err != nil {
			t.Errorf("while it drains: %v", err)
		}
		cut := time.Now()
		a.Cut()
		time.Sleep(lease)
		if took := one.when("stopped").Sub(cut); took < deadline-retry || took > deadline+untrusted {
			t.Errorf("OnStoppedLeading was called %v after the API was gone: %s", took, one.happened())
		}
		time.Sleep(2 * endless)
	})
}

// TestAnotherHolderIsSeenWhileTheWorkStops: somebody wrote the Lease by hand.
func TestAnotherHolderIsSeenWhileTheWorkStops(t *testing.T) {
	virtually(t, func(t *testing.T, a *api) {
		one := a.draining(t)
		taken := time.Now()
		a.Change("/apis/coordination.k8s.io/v1/namespaces/ns/leases/op", func(o apitest.Object) { o["spec"].(apitest.Object)["holderIdentity"] = "other" })
		time.Sleep(lease)
		if took := one.when("stopped").Sub(taken); took < 0 || took > 100*time.Millisecond {
			t.Errorf("OnStoppedLeading was called after %v: %s", took, one.happened())
		}
		time.Sleep(2 * endless)
	})
}

// TestRunMayBeCalledInOnStoppedLeading, as it may with client-go.
func TestRunMayBeCalledInOnStoppedLeading(t *testing.T) {
	virtually(t, func(t *testing.T, a *api) {
		var one *replica
		ctx, end := context.WithCancel(t.Context())
		again := sync.OnceFunc(func() { one.Run(ctx) })
		one = a.newReplica(t, "one", keeps, func(c *LeaderElectionConfig) {
			stopped := c.Callbacks.OnStoppedLeading
			c.Callbacks.OnStoppedLeading = func() {
				stopped()
				if strings.Count(one.happened(), "stopped") == 1 {
					again()
				}
			}
		}).start(t)
		time.Sleep(time.Minute)
		go func() { _ = one.current.Load().Resign(t.Context()) }()
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
		virtually(t, func(t *testing.T, a *api) {
			one := a.newReplica(t, "one", func(c *LeaderElectionConfig) {
				c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = seconds[0]*time.Second, seconds[1]*time.Second, seconds[2]*time.Second
			}).start(t)
			time.Sleep(endless)
			if !one.IsLeader() || strings.Count(one.happened(), "started") != 1 {
				t.Errorf("%v: %s", seconds, one.happened())
			}
			one.end()
			time.Sleep(endless)
		})
	}
}

// TestAHandoverReleasesOnlyWhatHasStopped: nobody has ended a context with the promise of client-go.
func TestAHandoverReleasesOnlyWhatHasStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		change []func(*LeaderElectionConfig)
		most   time.Duration
		least  time.Duration
	}{
		"work that stops":              {nil, time.Second, 0},
		"work that needs a moment":     {[]func(*LeaderElectionConfig){works(time.Second)}, 2 * time.Second, time.Second},
		"work that never stops":        {[]func(*LeaderElectionConfig){works(endless)}, lease + 2*retry, lease - retry},
		"a callback that has returned": {[]func(*LeaderElectionConfig){returns}, lease + 2*retry, lease - retry},
		"without a release":            {[]func(*LeaderElectionConfig){keeps}, lease + 2*retry, lease - retry},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, a *api) {
				one := a.newReplica(t, "one", tc.change...).start(t)
				next := a.newReplica(t, "next").start(t)
				time.Sleep(time.Minute)
				asked := time.Now()
				go func() { _ = one.current.Load().Resign(t.Context()) }()
				time.Sleep(time.Minute)
				if took := next.when("started").Sub(asked); took < tc.least || took > tc.most {
					t.Errorf("the next led after %v, want from %v to %v", took, tc.least, tc.most)
				}
				if stopped := one.when("stopped"); next.when("started").Before(one.when("told")) || stopped.Sub(asked) > retry+time.Second {
					t.Errorf("OnStoppedLeading was called after %v", stopped.Sub(asked))
				}
				if got := one.happened(); strings.Count(got, "started") != 1 || !strings.Contains(got, "returned") {
					t.Errorf("Run goes on: %s", got)
				}
				next.end()
				time.Sleep(time.Minute)
				if got := one.happened(); strings.Count(got, "started") != 1 || one.IsLeader() {
					t.Errorf("it campaigns when Run has returned: %s", got)
				}
				one.end()
				time.Sleep(2 * endless)
			})
		})
	}
}

// TestTheWorkOfALeaderElectorRunsOnceAtATime: client-go begins it again beside what is left of the former.
func TestTheWorkOfALeaderElectorRunsOnceAtATime(t *testing.T) {
	virtually(t, func(t *testing.T, a *api) {
		other := a.newReplica(t, "other").start(t)
		one := a.newReplica(t, "one", works(time.Minute)).start(t)
		ctx, endSecond := context.WithCancel(t.Context())
		go one.Run(ctx)
		time.Sleep(time.Minute)
		other.end()
		time.Sleep(time.Minute)
		one.ends(t, "started")
		one.end()
		time.Sleep(50 * time.Second)
		one.ends(t, "started, told, stopped, returned") // and the lock is released
		time.Sleep(time.Minute)
		one.ends(t, "started, told, stopped, returned, started")
		if !one.IsLeader() {
			t.Error("it does not lead")
		}
		endSecond()
		time.Sleep(2 * endless)
	})
}

func TestEventsGoToTheLocksRecorder(t *testing.T) {
	virtually(t, func(t *testing.T, a *api) {
		recorder := record.NewFakeRecorder(10)
		recorder.IncludeObject = true
		one := a.newReplica(t, "one", func(c *LeaderElectionConfig) {
			c.Lock.(*resourcelock.LeaseLock).LockConfig.EventRecorder = recorder
		}).start(t)
		time.Sleep(time.Minute)
		one.end()
		synctest.Wait()
		close(recorder.Events)
		var got []string
		for e := range recorder.Events {
			got = append(got, e)
		}
		if want := []string{"Normal LeaderElection one became leader", "Normal LeaderElection one stopped leading"}; len(got) != 2 || !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[1], want[1]) {
			t.Errorf("the events are %q", got)
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
	virtually(t, func(t *testing.T, a *api) {
		dog := NewLeaderHealthzAdaptor(20 * time.Second)
		check := func(want bool) {
			t.Helper()
			synctest.Wait()
			if err := dog.Check(nil); (err == nil) != want {
				t.Errorf("it is healthy: %v, want %v: %v", err == nil, want, err)
			}
		}
		check(true) // nobody has said what it checks
		one := a.newReplica(t, "one", works(time.Minute))
		dog.SetLeaderElection(one.LeaderElector)
		check(true)
		one.start(t)
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
	virtually(t, func(t *testing.T, a *api) {
		dog := NewLeaderHealthzAdaptor(0)
		r := a.newReplica(t, "one", func(c *LeaderElectionConfig) { c.WatchDog = dog })
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, end)
		RunOrDie(ctx, r.config)
		r.ends(t, "started, told, stopped")
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

func TestAConfigThatCannotBeUsedIsRefusedWithWhatToDo(t *testing.T) {
	a := &api{}
	foreign := lockOf(t, &rest.Config{Host: "https://elsewhere:6443"}, "one")
	beside := lockOf(t, &rest.Config{Host: "http://127.0.0.1:80/beside"}, "one") // another cluster behind one address
	for want, change := range map[string]func(c *LeaderElectionConfig, lock *resourcelock.LeaseLock){
		"Lock is nil":                      func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Lock = nil },
		"use a *resourcelock.LeaseLock":    func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Lock = other{} },
		"has no Name":                      func(_ *LeaderElectionConfig, lock *resourcelock.LeaseLock) { lock.LeaseMeta.Name = "" },
		"has no Namespace":                 func(_ *LeaderElectionConfig, lock *resourcelock.LeaseLock) { lock.LeaseMeta.Namespace = "" },
		"has no Identity":                  func(_ *LeaderElectionConfig, lock *resourcelock.LeaseLock) { lock.LockConfig.Identity = "" },
		"must be positive":                 func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.RetryPeriod = 0 },
		"LeaseDuration":                    func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.LeaseDuration = c.RenewDeadline },
		"OnStartedLeading is nil":          func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Callbacks.OnStartedLeading = nil },
		"OnStoppedLeading is nil":          func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Callbacks.OnStoppedLeading = nil },
		"Coordinated is set":               func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Coordinated = true },
		"Options name a lock":              func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Options.Name = "op" },
		"end the process in Callbacks.OnS": func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Options.ExitOnOverrun = true },
		"belongs to http://127.0.0.1:80/b": func(_ *LeaderElectionConfig, lock *resourcelock.LeaseLock) { lock.Client = beside.Client },
		"Callbacks.OnNewLeader is":         func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Options.OnNewLeader = func(string) {} },
		"given in Options.Timing, too":     func(c *LeaderElectionConfig, _ *resourcelock.LeaseLock) { c.Options.Timing.LeaseDuration = lease },
		"set Options.Disabled in tests": func(_ *LeaderElectionConfig, lock *resourcelock.LeaseLock) {
			lock.Client = fake.NewClientset().CoordinationV1()
		},
		"belongs to https://elsewhere:644": func(_ *LeaderElectionConfig, lock *resourcelock.LeaseLock) { lock.Client = foreign.Client },
	} {
		lock := lockOf(t, a.Config(), "one")
		c := LeaderElectionConfig{
			Lock: lock, LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: retry,
			Callbacks: LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
			Options:   operator.Options{Config: a.Config()},
		}
		if _, err := NewLeaderElector(c); err != nil {
			t.Fatal(err)
		}
		change(&c, lock)
		if _, err := NewLeaderElector(c); !errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

// other is a lock that is none of client-go's.
type other struct{ resourcelock.Interface }

var given = flag.String("kubeconfig", "", "as client-go's examples have it")

// TestTheConfigIsFoundAsThePrograms: client-go's examples have a flag for it.
func TestTheConfigIsFoundAsThePrograms(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := func(name, server string) string {
		path := filepath.Join(dir, name)
		text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '" + server + "'}}]}"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flagged, named := kubeconfig("flag", "https://flag:6443"), kubeconfig("env", "https://env:6443")
	t.Setenv("KUBECONFIG", named)
	findFor := func(lock resourcelock.Interface) error {
		c := LeaderElectionConfig{
			Lock: lock, LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: retry,
			Callbacks: LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		}
		_, err := NewLeaderElector(c)
		return err
	}
	find := func(server string) error { return findFor(lockOf(t, &rest.Config{Host: server}, "one")) }
	if err := find("https://env:6443"); err != nil {
		t.Error(err)
	}
	defer func() { *given = "" }()
	if err := find("https://env:6443"); err != nil {
		t.Errorf("with a flag that is not given: %v", err)
	}
	timed, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, "ns", "op", resourcelock.ResourceLockConfig{Identity: "one"}, &rest.Config{Host: "https://env:6443"}, deadline)
	if err != nil {
		t.Fatal(err)
	}
	if err := findFor(timed); err != nil {
		t.Errorf("with a client that has a timeout: %v", err)
	}
	*given = flagged
	if err := find("https://flag:6443"); err != nil {
		t.Error(err)
	}
	if err := find("https://env:6443"); !errors.Is(err, ErrConfig) {
		t.Errorf("the other cluster's lock: %v", err)
	}
	*given = filepath.Join(dir, "missing")
	if err := find("https://env:6443"); !errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), "missing") {
		t.Errorf("a file that is missing: %v", err)
	}
}

// TestATestNeedsNoServer: programs are tested with a fake client.
func TestATestNeedsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := lockOf(t, &rest.Config{}, "one")
		lock.Client = fake.NewClientset().CoordinationV1()
		ctx, end := context.WithCancel(t.Context())
		led := false
		RunOrDie(ctx, LeaderElectionConfig{
			Lock: lock, LeaseDuration: lease, RenewDeadline: deadline, RetryPeriod: retry,
			Callbacks: LeaderCallbacks{OnStartedLeading: func(context.Context) { led = true; end() }, OnStoppedLeading: func() {}},
			Options:   operator.Options{Disabled: true, Logger: logr.Discard()},
		})
		if !led {
			t.Error("it has not led")
		}
	})
}
