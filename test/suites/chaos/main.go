// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chaos does to a real control plane, and to candidates that run on it,
// what may happen to them: one fault at a time, and in pairs. It judges by a
// register that each leader keeps writing, with client-go's elector in the same
// seats:
//
//	go run ./suites/chaos                                  # ten minutes, another seed each time
//	go run ./suites/chaos --faults leader-killed           # this fault alone
//	go run ./suites/chaos --seed 7 --only-run 12           # a run again
//
// See README.md beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// options are the flags.
type options struct {
	minutes float64
	onlyRun int
	seed    uint64
	faults  []string
}

func main() {
	var o options
	pflag.Float64Var(&o.minutes, "minutes", 10, "how long to go on; 0 is for ever")
	pflag.IntVar(&o.onlyRun, "only-run", -1, "do this run alone")
	pflag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "where chance begins")
	pflag.StringSliceVar(&o.faults, "faults", nil, "faults to choose from, or pairs as a+b; all by default")
	pflag.Parse()
	klog.SetLogger(logr.Discard()) // client-go logs what it cannot read from a frozen apiserver
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if pflag.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %v", pflag.Args())
	}
	rounds, err := choose(o.faults)
	if err = errors.Join(err, testbed.NamespacesPossible()); err != nil {
		return err
	}
	fmt.Printf("Seed %d; %d faults and pairs to choose from.\n", o.seed, len(rounds))
	e := &engine{options: o, rounds: rounds, verdicts: map[verdict]int{}}
	return e.all(ctx)
}
