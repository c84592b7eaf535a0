// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/history"
)

// elect runs one candidate until ctx ends. It calls lead for each term, with a
// context that ends with the term.
type elect func(ctx context.Context, cfg *rest.Config, timing election.Timing, namespace, lock, identity string, lead func(context.Context)) error

// The electors that are measured.
var (
	kinds = []string{"zonelect", "client-go", "client-go, no timeout"}
	by    = map[string]elect{"zonelect": zonelect, "client-go": clientGo(2), "client-go, no timeout": clientGo(0)}
)

// zonelect is a program as README's, outside of a pod.
func zonelect(ctx context.Context, cfg *rest.Config, timing election.Timing, namespace, name, identity string, lead func(context.Context)) error {
	return operator.Run(ctx, name, func(ctx context.Context, _ election.Term) error {
		lead(ctx)
		return nil
	}, operator.Options{
		Config: cfg, Timing: timing, Namespace: namespace, Self: operator.SelfOptions{Identity: identity},
		Logger: logr.FromSlogHandler(slog.DiscardHandler),
	})
}

// clientGo is a program with client-go's elector, that gives a request a part of the
// RenewDeadline: half of it with controller-runtime. Zero is for no limit.
func clientGo(part time.Duration) elect {
	return func(ctx context.Context, cfg *rest.Config, timing election.Timing, namespace, name, identity string, lead func(context.Context)) error {
		if part > 0 {
			cfg.Timeout = timing.RenewDeadline / part
		}
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
					Client:     client.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
				},
				LeaseDuration: timing.LeaseDuration, RenewDeadline: timing.RenewDeadline, RetryPeriod: timing.RenewInterval,
				ReleaseOnCancel: true,
				Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
			})
			if err != nil {
				return err
			}
			e.Run(ctx)
		}
		return nil
	}
}

// row is one line of the table.
type row struct {
	weather
	Kind        string
	Timing      election.Timing
	Share       float64       // of the time, with a leader, from the start of the candidates
	Since       float64       // the same from the first term
	First       time.Duration // when that began; the whole time if there was none
	Losses      int           // terms that ended
	Overlap     time.Duration
	Connections float64 // per minute and candidate
	Requests    float64 // per minute and candidate
}

// candidates is how many compete for each lock.
const candidates = 2

// tryOut lets candidates of one kind compete for a lock for span, and measures them from their
// start. begin starts the weather.
func tryOut(elect elect, cfg *rest.Config, w weather, timing election.Timing, namespace, name string, span time.Duration) (row, error) {
	ctx, stop := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop()
	r, c := &history.Recorder{}, &counts{}
	errs := make(chan error, candidates)
	start := time.Now()
	way := w.from(start).way
	for i := range candidates {
		mine := rest.CopyConfig(cfg)
		mine.Dial = way.Dial(cfg.Dial, func() { c.add(0, 1) })
		mine.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				c.add(1, 0)
				return next.RoundTrip(req)
			})
		})
		identity := fmt.Sprint("candidate-", i)
		lead := func(ctx context.Context) {
			defer r.Begin(identity)()
			<-ctx.Done()
		}
		wait.Go(func() { errs <- elect(ctx, mine, timing, namespace, name, identity, lead) })
	}
	select {
	case err := <-errs:
		return row{}, err
	case <-time.After(span):
	}
	requests, connections := c.read()
	h := r.History()
	per := span.Minutes() * candidates
	first := span
	for _, s := range h {
		first = min(first, s.Start.Sub(start))
	}
	led := h.Led(1, start).Seconds()
	return row{
		weather: w, Timing: timing, First: first,
		Share: led / span.Seconds(), Since: led / max(1e-9, (span-first).Seconds()), Overlap: h.Led(2, start), Losses: losses(h),
		Connections: float64(connections) / per, Requests: float64(requests) / per,
	}, nil
}

// losses are how many terms have ended.
func losses(h history.History) (n int) {
	for _, s := range h {
		if !s.Open {
			n++
		}
	}
	return n
}

// promised reports whether zonelect should be no worse than client-go. Where two answers do
// not fit into the RenewDeadline, client-go goes on because it trusts from the answer, when
// the lease may have run out.
func (r row) promised() bool {
	return 2*r.delay < r.Timing.RenewDeadline
}

// worse says in what zonelect is worse than the best of client-go's electors; nothing if it
// is not.
func (r row) worse(others []row) (what []string) {
	const tolerance = 0.005
	best := slices.MaxFunc(others, func(a, b row) int { return int(1e6 * (a.Since - b.Since)) })
	if r.Since < best.Since-tolerance {
		what = append(what, fmt.Sprintf("%.1f %% of the time from the first term on, and %.1f %%", 100*r.Since, 100*best.Since))
	}
	// A candidate that knows nobody leaves a free lock to others for up to two RenewIntervals, by
	// its hash.
	best = slices.MinFunc(others, func(a, b row) int { return int(a.First - b.First) })
	if r.First > best.First+2*r.Timing.RenewInterval+10*odd {
		what = append(what, fmt.Sprintf("a first term after %.1f s, and after %.1f s", r.First.Seconds(), best.First.Seconds()))
	}
	return what
}

// seconds3 writes a timing as 15/10/2.
func seconds3(t election.Timing) string {
	return fmt.Sprintf("%d/%d/%d", t.LeaseDuration/time.Second, t.RenewDeadline/time.Second, t.RenewInterval/time.Second)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
