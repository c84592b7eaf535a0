// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo cuts the power of the leader's zone, with zonelect and client-go side by side, and
// prints what happens. It runs on a real control plane if one is there, or else on an embedded API
// server. With --real it compiles a control plane.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// lease is the LeaseDuration of both.
const lease = timing.DefaultLeaseDuration

// zones, in the order in which power is lost: both leaders are in the first.
var zones = []string{"za", "zb", "zc"}

func main() {
	isReal := pflag.Bool("real", false, "compile etcd and Kubernetes, unless that was done before, and use no others")
	serve := pflag.Bool("serve", false, "only run a control plane, for the examples, until Ctrl-C")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func(ctx context.Context) error {
		programs, err := choose(ctx, *isReal)
		if err != nil {
			return err
		}
		d := &demo{programs: programs, teams: []*team{
			{kind: trial.Zonelect, name: "zonelect", lock: "demo-zonelect"},
			{kind: trial.ClientGo, name: "client-go", lock: "demo-client-go"},
		}}
		if err := d.run(ctx); err != nil {
			return err
		}
		return errors.Join(d.table(), save(d.draw(d.end)))
	}
	if *serve {
		do = host
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run starts a control plane and plays on it.
func (d *demo) run(ctx context.Context) (err error) {
	var building errgroup.Group
	building.Go(func() error { return trial.Build(ctx, trial.Zonelect, trial.ClientGo) })
	d.bed, err = testbed.Start(ctx, testbed.Config{
		Zones: zones, Programs: d.programs, WithoutControllers: true, WithoutNodes: true, Progress: os.Stdout,
	})
	built := building.Wait()
	if err != nil {
		return errors.Join(err, built)
	}
	defer func() { err = errors.Join(err, d.bed.Close()) }()
	if built != nil {
		return built
	}
	d.start = time.Now()
	fmt.Printf("The network is: %v\n\n", d.bed.Network.Kind())
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
	fmt.Printf("It runs until Ctrl-C. In other terminals:\n\n    export KUBECONFIG=%s\n\n", bed.Cluster.Kubeconfig(zones[0]))
	<-ctx.Done()
	return nil
}

// demo is one run, and what it has shown.
type demo struct {
	programs testbed.Programs
	teams    []*team
	bed      *testbed.Testbed
	screen   sync.Mutex

	start, cut, end time.Time
}

// team is three candidates of one kind, the first of which leads, and how the takeover went.
type team struct {
	kind    trial.Kind
	name    string // for the table
	lock    string
	seats   []*trial.Seat
	renewed func() time.Time // when the Lease was last seen to be renewed
	end     time.Time        // of the lease, once it has ended

	nextLeader         string
	after, behindLease time.Duration
	from               string         // what the figures were read from
	trace              spans.Failover // without phases if there is none
}

// say prints a line of what happens.
func (d *demo) say(at time.Time, format string, args ...any) {
	d.screen.Lock()
	defer d.screen.Unlock()
	fmt.Printf("%8.3fs  %s\n", at.Sub(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) play(ctx context.Context) error {
	if err := d.startTeams(ctx); err != nil {
		return err
	}
	if err := sleep.For(ctx, settled); err != nil {
		return err
	}
	d.cut = time.Now()
	d.say(d.cut, "zone za loses power: all leaders and its part of the control plane are gone, without a word")
	if err := d.bed.CutPower(ctx, zones[0]); err != nil {
		return err
	}
	var wait errgroup.Group
	for _, t := range d.teams {
		wait.Go(func() error { return d.succession(ctx, t) })
	}
	if err := wait.Wait(); err != nil {
		return err
	}
	if err := sleep.For(ctx, time.Second); err != nil { // so that one sees the last leader lead
		return err
	}
	d.end = time.Now()
	return nil
}

// settled is how long all lead and follow before the power is cut. A leader has renewed by then.
const settled = 3 * time.Second

// startTeams starts all teams side by side, each leader before its followers. All connections run to
// the zone that will die, as can happen with a Service.
func (d *demo) startTeams(ctx context.Context) error {
	for _, zone := range zones {
		if err := d.bed.Network.SteerVIP(zone, zones[0]); err != nil {
			return err
		}
	}
	var starting errgroup.Group
	for _, t := range d.teams {
		starting.Go(func() error { return d.startTeam(ctx, t) })
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	for _, zone := range zones {
		if err := d.bed.Network.SteerVIP(zone); err != nil {
			return err
		}
	}
	return nil
}

// startTeam starts a team, one candidate after the other.
func (d *demo) startTeam(ctx context.Context, t *team) (err error) {
	if t.renewed, err = observe(ctx, d.bed.Cluster.RESTConfig(zones[2]), t.lock); err != nil {
		return err
	}
	for i, zone := range zones {
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
	}
	return nil
}

// succession waits for the next leader and notes how the takeover went: as its trace says, if it has one, or else as it
// looks from outside.
func (d *demo) succession(ctx context.Context, t *team) error {
	t.end = t.renewed().Add(lease)
	if err := sleep.For(ctx, time.Until(t.end)); err != nil {
		return err
	}
	d.say(t.end, "%-14s  the lease has ended", t.lock)
	waiting, cancel := context.WithDeadline(ctx, d.cut.Add(lease+3*time.Minute))
	defer cancel()
	next, e, err := trial.AwaitAny(waiting, t.seats[1:], "leading", d.cut)
	if err != nil {
		return err
	}
	d.say(e.Time, "%-14s  %s leads", t.lock, next.Identity)
	t.nextLeader, t.from = next.Identity, "outside observer"
	t.after, t.behindLease = e.Time.Sub(d.cut), e.Time.Sub(t.end)
	if t.kind == trial.Zonelect {
		if t.trace, err = spans.LastFailover(next.Traces); err != nil {
			return err
		}
		t.from, t.after, t.behindLease = "trace", t.trace.EndTime.Sub(d.cut), t.trace.Duration()-lease
	}
	return nil
}

// observe watches a Lease from outside until ctx ends, and returns what returns when it was last seen to be renewed.
func observe(ctx context.Context, cfg *rest.Config, lock string) (func() time.Time, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	watch, err := client.CoordinationV1().Leases("default").Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: lock}))
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", lock, err)
	}
	var last atomic.Pointer[time.Time]
	go func() {
		for range watch.ResultChan() {
			last.Store(new(time.Now()))
		}
	}()
	return func() time.Time { return *last.Load() }, nil
}
