// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo cuts the power of the leader's zone on a real control plane,
// with zonelect and client-go side by side, and prints what happens. With
// --legacy it adds the three variants of operator-sdk's leader-for-life.
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

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// lease is the LeaseDuration of both.
const lease = timing.DefaultLeaseDuration

// zones, in the order in which power is lost: both leaders are in the first.
var zones = []string{"za", "zb", "zc"}

func main() {
	network := pflag.String("network", "auto", "auto, namespaces (needs root) or links")
	legacy := pflag.Bool("legacy", false, "beside them the three variants of leader-for-life")
	within := pflag.Duration("within", 8*time.Minute, "how long to wait for a leader-for-life, from the power loss")
	serve := pflag.Bool("serve", false, "only run a control plane, for the examples, until Ctrl-C")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func(ctx context.Context) error { return run(ctx, *network, teams(*legacy, *within)) }
	if *serve {
		do = host
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// teams are the teams of a demo. within is how long to wait for a
// leader-for-life.
func teams(legacy bool, within time.Duration) []*team {
	const patience = lease + 3*time.Minute
	all := []*team{
		{kind: trial.Zonelect, name: "zonelect", lock: "demo-zonelect", within: patience},
		{kind: trial.ClientGo, name: "client-go", lock: "demo-client-go", within: patience},
	}
	if !legacy {
		return all
	}
	for _, v := range []legacyelectors.Variant{legacyelectors.NotReady, legacyelectors.Stale, legacyelectors.Original} {
		all = append(all, &team{
			kind: trial.Legacy, name: "leader-for-life, " + variants[v], lock: "demo-" + string(v), within: within, args: []string{"--variant", string(v)},
		})
	}
	return all
}

// variants says where each leader-for-life comes from.
var variants = map[legacyelectors.Variant]string{
	legacyelectors.NotReady: "operator-lib 0.2 on",
	legacyelectors.Stale:    "operator-sdk 0.13 to 0.18.0",
	legacyelectors.Original: "operator-sdk 0.18.1 on",
}

func run(ctx context.Context, network string, all []*team) (err error) {
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
	fmt.Printf("The network is: %v\n\n", bed.Network.Kind())
	d := &demo{bed: bed, start: time.Now()}
	return d.play(ctx, all)
}

// host runs a control plane of one zone until ctx ends.
func host(ctx context.Context) (err error) {
	fmt.Println("Starting etcd, kube-apiserver and kube-controller-manager (the first build takes minutes).")
	bed, err := testbed.Start(ctx, testbed.Config{Zones: zones[:1], Network: testbed.Links, Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	fmt.Printf("It runs until Ctrl-C. In other terminals:\n\n    export KUBECONFIG=%s\n\n", bed.Cluster.Kubeconfig(zones[0]))
	<-ctx.Done()
	return nil
}

// demo is one run.
type demo struct {
	bed   *testbed.Testbed
	start time.Time
}

// team is three candidates of one kind, the first of which leads.
type team struct {
	kind     trial.Kind
	name     string // for the table
	lock     string
	within   time.Duration // how long to wait for its next leader
	args     []string
	seats    []*trial.Seat
	observer *trial.Observer // nil if the lock is no Lease
	end      time.Time       // of the lease, once it has ended
}

// forLife reports whether a pod holds its lock for life: there is no lease to
// end.
func (t *team) forLife() bool { return t.kind == trial.Legacy }

// say prints a line of the timeline.
func (d *demo) say(at time.Time, format string, args ...any) {
	fmt.Printf("%8.3fs  %s\n", at.Sub(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) play(ctx context.Context, all []*team) error {
	for _, t := range all {
		if err := d.startTeam(ctx, t); err != nil {
			return err
		}
	}
	if err := sleep.For(ctx, 5*time.Second); err != nil {
		return err
	}
	cut := time.Now()
	d.say(cut, "zone za loses power: all leaders, its apiserver and its etcd member are gone, without a word")
	if err := d.bed.CutPower(ctx, zones[0]); err != nil {
		return err
	}
	results := make([]result, len(all))
	var wait errgroup.Group
	for i, t := range all {
		wait.Go(func() (err error) {
			results[i], err = d.succession(ctx, t, cut)
			return err
		})
	}
	if err := wait.Wait(); err != nil {
		return err
	}
	err := conclude(report{Network: fmt.Sprint(d.bed.Network.Kind()), LeaseDuration: lease.Seconds(), Results: results})
	if err != nil {
		return err
	}
	if err := sleep.For(ctx, 3*time.Second); err != nil { // so that one sees the last leader lead
		return err
	}
	h, err := recorded(all, d.start, cut, time.Now())
	if err != nil {
		return err
	}
	return draw(h)
}

// startTeam starts a team: the leader first, then the followers, whose
// connections run to the zone that will die, as can happen with a Service.
func (d *demo) startTeam(ctx context.Context, t *team) (err error) {
	if !t.forLife() {
		if t.observer, err = trial.Observe(ctx, d.bed.Cluster.RESTConfig(zones[2]), t.lock); err != nil {
			return err
		}
	}
	for i, zone := range zones {
		if err := d.bed.Network.SteerVIP(zone, zones[0]); err != nil {
			return err
		}
		s, err := d.seat(ctx, t, zone)
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
		if err := d.bed.Network.SteerVIP(zone); err != nil {
			return err
		}
	}
	return nil
}

// seat starts a candidate. A leader-for-life needs a pod that stands for it.
func (d *demo) seat(ctx context.Context, t *team, zone string) (*trial.Seat, error) {
	identity := string(t.kind) + "-" + zone
	if t.forLife() {
		identity = t.lock + "-" + zone
		if _, err := d.bed.Cluster.AddPod(ctx, zone, identity, "default", nil); err != nil {
			return nil, err
		}
	}
	return trial.Start(ctx, d.bed, t.kind, zone, t.lock, identity, t.args...)
}

// succession waits for the next leader and reports how the takeover went.
func (d *demo) succession(ctx context.Context, t *team, cut time.Time) (result, error) {
	var end time.Time
	if !t.forLife() {
		end = t.observer.Last().Seen.Add(lease)
		t.end = end
		if err := sleep.For(ctx, time.Until(end)); err != nil {
			return result{}, err
		}
		d.say(end, "%-14s  the lease has ended", t.lock)
	}
	r := result{Kind: string(t.kind), Name: t.name, Fault: "power loss of the leader's zone", From: "outside observer"}
	waiting, cancel := context.WithDeadline(ctx, cut.Add(t.within))
	defer cancel()
	next, e, err := trial.AwaitAny(waiting, t.seats[1:], "leading", cut)
	if err != nil {
		if t.forLife() && waiting.Err() != nil && ctx.Err() == nil {
			d.say(time.Now(), "%-14s  nobody leads", t.lock)
			r.NeverWithin = t.within.Seconds()
			return r, nil
		}
		return result{}, err
	}
	d.say(e.Time, "%-14s  %s leads", t.lock, next.Identity)
	r.NextLeader, r.AfterFault = next.Identity, e.Time.Sub(cut).Seconds()
	if !t.forLife() {
		r.BehindLease = e.Time.Sub(end).Seconds()
	}
	if t.kind == trial.Zonelect {
		return r.fromSpans(next, cut)
	}
	return r, nil
}
