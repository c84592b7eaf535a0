// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// patience bounds each wait until all locks are led.
const patience = time.Minute

// fleet is one process in each zone.
type fleet struct {
	*testbed.Testbed
	plan
	seats  []*trial.Seat
	pods   map[string]*corev1.Pod // by zone
	starts int
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s seconds: %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// launch starts a process in each zone. The first leads everywhere.
func (f *fleet) launch(ctx context.Context) error {
	if err := f.addPods(ctx); err != nil {
		return err
	}
	for _, zone := range f.Zones() {
		began := time.Now()
		if err := f.start(ctx, zone); err != nil {
			return err
		}
		if len(f.seats) > 1 {
			continue
		}
		if _, err := f.led(ctx, f.seats, began); err != nil {
			return err
		}
	}
	return f.settle(ctx)
}

// addPods gives each zone a pod, so that the candidates know of each other. A process that is
// started again is the next container of its zone's pod, as on a node that is back.
func (f *fleet) addPods(ctx context.Context) error {
	f.pods = map[string]*corev1.Pod{}
	if f.strangers {
		return nil
	}
	config, err := f.Cluster.Living()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("add a pod: %w", err)
	}
	for _, zone := range f.Zones() {
		pod := testbed.PodManifest(zone, "shard-"+zone, "default", nil)
		if f.pods[zone], err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("add a pod: %w", err)
		}
	}
	return nil
}

// start starts a process in a zone. Each of its leaders writes a register, as in the chaos
// runs: all together ten times a second.
func (f *fleet) start(ctx context.Context, zone string) error {
	f.starts++
	t := timing.Fast()
	var is []string
	if pod := f.pods[zone]; pod != nil {
		is = []string{"--pod-name", pod.Name, "--pod-uid", string(pod.UID)}
	}
	s, err := trial.Start(ctx, f.Testbed, trial.Zonelect, zone, "shard", fmt.Sprintf("%s-%d", zone, f.starts), append(is,
		"--locks", fmt.Sprint(f.locks), "--heartbeat", "--register", "register", "--register-interval", (time.Duration(f.locks)*100*time.Millisecond).String(),
		"--lease-duration", t.LeaseDuration.String(), "--renew-deadline", t.RenewDeadline.String(), "--renew-interval", t.RenewInterval.String(),
		"--attempt-timeout", t.AttemptTimeout.String())...)
	if err == nil {
		f.seats = append(f.seats, s)
	}
	return err
}

// led waits until any of the seats have begun to lead all locks since then.
func (f *fleet) led(ctx context.Context, seats []*trial.Seat, since time.Time) (trial.When, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return trial.AwaitLocks(ctx, seats, f.locks, since, "leading")
}

// settle gives candidates that have just started the time to see all leaders.
func (f *fleet) settle(ctx context.Context) error { return sleep.For(ctx, 5*time.Second) }

// lost returns how many terms have ended since then, and in how many processes.
func (f *fleet) lost(since time.Time) (terms, processes int) {
	for _, s := range f.seats {
		before := terms
		for _, e := range s.Events() {
			if e.Event == "stopping" && e.Time.After(since) {
				terms++
			}
		}
		if terms > before {
			processes++
		}
	}
	return terms, processes
}

// held returns the locks that a seat leads, by what it has printed.
func held(s *trial.Seat) map[string]bool {
	locks := map[string]bool{}
	for _, e := range s.Events() {
		switch e.Event {
		case "leading":
			locks[e.Lock] = true
		case "stopped":
			delete(locks, e.Lock)
		}
	}
	return locks
}

// leader returns the seat that leads most locks, and the others; nil if nobody leads.
func (f *fleet) leader() (leader *trial.Seat, others []*trial.Seat) {
	most := slices.MaxFunc(f.seats, func(a, b *trial.Seat) int { return len(held(a)) - len(held(b)) })
	if len(held(most)) == 0 {
		return nil, f.seats
	}
	return most, slices.DeleteFunc(slices.Clone(f.seats), func(s *trial.Seat) bool { return s == most })
}

// beQuiet counts the terms that end although nothing fails.
func (f *fleet) beQuiet(ctx context.Context, r *results) error {
	if f.quiet <= 0 {
		return nil
	}
	say("%v without a fault", f.quiet)
	since := time.Now()
	err := sleep.For(ctx, f.quiet)
	r.Quiet = &span{Minutes: time.Since(since).Minutes()}
	r.Quiet.Terms, r.Quiet.Processes = f.lost(since)
	return err
}

