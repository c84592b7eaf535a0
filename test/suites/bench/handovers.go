// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/slow"
)

// handover is one row: how soon the next candidate leads once the leader stops in good order.
// The candidates have no pods, so those of zonelect know nothing of each other.
type handover struct {
	candidates int
	late       time.Duration // each answer
	took       map[string][]time.Duration
}

// handovers measures both electors side by side, with a number of rounds for each row.
func (s *site) handovers(ctx context.Context, rounds int) error {
	var rows []*handover
	var wait sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, n := range []int{3, 10} {
		for _, late := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
			row := &handover{n, late, map[string][]time.Duration{}}
			rows = append(rows, row)
			for _, kind := range kinds[:2] {
				wait.Go(func() {
					name := fmt.Sprintf("handover-%d-%v-%v", n, late.Milliseconds(), kind == kinds[0])
					took, err := handOver(ctx, by[kind], s.config, row, name, rounds)
					mu.Lock()
					defer mu.Unlock()
					row.took[kind] = took
					errs = append(errs, err)
				})
			}
		}
	}
	wait.Wait()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CANDIDATES\tANSWERS LATE BY\tELECTOR\tMEDIAN\tLEAST\tMOST")
	for _, row := range rows {
		for _, kind := range kinds[:2] {
			if took := row.took[kind]; len(took) > 0 {
				fmt.Fprintf(t, "%d\t%v\t%s\t%.2f s\t%.2f s\t%.2f s\n", row.candidates, row.late, kind,
					took[len(took)/2].Seconds(), took[0].Seconds(), took[len(took)-1].Seconds())
			}
		}
	}
	_ = t.Flush() // to the standard output
	return errors.Join(errs...)
}

// handOver has the leader stop, round after round, and a new candidate start once another leads. It
// returns, sorted, how soon after the request to stop that one worked.
func handOver(ctx context.Context, elect elect, cfg *rest.Config, row *handover, name string, rounds int) (took []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	led := make(chan context.CancelFunc, 1) // how to stop the new leader
	ended := make(chan error, row.candidates)
	start := func(identity string) {
		own, stop := context.WithCancel(ctx)
		mine := rest.CopyConfig(cfg)
		mine.Dial = slow.Way{Answers: slow.Constant(row.late)}.Dial(cfg.Dial, func() {})
		wait.Go(func() {
			defer stop()
			err := elect(own, mine, timings[0], "default", name, identity, func(ctx context.Context) {
				led <- stop
				<-ctx.Done()
			})
			if own.Err() == nil {
				ended <- err
			}
		})
	}
	for i := range row.candidates {
		start(fmt.Sprint("first-", i))
	}
	for stopped := (time.Time{}); ; {
		select {
		case stop := <-led:
			if !stopped.IsZero() {
				took = append(took, time.Since(stopped))
				start(fmt.Sprint("later-", len(took)))
			}
			if len(took) == rounds {
				slices.Sort(took)
				return took, nil
			}
			// The candidates look at the lock at other moments each time.
			if err := sleep.For(ctx, timings[0].RenewInterval*2+rand.N(timings[0].RenewInterval)); err != nil {
				return took, err
			}
			stopped = time.Now()
			stop()
		case err := <-ended:
			return took, fmt.Errorf("%s: a candidate ended: %w", name, err)
		case <-time.After(time.Minute):
			return took, fmt.Errorf("%s: for a minute nobody led", name)
		}
	}
}
