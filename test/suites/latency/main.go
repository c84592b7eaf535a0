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

func main() {
	span := flag.Duration("for", 5*time.Minute, "how long to measure")
	flag.Parse()
	if err := run(*span); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func run(span time.Duration) error {
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
	var n int
	for _, timing := range timings {
		for _, w := range all() {
			if w.place != answers && w.place != requests {
				continue
			}
			for _, kind := range kinds {
				n++
				name := fmt.Sprint("lock-", n)
				wait.Go(func() {
					r, err := trial(by[kind], cfg, w, timing, "default", name, span)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						errs = append(errs, err)
					}
					r.Kind = kind
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

// print prints the table.
func print(rows []row) {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIMING\tWEATHER\tELECTOR\tWITH A LEADER\tFROM THE FIRST TERM\tFIRST TERM\tTERMS LOST\tTWO LEADERS\tCONNECTIONS/MIN\tREQUESTS/MIN")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%v\t%s\t%.1f %%\t%.1f %%\t%.1f s\t%d\t%v\t%.1f\t%.1f\n", seconds3(r.Timing), r.weather, r.Kind,
			100*r.Share, 100*r.Since, r.First.Seconds(), r.Losses, r.Overlap.Round(time.Millisecond), r.Connections, r.Requests)
	}
	_ = t.Flush() // to the standard output
}
