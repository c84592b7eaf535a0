// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/slow"
)

// elect runs one candidate until ctx ends. It calls lead for each term, with a
// context that ends with the term.
type elect func(ctx context.Context, cfg *rest.Config, timing election.Timing, lock, identity string, lead func(context.Context)) error

func zonelect(ctx context.Context, cfg *rest.Config, timing election.Timing, name, identity string, lead func(context.Context)) error {
	lock, err := operator.LeaseLock(cfg, timing, "default", name, operator.LockOptions{})
	if err != nil {
		return err
	}
	e, err := election.New(election.Config{Lock: lock, Timing: timing, Candidate: locks.Candidate{Identity: identity}})
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, _ election.Term) error {
		lead(ctx)
		return nil
	})
}

func clientGo(ctx context.Context, cfg *rest.Config, timing election.Timing, name, identity string, lead func(context.Context)) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: name},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: timing.LeaseDuration, RenewDeadline: timing.RenewDeadline, RetryPeriod: timing.RenewInterval,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return err
		}
		e.Run(ctx)
	}
	return nil
}

// row is one line of the table.
type row struct {
	Kind        string
	Weather     string
	Timing      string
	Share       float64 // of the time, with a leader
	Overlap     time.Duration
	Losses      float64 // per hour
	Connections float64 // per minute and candidate
	Requests    float64 // per minute and candidate
}

// candidates is how many compete for each lock.
const candidates = 2

// trial lets candidates of one kind compete for a lock, and measures them for
// span, after a warm-up of warm.
func trial(kind string, elect elect, cfg *rest.Config, w slow.Answers, timing election.Timing, warm, span time.Duration) (row, error) {
	ctx, stop := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop()
	r, c := &history.Recorder{}, &counts{}
	errs := make(chan error, candidates)
	name := fmt.Sprintf("%s-%d-%d-%d", kind, w.Least.Milliseconds(), w.Most.Milliseconds(), timing.LeaseDuration/time.Second)
	if w.Lost > 0 {
		name += "-lost"
	}
	for i := range candidates {
		mine := rest.CopyConfig(cfg)
		mine.Dial = w.Dial(cfg.Dial, func() { c.add(0, 1) })
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
		wait.Go(func() { errs <- elect(ctx, mine, timing, name, identity, lead) })
	}
	select {
	case err := <-errs:
		return row{}, err
	case <-time.After(warm):
	}
	start := time.Now()
	requests, connections := c.read()
	time.Sleep(span)
	moreRequests, moreConnections := c.read()
	h := r.History()
	per := span.Minutes() * candidates
	return row{
		Kind: kind, Weather: w.Name, Timing: fmt.Sprintf("%d/%d/%d", timing.LeaseDuration/time.Second, timing.RenewDeadline/time.Second, timing.RenewInterval/time.Second),
		Share: h.Led(1, start).Seconds() / span.Seconds(), Overlap: h.Led(2, start), Losses: float64(losses(h, start)) / span.Hours(),
		Connections: float64(moreConnections-connections) / per, Requests: float64(moreRequests-requests) / per,
	}, nil
}

// losses are how many terms have ended since start.
func losses(h history.History, start time.Time) (n int) {
	for _, s := range h {
		if !s.Open && s.End.After(start) {
			n++
		}
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
