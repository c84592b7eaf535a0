// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command latency shows how elections work behind an API server that answers
// late: two candidates of zonelect on a Lease, and two of client-go on another,
// on a real control plane whose every answer is delayed on the way. All run
// side by side. It prints the share of time with a leader.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

var timings = []election.Timing{
	{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RenewInterval: 2 * time.Second},
	{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second},
}

var kinds = map[string]elect{"zonelect": zonelect, "client-go": clientGo}

func main() {
	span := flag.Duration("for", 5*time.Minute, "how long to measure")
	warm := flag.Duration("warm", time.Minute, "how long to wait before")
	flag.Parse()
	if err := run(*warm, *span); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func run(warm, span time.Duration) error {
	klog.SetLogger(logr.Discard()) // client-go's elector logs each request that fails
	ctx := context.Background()
	b, err := testbed.Start(ctx, testbed.Config{})
	if err != nil {
		return err
	}
	defer b.Close()
	cfg, err := b.Cluster.Living()
	if err != nil {
		return err
	}
	cfg.Dial = (&net.Dialer{}).DialContext
	var mu sync.Mutex
	var rows []row
	var errs []error
	var wait sync.WaitGroup
	for kind, elect := range kinds {
		for _, w := range curve() {
			for _, timing := range timings {
				wait.Go(func() {
					r, err := trial(kind, elect, cfg, w, timing, warm, span)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						errs = append(errs, err)
					}
					rows = append(rows, r)
				})
			}
		}
	}
	wait.Wait()
	if len(errs) > 0 {
		return errs[0]
	}
	print(rows)
	return nil
}

// print prints the table, in the order of the curve.
func print(rows []row) {
	rank := map[string]int{}
	for i, w := range curve() {
		rank[w.Name] = i
	}
	slices.SortFunc(rows, func(a, b row) int {
		if a.Timing != b.Timing {
			return strings.Compare(a.Timing, b.Timing)
		}
		if a.Weather != b.Weather {
			return rank[a.Weather] - rank[b.Weather]
		}
		return strings.Compare(b.Kind, a.Kind)
	})
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIMING\tANSWERS LATE BY\tELECTOR\tWITH A LEADER\tTWO LEADERS\tLOSSES/H\tCONNECTIONS/MIN\tREQUESTS/MIN")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.1f %%\t%v\t%.0f\t%.1f\t%.1f\n", r.Timing, r.Weather, r.Kind, 100*r.Share, r.Overlap.Round(time.Millisecond), r.Losses, r.Connections, r.Requests)
	}
	_ = t.Flush() // to the standard output
}
