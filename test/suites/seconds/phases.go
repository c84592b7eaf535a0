// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// phases say when things happened to the lock that was led last, in seconds after the cut.
type phases struct {
	// Seen is when its new leader first saw the last renewal. It is negative if the watch had
	// reported it before the cut. Free is a LeaseDuration later.
	Seen float64 `json:"seen"`
	Free float64 `json:"free"`
	// Claimed is when the new leader asked for the lock, after its takeover delay. Withdrawn is
	// when somebody had withdrawn the heartbeat that kept all the locks.
	Claimed   float64 `json:"claimed"`
	Withdrawn float64 `json:"withdrawn"`
	Taken     float64 `json:"taken"` // when the lock was written
	Led       float64 `json:"led"`   // when the work began
}

// observer observes a loss from outside: when etcd has a leader again, and when the
// heartbeat is withdrawn that kept the locks.
type observer struct {
	end  context.CancelFunc
	wait sync.WaitGroup

	mu        sync.Mutex
	beat      time.Time // when the last heartbeat was sent that was seen
	elected   time.Time
	withdrawn time.Time
}

// observe begins to observe the loss of a seat's zone, by a zone that goes on. If etcd's
// leader is in the lost zone, it waits for another one after the cut.
func (f *fleet) observe(ctx context.Context, gone *trial.Seat, rest []*trial.Seat) (*observer, error) {
	client, err := kubernetes.NewForConfig(f.Cluster.RESTConfig(rest[0].Zone))
	if err != nil {
		return nil, fmt.Errorf("observe the heartbeats: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	watch, err := client.CoordinationV1().Leases("default").Watch(ctx, metav1.ListOptions{LabelSelector: record.LabelRole + "=" + record.RoleHeartbeat})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("observe the heartbeats: %w", err)
	}
	o := &observer{end: cancel}
	o.wait.Go(func() {
		defer watch.Stop()
		name := ""
		for event := range watch.ResultChan() {
			lease, is := event.Object.(*coordinationv1.Lease)
			switch {
			case !is || lease.Spec.HolderIdentity == nil:
			case *lease.Spec.HolderIdentity == gone.Identity:
				name = lease.Name
				o.mu.Lock()
				o.beat = record.Read(lease).RenewTime
				o.mu.Unlock()
			case lease.Name == name:
				o.note(&o.withdrawn)
			}
		}
	})
	return o, nil
}

// note notes that something has happened for the first time.
func (o *observer) note(at *time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.IsZero() {
		*at = time.Now()
	}
}

// awaitBeat waits for a heartbeat that was sent after another one, and returns when.
func (o *observer) awaitBeat(ctx context.Context, last time.Time) (time.Time, error) {
	for {
		o.mu.Lock()
		beat := o.beat
		o.mu.Unlock()
		if beat.After(last) {
			return beat, nil
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return beat, fmt.Errorf("wait for a heartbeat: %w", err)
		}
	}
}

// hide lets all connections of the seats die, and returns when a heartbeat has landed of which
// they have not heard.
func (o *observer) hide(ctx context.Context, f *fleet, seats []*trial.Seat) error {
	seen, err := o.awaitBeat(ctx, time.Now())
	if err != nil {
		return err
	}
	if err := sleep.For(ctx, time.Until(seen.Add(timing.Fast().RenewInterval-250*time.Millisecond))); err != nil {
		return err
	}
	for _, s := range seats {
		if err := f.Network.SilenceConnections(s.Zone, testbed.BothWays); err != nil {
			return err
		}
	}
	_, err = o.awaitBeat(ctx, time.Now())
	return err
}

// awaitElection notes when one of the zones leads etcd.
func (o *observer) awaitElection(ctx context.Context, f *fleet, seats []*trial.Seat) {
	var zones []string
	for _, s := range seats {
		zones = append(zones, s.Zone)
	}
	o.wait.Go(func() {
		if _, err := f.Parts.EtcdLeader(ctx, zones...); err == nil {
			o.note(&o.elected)
		}
	})
}

// stop ends the observation.
func (o *observer) stop() {
	o.end()
	o.wait.Wait()
}

// last returns the phases of the lock that was led last.
func (o *observer) last(seats []*trial.Seat, first trial.When, since time.Time) (phases, error) {
	lock := ""
	for l, at := range first {
		if lock == "" || at.After(first[lock]) {
			lock = l
		}
	}
	for _, s := range seats {
		all, err := spans.Failovers(s.Traces)
		if err != nil {
			return phases{}, err
		}
		for _, one := range all {
			if one.Attribute("election.lock.name") == lock && one.EndTime.After(since) {
				return o.phases(one, first[lock], since), nil
			}
		}
	}
	return phases{}, fmt.Errorf("no span tells how %s was taken over", lock)
}

func (o *observer) phases(f spans.Failover, led, since time.Time) phases {
	acquire := f.Phase("election.acquire")
	return phases{
		Seen: after(since, f.StartTime), Free: after(since, f.Phase("election.silence").EndTime), Claimed: after(since, acquire.StartTime),
		Withdrawn: after(since, o.withdrawn), Taken: after(since, acquire.EndTime), Led: after(since, led),
	}
}

// after is how many seconds one moment is after another; zero if it never came.
func after(since, at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return at.Sub(since).Seconds()
}

// load is how busy the machine is: the average of a minute; empty where nobody says.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // Linux has it
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
