// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// sighting is one version of a Lease.
type sighting struct {
	at    time.Time
	lease *coordinationv1.Lease
}

func (s sighting) holder() string {
	if h := s.lease.Spec.HolderIdentity; h != nil {
		return *h
	}
	return ""
}

// outsider watches all Leases by the API servers of all zones, and knows nothing of the
// candidates but the names of their pods. A version of a Lease can be seen late and never too
// early, so the first sighting counts.
type outsider struct {
	mu  sync.Mutex
	all map[uint64]sighting // by resourceVersion
}

// watch notes what the API server of a zone tells until the test ends.
func (o *outsider) watch(t *testing.T, ctx context.Context, cfg *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	t.Cleanup(func() { stop(); watching.Wait() })
	watching.Go(func() {
		for ctx.Err() == nil {
			w, err := client.CoordinationV1().Leases("default").Watch(ctx, metav1.ListOptions{})
			if err != nil { // the zone is dark: another zone's API server tells
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				continue
			}
			for e := range w.ResultChan() {
				if lease, is := e.Object.(*coordinationv1.Lease); is && e.Type != watch.Deleted {
					o.note(sighting{time.Now(), lease})
				}
			}
		}
	})
}

func (o *outsider) note(s sighting) {
	version, err := strconv.ParseUint(s.lease.ResourceVersion, 10, 64)
	if err != nil {
		return // not reached: versions are revisions of etcd
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, seen := o.all[version]; !seen {
		o.all[version] = s
	}
}

// sightings returns what was seen so far, in the order in which it was written.
func (o *outsider) sightings() (all []sighting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, version := range slices.Sorted(maps.Keys(o.all)) {
		all = append(all, o.all[version])
	}
	return all
}

// takeover is how a lock changed hands, as seen from outside.
type takeover struct {
	life  time.Time // the last renewal or release of whoever led before
	taken time.Time // the first version of the Lease that names a process of the winner's pod
}

// takeover looks for the first takeover of a lock by a pod that was seen after a time.
func (o *outsider) takeover(lock, pod string, since time.Time) (t takeover, seen bool) {
	life := time.Time{}
	for _, s := range o.sightings() {
		switch {
		case s.lease.Name == lock && s.at.After(since) && strings.HasPrefix(s.holder(), pod):
			return takeover{life, s.at}, true
		case s.lease.Name == lock:
			life = s.at
		}
	}
	return takeover{}, false
}

// renewals returns how many signs of life of a lock's holder were seen after a time, and when
// the last one was.
func (o *outsider) renewals(lock string, since time.Time) (count int, last time.Time) {
	for _, s := range o.sightings() {
		if s.lease.Name == lock && s.holder() != "" && s.at.After(since) {
			count, last = count+1, s.at
		}
	}
	return count, last
}
