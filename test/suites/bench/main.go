// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what elections cost, and how soon others lead, on a real control plane,
// beside client-go's electors, and prints tables:
//
//	go run ./suites/bench latency    # elections on a slow server
//
// The tests check what an election may cost: in time when the leader changes, and in requests
// while it does not. They also measure bare writes and client-go's elector, for comparison, and
// judge only zonelect.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 2 || os.Args[1] != "latency" {
		fmt.Fprintln(os.Stderr, "bench: name what to measure: latency")
		os.Exit(2)
	}
	if err := latency(ctx, os.Args[2:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench latency: %v\n", err)
		os.Exit(1)
	}
}