// killEtcds kills etcd's leader again and again, and starts it again after a third of the time.
func (f *fleet) killEtcds(ctx context.Context, r *results) error {
	for n := range f.kills {
		since := time.Now()
		zone, err := f.Parts.EtcdLeader(ctx)
		if err != nil {
			return err
		}
		killed := time.Now()
		if err := f.Parts.Kill(ctx, testbed.Etcd, zone); err != nil {
			return err
		}
		if _, err := f.Parts.EtcdLeader(ctx, f.without(zone)...); err != nil {
			return err
		}
		one := kill{Elected: time.Since(killed).Seconds()}
		if err := sleep.For(ctx, f.every/3-time.Since(since)); err != nil {
			return err
		}
		if err := f.Parts.Start(ctx, testbed.Etcd, zone); err != nil {
			return err
		}
		if err := sleep.For(ctx, f.every-time.Since(since)); err != nil {
			return err
		}
		one.Minutes = time.Since(since).Minutes()
		one.Terms, one.Processes = f.lost(since)
		one.Load = load()
		say("kill %d of %d: zone %s: %s", n+1, f.kills, zone, one)
		r.Kills = append(r.Kills, one)
	}
	return nil
}

// without returns the zones besides one.
func (f *fleet) without(zone string) []string {
	return slices.DeleteFunc(f.Zones(), func(z string) bool { return z == zone })
}

// loseZones cuts the power of the leaders' zone again and again, and measures how soon others
// lead all of its locks.
func (f *fleet) loseZones(ctx context.Context, r *results) error {
	for n := range f.losses {
		gone, rest := f.leader()
		if gone == nil {
			return fmt.Errorf("nobody leads before loss %d", n+1)
		}
		if f.worst {
			if err := f.Parts.MoveEtcdLeader(ctx, []*trial.Seat{gone, rest[0]}[n%2].Zone); err != nil {
				return err
			}
		}
		one, err := f.lose(ctx, gone, rest)
		if err != nil {
			return err
		}
		say("loss %d of %d: zone %s: %s", n+1, f.losses, gone.Zone, one)
		r.Losses = append(r.Losses, one)
		f.seats = rest
		if err := f.Restore(ctx, gone.Zone); err != nil {
			return err
		}
		if err := f.start(ctx, gone.Zone); err != nil {
			return err
		}
		if err := f.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lose cuts the power of the leader's zone, and measures how soon others lead all its locks.
func (f *fleet) lose(ctx context.Context, gone *trial.Seat, rest []*trial.Seat) (loss, error) {
	etcd, err := f.Parts.EtcdLeader(ctx)
	if err != nil {
		return loss{}, err
	}
	o, err := f.observe(ctx, gone, rest)
	if err != nil {
		return loss{}, err
	}
	defer o.stop()
	if f.worst {
		if err := o.hide(ctx, f, rest); err != nil {
			return loss{}, err
		}
	}
	since := time.Now()
	if err := f.CutPower(ctx, gone.Zone); err != nil {
		return loss{}, err
	}
	if etcd == gone.Zone {
		o.awaitElection(ctx, f, rest)
	}
	lost := held(gone)
	first, err := f.taken(ctx, rest, lost, since)
	if err != nil {
		return loss{}, err
	}
	if err := sleep.For(ctx, time.Second); err != nil { // the spans are written meanwhile
		return loss{}, err
	}
	o.stop()
	last, err := o.last(rest, first, since)
	return loss{
		Locks: len(lost), Half: first.After(since, 50).Seconds(), All: first.After(since, 100).Seconds(),
		Etcd: etcd == gone.Zone, Elected: after(since, o.elected), Last: last, Load: load(),
	}, err
}

// taken waits until all those locks are led by the seats.
func (f *fleet) taken(ctx context.Context, seats []*trial.Seat, lost map[string]bool, since time.Time) (trial.When, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		first := trial.First(seats, since, "leading")
		for lock := range first {
			if !lost[lock] {
				delete(first, lock)
			}
		}
		if len(first) == len(lost) {
			return first, nil
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("%d locks of %d are led again: %w", len(first), len(lost), err)
		}
	}
}
