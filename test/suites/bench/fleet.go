// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// patience bounds each wait for a fleet.
const patience = 3 * time.Minute

// stage is where fleets are measured, one after the other.
type stage struct {
	*testbed.Testbed
	plan
	noise  map[string]float64 // requests for Leases each second that nobody measured sends, by verb
	fleets int
}

// outside is the kind of elections in no pod. Their presences are renewed, oftener at first than later.
const (
	outside     = "outside"
	outsideEven = 3 * time.Minute
)

// fleet is one process in each zone, in a namespace of its own. The first leads.
type fleet struct {
	*stage
	kind              string
	locks, candidates int // candidates of each process
	namespace         string
	client            kubernetes.Interface
	seats             []*trial.Seat
}

// say tells whoever waits what is measured now.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s scale: %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// launch starts a fleet and waits until the first process leads at all locks, and all know
// that.
func (s *stage) launch(ctx context.Context, kind string, locks, candidates int) (*fleet, error) {
	cfg, err := s.Cluster.Living()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	s.fleets++
	f := &fleet{stage: s, kind: kind, locks: locks, candidates: candidates, namespace: fmt.Sprint("fleet-", s.fleets), client: client}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	began := time.Now()
	for i, zone := range s.Zones() {
		if err := f.start(ctx, zone); err != nil {
			return f, err
		}
		if i > 0 {
			continue
		}
		if _, err := f.led(ctx, f.seats, began); err != nil {
			return f, err
		}
	}
	return f, f.known(ctx)
}

// start starts a process.
func (f *fleet) start(ctx context.Context, zone string) error {
	name := fmt.Sprintf("%s-%s-%d", f.namespace, zone, len(f.seats))
	args := []string{"--kind", f.kind, "--namespace", f.namespace, "--locks", fmt.Sprint(f.locks), "--candidates", fmt.Sprint(f.candidates)}
	pod, err := f.client.CoreV1().Pods(f.namespace).Create(ctx, testbed.PodManifest(zone, name, f.namespace, nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if f.kind != outside {
		args = append(args, "--pod-name", name, "--pod-uid", string(pod.UID))
	}
	s, err := trial.Start(ctx, f.Testbed, trial.Many, zone, "lock", name, args...)
	if err == nil {
		f.seats = append(f.seats, s)
	}
	return err
}

// led waits until any of the seats lead at all locks.
func (f *fleet) led(ctx context.Context, seats []*trial.Seat, since time.Time) (trial.When, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return trial.AwaitLocks(ctx, seats, f.locks, since, "leading")
}

// known waits until all candidates know a leader and the fleet only goes on: what is left to
// say about new terms is written.
func (f *fleet) known(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, s := range f.seats {
		for counted(s).Known < f.locks*f.candidates {
			if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("%s knows the leaders for %d candidates of %d: %w", s.Identity, counted(s).Known, f.locks*f.candidates, err)
			}
		}
	}
	return f.settle(ctx)
}

// settle waits until the fleet writes about as often in one span as in the next, but not
// forever: it may never do so on a busy machine.
func (f *fleet) settle(ctx context.Context) error {
	const span, spans = 3 * time.Second, 15
	last, err := f.served(ctx)
	if err != nil {
		return err
	}
	before := -1
	for range spans {
		if err := sleep.For(ctx, span); err != nil {
			return err
		}
		now, err := f.served(ctx)
		if err != nil {
			return err
		}
		puts := now.Requests["PUT"] - last.Requests["PUT"]
		if before >= 0 && max(puts, before)-min(puts, before) <= 5+before/5 {
			return nil
		}
		last, before = now, puts
	}
	return nil
}

// end kills the fleet and removes its Leases.
func (f *fleet) end(ctx context.Context) error {
	for _, s := range f.seats {
		if err := s.Kill(); err != nil {
			return err
		}
		<-s.Done()
	}
	cfg, err := f.Cluster.Living()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return client.CoordinationV1().Leases(f.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}
