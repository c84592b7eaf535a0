// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo cuts the power of the leader's zone on a real control plane,
// with zonelect and client-go side by side, and prints what happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/testbed"
	"github.com/zonelect/zonelect/test/trial"
)

// lease is the LeaseDuration of both.
const lease = election.LeaseDurationDefault

// zones, in the order in which power is lost: the first has both leaders.
var zones = []string{"za", "zb", "zc"}

func main() {
	network := pflag.String("network", "auto", "auto, namespaces (needs root) or links")
	serve := pflag.Bool("serve", false, "only run a control plane, for the examples, until Ctrl-C")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func(ctx context.Context) error { return run(ctx, *network) }
	if *serve {
		do = host
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, network string) (err error) {
	config := testbed.Config{Zones: zones, Progress: os.Stdout}
	if config.Network, err = testbed.ParseNetwork(network); err != nil {
		return err
	}
	fmt.Println("Starting etcd, kube-apiserver and kube-controller-manager in three zones (the first build takes minutes).")
	bed, err := testbed.Start(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	fmt.Printf("The network is: %v\n\n", bed.Network())
	d := &demo{bed: bed, start: time.Now()}
	return d.play(ctx)
}

// host runs a control plane of one zone until ctx ends.
func host(ctx context.Context) (err error) {
	fmt.Println("Starting etcd, kube-apiserver and kube-controller-manager (the first build takes minutes).")
	bed, err := testbed.Start(ctx, testbed.Config{Zones: zones[:1], Network: testbed.Links, Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	fmt.Printf("It runs until Ctrl-C. In other terminals:\n\n    export KUBECONFIG=%s\n\n", bed.Kubeconfig(zones[0]))
	<-ctx.Done()
	return nil
}

// demo is one performance.
type demo struct {
	bed   *testbed.Testbed
	start time.Time
}

// troupe is three candidates of one kind, the first of which leads.
type troupe struct {
	kind     trial.Kind
	lock     string
	seats    []*trial.Seat
	observer *trial.Observer
}

// say prints a line of the timeline.
func (d *demo) say(at time.Time, format string, args ...any) {
	fmt.Printf("%8.3fs  %s\n", at.Sub(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) play(ctx context.Context) error {
	ours := &troupe{kind: trial.Zonelect, lock: "demo-zonelect"}
	theirs := &troupe{kind: trial.ClientGo, lock: "demo-client-go"}
	both := []*troupe{ours, theirs}
	for _, t := range both {
		if err := d.cast(ctx, t); err != nil {
			return err
		}
	}
	if err := sleep.For(ctx, 5*time.Second); err != nil {
		return err
	}
	cut := time.Now()
	d.say(cut, "zone za loses power: both leaders, its apiserver and its etcd member are gone, without a word")
	if err := d.bed.CutPower(ctx, zones[0]); err != nil {
		return err
	}
	results := make([]result, len(both))
	var wait errgroup.Group
	for i, t := range both {
		wait.Go(func() (err error) {
			results[i], err = d.succession(ctx, t, cut)
			return err
		})
	}
	if err := wait.Wait(); err != nil {
		return err
	}
	return conclude(report{Network: fmt.Sprint(d.bed.Network()), LeaseDuration: lease.Seconds(), Results: results})
}

// cast starts a troupe: the leader first, then the followers, whose
// connections run to the zone that will die, as a Service may have it.
func (d *demo) cast(ctx context.Context, t *troupe) (err error) {
	if t.observer, err = trial.Observe(ctx, d.bed.RESTConfig(zones[2]), t.lock); err != nil {
		return err
	}
	for i, zone := range zones {
		if err := d.bed.SteerVIP(zone, zones[0]); err != nil {
			return err
		}
		s, err := trial.Start(ctx, d.bed, t.kind, zone, t.lock, string(t.kind)+"-"+zone)
		if err != nil {
			return err
		}
		t.seats = append(t.seats, s)
		event := "following"
		if i == 0 {
			event = "leading"
		}
		e, err := s.Await(ctx, event, time.Time{})
		if err != nil {
			return err
		}
		d.say(e.Time, "%-14s  %s is %s", t.lock, s.Identity, event)
		if err := d.bed.SteerVIP(zone); err != nil {
			return err
		}
	}
	return nil
}

// succession waits for the next leader and tells how it came about.
func (d *demo) succession(ctx context.Context, t *troupe, cut time.Time) (result, error) {
	last := t.observer.Last()
	end := last.Seen.Add(lease)
	if err := sleep.For(ctx, time.Until(end)); err != nil {
		return result{}, err
	}
	d.say(end, "%-14s  the lease has ended", t.lock)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	next, e, err := trial.AwaitAny(ctx, t.seats[1:], "leading", cut)
	if err != nil {
		return result{}, err
	}
	d.say(e.Time, "%-14s  %s leads", t.lock, next.Identity)
	r := result{
		Kind: string(t.kind), Fault: "power loss of the leader's zone", NextLeader: next.Identity,
		AfterFault: e.Time.Sub(cut).Seconds(), BehindLease: e.Time.Sub(end).Seconds(), From: "outside observer",
	}
	if t.kind == trial.Zonelect {
		return r.fromSpans(next, cut)
	}
	return r, nil
}
