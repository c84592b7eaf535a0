// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command measure prints what an election costs on a real control plane, beside client-go's elector, as three
// tables: how soon the next leads when the leader stops in good order, how soon after its lease when it is killed,
// and how many requests are sent while nothing happens. make demo REAL=1 measures the loss of a zone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

var (
	stops = flag.Int("stops", 300, "leaders of each kind to stop")
	kills = flag.Int("kills", 200, "leaders of each kind to kill")
	idles = flag.Duration("idle", 5*time.Minute, "for how long to count requests")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context) error {
	b, err := testbed.Start(ctx, testbed.Config{
		Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true, Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer b.Close()
	cfg := b.Cluster.RESTConfig("za")
	o, err := observe(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Printf("Measured on %s/%s with %d CPUs, 15/10/2.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	return errors.Join(
		spread(ctx, cfg, "SIGTERM: the next leads after", *stops, (*contest).stop),
		spread(ctx, cfg, "an unseen kill: the next leads after the lease's end", *kills, o.killed),
		idle(ctx, cfg),
	)
}

// A measurement is one of something that goes on between measurements.
type measurement func(*contest) (time.Duration, error)

// spread takes that many measurements of each kind, in contests of three for locks of their own, and prints their
// table. One kind follows the other: together they keep two cores busy. An error says that zonelect is no better.
func spread(ctx context.Context, cfg *rest.Config, what string, rounds int, one measurement) error {
	if rounds == 0 {
		return nil
	}
	fmt.Printf("\n| %s | 50 %% | 99 %% | worst | runs |\n|---|---|---|---|---|\n", what)
	medians := map[string]time.Duration{}
	for _, kind := range []struct {
		name string
		of   kind
	}{{"zonelect", zonelect}, {"client-go", clientGo}} {
		all, err := inParallel(ctx, cfg, kind.of, kind.name, rounds, one)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", what, kind.name, err)
		}
		slices.Sort(all)
		at := func(p float64) time.Duration {
			return all[max(0, int(math.Ceil(p*float64(len(all))))-1)].Round(100 * time.Microsecond)
		}
		fmt.Printf("| %s | %v | %v | %v | %d |\n", kind.name, at(0.5), at(0.99), at(1), len(all))
		medians[kind.name] = at(0.5)
	}
	if medians["zonelect"] >= medians["client-go"] {
		return fmt.Errorf("%s: zonelect is no sooner than client-go: %v", what, medians)
	}
	return nil
}

// inParallel measures in several contests at once.
func inParallel(ctx context.Context, cfg *rest.Config, k kind, name string, rounds int, one measurement) ([]time.Duration, error) {
	const locks = 25 // each round takes seconds of waiting
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var taken []time.Duration
	run := rand.Uint32()
	for i := range locks {
		wait.Go(func() {
			own, stop := context.WithCancel(ctx)
			c, err := newContest(own, cfg, k, fmt.Sprint(name, "-", run, "-", i), 3)
			defer func() { stop(); c.all.Wait() }()
			for n := i; n < rounds && err == nil; n += locks {
				var took time.Duration
				if err = c.settle(); err == nil {
					took, err = one(c)
				}
				mu.Lock()
				taken = append(taken, took)
				mu.Unlock()
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	wait.Wait()
	return taken, context.Cause(ctx)
}

// pause waits for some time between two renewals.
func (c *contest) pause() error {
	return sleep.For(c.ctx, timing.DefaultRenewInterval+rand.N(timing.DefaultRenewInterval))
}

// stop stops the leader, and returns how long after that the next one's work began.
func (c *contest) stop() (time.Duration, error) {
	if err := c.pause(); err != nil {
		return 0, err
	}
	old, start := c.leader, time.Now()
	old.stop()
	next, err := c.succeed()
	if err != nil {
		return 0, err
	}
	<-old.done
	return next.at.Sub(start), old.err
}

// killed cuts the leader off, and returns how long after the end of its lease the next one's work began.
func (o *observer) killed(c *contest) (time.Duration, error) {
	if err := c.pause(); err != nil {
		return 0, err
	}
	dead := c.leader
	dead.wire.cut.Store(true)
	defer dead.stop() // or it would go on campaigning, in vain
	next, err := c.succeed()
	if err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return next.at.Sub(o.seen[dead.identity].Add(timing.DefaultLeaseDuration)), nil
}

// observer notes when it saw the last write of each holder of any Lease.
type observer struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func observe(ctx context.Context, cfg *rest.Config) (*observer, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	watch, err := client.CoordinationV1().Leases("default").Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(24 * 60 * 60))})
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	o := &observer{seen: map[string]time.Time{}}
	go func() {
		for event := range watch.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok && lease.Spec.HolderIdentity != nil {
				o.mu.Lock()
				o.seen[*lease.Spec.HolderIdentity] = time.Now()
				o.mu.Unlock()
			}
		}
	}()
	return o, nil
}

// idle counts the requests of a leader and of its follower while nothing happens, and prints their table. An error
// says that zonelect's are more than its renewals and its watches, which last five minutes at least.
func idle(ctx context.Context, cfg *rest.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	fmt.Printf("\n| requests in %v without an event | PUTs of the leader | its others | its follower's |\n|---|---|---|---|\n", *idles)
	var contests []*contest
	defer func() {
		cancel()
		for _, c := range contests {
			c.all.Wait()
		}
	}()
	for i, k := range []kind{attending, clientGo} {
		c, err := newContest(ctx, cfg, k, fmt.Sprint("idle-", i), 2)
		contests = append(contests, c)
		if err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
	}
	if err := sleep.For(ctx, time.Second); err != nil { // for the requests after a term's beginning
		return err
	}
	for _, c := range contests {
		for _, s := range c.seats {
			s.wire.puts.Store(0)
			s.wire.others.Store(0)
		}
	}
	if err := sleep.For(ctx, *idles); err != nil {
		return err
	}
	var err error
	for i, c := range contests {
		var puts, others, follower int64
		for _, s := range c.seats {
			if s == c.leader {
				puts, others = s.wire.puts.Load(), s.wire.others.Load()
			} else {
				follower = s.wire.puts.Load() + s.wire.others.Load()
			}
		}
		fmt.Printf("| %s | %d | %d | %d |\n", [...]string{"zonelect", "client-go"}[i], puts, others, follower)
		if most := int64(*idles/timing.DefaultRenewInterval) + 1; i == 0 && (puts > most || others > 2 || follower > 3) {
			err = fmt.Errorf("zonelect sends too much: want at most %d, 2 and 3", most)
		}
	}
	return err
}
