// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/history"
)

// sampleLock is the lock that config/operator grants, and sampleService the Service.
const sampleLock, sampleService = "my-operator", "my-operator-leader"

// service is the Service that points to the group's leader; empty for none. Nothing is promised
// for a group with a candidate of client-go's, which writes no EndpointSlice.
func (g *group) service() string {
	if !g.stage.plan.Service || !g.ours() || g.peer != "" {
		return ""
	}
	return g.name + "-leader"
}

// endpoints is the name of that Service's EndpointSlice.
func endpoints(service string) string { return service + "-zonelect" }

// address is that of a group's n-th candidate, which is in that zone.
func address(zone string, n int) string {
	return fmt.Sprintf("10.0.%d.%d", slices.Index(zones, zone)+1, n+1)
}

// serviceArgs are the flags of a candidate with that address.
func (g *group) serviceArgs(address string) []string {
	if g.service() == "" {
		return nil
	}
	return []string{"--leader-service", g.service(), "--pod-ip", address}
}

// grants are the directories under config/operator whose rights the group's user has.
func (g *group) grants() []string {
	if g.service() == "" {
		return g.roles
	}
	return append(slices.Clone(g.roles), "leader-service")
}

// addService makes the Service of a group.
func (s *stage) addService(ctx context.Context, g *group) error {
	if g.service() == "" {
		return nil
	}
	err := s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: g.service()},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("make the Service %s: %w", g.service(), err)
	}
	return nil
}

// renamed are rules of config/operator for a group's own lock and Service. Those for many locks are
// limited to no names.
func (g *group) renamed(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	names := map[string]string{sampleLock: g.name, sampleService: g.service(), endpoints(sampleService): endpoints(g.service())}
	for i := range rules {
		if g.locks > 0 && slices.Contains(rules[i].ResourceNames, sampleLock) {
			rules[i].ResourceNames = nil
		}
		for j, name := range rules[i].ResourceNames {
			if own, is := names[name]; is {
				rules[i].ResourceNames[j] = own
			}
		}
	}
	return rules
}

// routes is what is seen of a run's Services from outside, as it happens. It is nil for a run without.
type routes struct {
	stop     context.CancelFunc
	watching sync.WaitGroup

	mu   sync.Mutex
	seen map[string]map[uint64]history.Pointing // by EndpointSlice, and by version
	all  chan struct{}                          // closed when the last one was seen
	once sync.Once
}

// lastRoute is an EndpointSlice that marks the end of what is seen.
const lastRoute = "end"

// watchRoutes watches the EndpointSlices of a run, from a revision of etcd's on. It asks the member
// of each zone, because two of them may be away, and notes when the first had a version.
func (s *stage) watchRoutes(ctx context.Context, from int64) *routes {
	if !s.plan.Service {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	r := &routes{stop: stop, seen: map[string]map[uint64]history.Pointing{}, all: make(chan struct{})}
	for _, zone := range zones {
		member := etcd{s.bed.Cluster.EtcdURL(zone)}
		r.watching.Go(func() { r.watch(ctx, member, s.namespace, from) })
	}
	return r
}

// watch watches one member until ctx ends, or the last one was seen.
func (r *routes) watch(ctx context.Context, member etcd, namespace string, from int64) {
	first := []byte("/registry/endpointslices/" + namespace + "/")
	end := append(first[:len(first)-1:len(first)-1], '/'+1)
	for ctx.Err() == nil {
		err := member.watch(ctx, first, end, from, func(c change) (last bool, err error) {
			p, err := c.pointing()
			if err != nil {
				return false, err
			}
			from = int64(p.Version) // what came with it in one revision is not noted twice
			return r.note(path.Base(string(c.KV.Key)), p), nil
		})
		if err == nil {
			return
		}
		_ = sleep.For(ctx, 100*time.Millisecond) // the member is away
	}
}

// note adds a version. It reports whether that is the mark of the end.
func (r *routes) note(slice string, p history.Pointing) (last bool) {
	if slice == lastRoute {
		r.once.Do(func() { close(r.all) })
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[slice] == nil {
		r.seen[slice] = map[uint64]history.Pointing{}
	}
	if _, known := r.seen[slice][p.Version]; !known {
		r.seen[slice][p.Version] = p
	}
	return false
}

// of returns what was seen of a Service so far.
func (r *routes) of(service string) (all history.Pointings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.seen[endpoints(service)] {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b history.Pointing) int { return cmp.Compare(a.Version, b.Version) })
	return all
}

// finish waits until everything was seen.
func (r *routes) finish(ctx context.Context, s *stage) error {
	if r == nil {
		return nil
	}
	err := s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.DiscoveryV1().EndpointSlices(s.namespace).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: lastRoute}, AddressType: discoveryv1.AddressTypeIPv4,
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("mark the end of what the Services pointed to: %w", err)
	}
	select {
	case <-r.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read where the Services pointed to: %w", errors.Join(errMissed, ctx.Err()))
	}
}

// close ends the watches.
func (r *routes) close() {
	if r == nil {
		return
	}
	r.stop()
	r.watching.Wait()
}

// pointed waits until the group's Service points to its leader, for as long as that may take since
// then. The judge says if it did not.
func (g *group) pointed(ctx context.Context, since time.Time) error {
	if g.service() == "" {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, since.Add(routing(g.stage.plan.longest())+busy))
	defer cancel()
	for {
		leader, err := g.leader()
		if all := g.stage.routes.of(g.service()); err == nil && len(all) > 0 && all[len(all)-1].To() == leader.address {
			return nil
		}
		if err := sleep.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait until the Service of %s points to its leader: %w", g.name, err)
		}
	}
}

// routed is where the group's Service pointed; nil if it has none.
func (g *group) routed(unread error) *routed {
	if g.service() == "" {
		return nil
	}
	r := &routed{Seen: g.stage.routes.of(g.service()), Unread: unread != nil, Addresses: map[string]string{}}
	for _, one := range g.all() {
		r.Addresses[one.Identity] = one.address
	}
	return r
}

// tellServices prints how Services fared in the runs of a ledger. It prints nothing if there were none.
func tellServices(to io.Writer, all []result) error {
	var versions, terms, unsafe, astray, runs int
	var slowest []time.Duration
	for _, r := range all {
		if r.Service && r.Verdict != void {
			runs++
		}
		for _, g := range r.Groups {
			if g.Service == nil || r.Verdict == void {
				continue
			}
			versions, terms = versions+g.Service.Versions, terms+g.Service.Terms
			unsafe, astray = unsafe+g.Service.Unsafe, astray+g.Service.Astray
			slowest = append(slowest, g.Service.Slowest.Duration)
		}
	}
	if len(slowest) == 0 {
		return nil
	}
	slices.Sort(slowest)
	_, err := fmt.Fprintf(to, "In %d runs Services pointed to the leaders of %d terms, in %d versions: %d of them must not be, and %d leaders waited too long.\nThe slowest of a run took %v in the median, and %v at most, outages included.\n",
		runs, terms, versions, unsafe, astray, slowest[len(slowest)/2], slowest[len(slowest)-1])
	return err
}
