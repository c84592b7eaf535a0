// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command seconds tries the timing of three seconds on a real control plane in three zones:
// how often a term is lost although nothing fails, how many are lost when etcd's leader is
// killed again and again, and how soon others lead when a zone loses its power. Three
// processes keep all locks, each with one heartbeat. Losses with etcd's leader in the zone are
// also counted apart, and it says which phase of the failover took how long.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "seconds:", err)
		os.Exit(1)
	}
}

// plan is what to try.
type plan struct {
	locks  int
	quiet  time.Duration // without a fault
	kills  int           // of etcd's leader
	every  time.Duration // from one of them to the next
	losses int           // of the leader's zone
	// worst lets all connections of the others die before the last heartbeat.
	worst bool
	// strangers says that the candidates have no pods, and so know nothing of each other.
	strangers bool
}

func run(ctx context.Context, args []string) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	var p plan
	f := flag.NewFlagSet("seconds", flag.ContinueOnError)
	f.IntVar(&p.locks, "locks", 20, "how many locks each process campaigns for")
	f.DurationVar(&p.quiet, "quiet", time.Hour, "how long nothing fails")
	f.IntVar(&p.kills, "kills", 60, "how often etcd's leader is killed")
	f.DurationVar(&p.every, "every", time.Minute, "from one of them to the next")
	f.IntVar(&p.losses, "losses", 100, "how often the leaders' zone loses its power")
	f.BoolVar(&p.worst, "worst", false, "let all connections of the others die just before the last heartbeat, as if they had led to the zone that is lost, and move etcd's leader there before every other loss")
	f.BoolVar(&p.strangers, "strangers", false, "let the candidates have no pods, so that they do not know of each other")
	into := f.String("into", filepath.Join(root, "build", "seconds.json"), "file for the results")
	if err := f.Parse(args); err != nil {
		return err
	}
	r, err := try(ctx, p)
	fmt.Print(r)
	return errors.Join(err, r.save(*into))
}

// try carries the plan out. It returns what was measured even after an error.
func try(ctx context.Context, p plan) (*results, error) {
	t := timing.Fast()
	r := &results{Locks: p.locks, Strangers: p.strangers, Worst: p.worst, Timing: fmt.Sprintf("%v/%v/%v", t.LeaseDuration, t.RenewDeadline, t.RenewInterval)}
	if err := trial.Build(ctx, trial.Zonelect); err != nil {
		return r, err
	}
	bed, err := testbed.Start(ctx, testbed.Config{WithoutControllers: true, WithoutNodes: true, Progress: os.Stderr})
	if err != nil {
		return r, err
	}
	defer bed.Close()
	r.Network = fmt.Sprint(bed.Network.Kind())
	f := &fleet{Testbed: bed, plan: p}
	if err := f.launch(ctx); err != nil {
		return r, err
	}
	for _, step := range []func(context.Context, *results) error{f.beQuiet, f.killEtcds, f.loseZones} {
		if err := step(ctx, r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *results) save(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
