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
//	go run ./suites/chaos --ledger build/chaos.jsonl       # append to a ledger, and go on where it ended
//	go run ./suites/chaos --ledger build/chaos.jsonl --rerun   # what failed in it, again
//	go run ./suites/chaos --unguarded                      # the judge sees a zonelect without its guard
//	go run ./suites/chaos --summary build/chaos.jsonl      # the table of a ledger
//
// See README.md beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// options are the flags.
type options struct {
	minutes       float64
	runs, onlyRun int
	beds          int
	seed          uint64
	faults        []string
	html          string
	ledger        ledger
	network       testbed.NetworkKind
	summary, keep bool
	rerun         bool
	unguarded     bool
}

func parse(args []string) (o options, err error) {
	f := pflag.NewFlagSet("chaos", pflag.ContinueOnError)
	f.Float64Var(&o.minutes, "minutes", 10, "how long to go on; 0 is for ever")
	f.IntVar(&o.runs, "runs", 0, "how many runs to do; 0 is as many as there is time for")
	f.IntVar(&o.beds, "beds", 1, "how many control planes to do runs on at a time: one takes half a core or so")
	f.IntVar(&o.onlyRun, "only-run", -1, "do this run alone")
	f.Uint64Var(&o.seed, "seed", 0, "where chance begins; 0 is that of the ledger, or one of the clock's")
	f.StringSliceVar(&o.faults, "faults", nil, "faults to choose from, or pairs as a+b; all by default")
	f.StringVar(&o.html, "html", "build/chaos.html", "file for the table as a page, in the repository")
	f.StringVar(&o.ledger.path, "ledger", "", "file in the repository to append results to; runs go on where it ended")
	f.BoolVar(&o.keep, "keep", false, "keep the logs of runs that passed, too")
	f.BoolVar(&o.rerun, "rerun", false, "do the runs of the ledger again that failed and have not passed since")
	f.BoolVar(&o.unguarded, "unguarded", false, "seat a zonelect without its guard: the judge must see it overlap")
	summary := f.String("summary", "", "only print the table of this ledger")
	network := f.String("network", "auto", "auto, namespaces (needs root) or links")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected arguments: %v", f.Args())
	}
	if *summary != "" {
		o.summary, o.ledger.path = true, *summary
	}
	if o.rerun && o.ledger.path == "" {
		return o, errors.New("--rerun needs --ledger: the file that tells what failed")
	}
	root, err := testbed.Root()
	if err != nil {
		return o, err
	}
	for _, file := range []*string{&o.html, &o.ledger.path} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(root, *file)
		}
	}
	o.network, err = testbed.ParseNetwork(*network)
	return o, err
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard()) // client-go logs what it cannot read from a frozen apiserver
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	before, err := o.ledger.read()
	if err != nil {
		return err
	}
	if o.summary {
		return conclude(o, before)
	}
	if o.network == testbed.Auto && testbed.NamespacesPossible() == nil {
		o.network = testbed.Namespaces
	} else if o.network == testbed.Auto {
		o.network = testbed.Links
	}
	e := &engine{options: o}
	if o.unguarded {
		return e.showUnguarded(ctx)
	}
	if o.rerun {
		return e.rerunFailures(ctx, before)
	}
	var skipped []string
	if e.rounds, skipped, err = choose(o.faults, o.network); err != nil {
		return err
	}
	if len(skipped) > 0 {
		fmt.Printf("These need network namespaces, hence root, and are skipped: %v\n", skipped)
	}
	var next int
	if e.seed, next = resume(before, o.seed); e.seed == 0 {
		e.seed = uint64(time.Now().Unix())
	}
	if err := steppable(ctx, e.rounds); err != nil {
		return err
	}
	fmt.Printf("Seed %d, from run %d on; %d faults and pairs to choose from.\n", e.seed, next, len(e.rounds))
	done, err := e.all(ctx, e.following(next))
	return errors.Join(err, conclude(o, append(before, done...)))
}

// rerunFailures repeats the runs that failed and have not passed since.
func (e *engine) rerunFailures(ctx context.Context, before []result) error {
	var plans []plan
	for _, r := range failures(before) {
		p, err := again(r)
		if err != nil {
			return err
		}
		plans = append(plans, p)
		e.rounds = append(e.rounds, p.Faults)
	}
	if err := steppable(ctx, e.rounds); err != nil {
		return err
	}
	fmt.Printf("%d runs failed and have not passed since.\n", len(plans))
	done, err := e.all(ctx, slices.Values(plans))
	return errors.Join(err, conclude(e.options, append(before, done...)))
}
