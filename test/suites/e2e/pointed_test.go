// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// pointed is where the Service of a test pointed.
type pointed struct {
	mu  sync.Mutex
	all history.Pointings
}

// versions returns all that was seen.
func (p *pointed) versions() history.Pointings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// to is the address that the Service points to now; empty for none.
func (p *pointed) to() string { return p.versions().At(time.Now()).To() }

// follow watches the EndpointSlices of a Service in a zone.
func (p *pointed) follow(t *testing.T, ctx context.Context, b *testbed.Testbed, zone, namespace, service string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig(zone))
	must(t, err)
	w, err := client.DiscoveryV1().EndpointSlices(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	must(t, err)
	var following sync.WaitGroup
	t.Cleanup(func() { w.Stop(); following.Wait() })
	following.Go(func() {
		for e := range w.ResultChan() {
			if slice, is := e.Object.(*discoveryv1.EndpointSlice); is {
				p.mu.Lock()
				p.all = append(p.all, history.PointingOf(slice, time.Now()))
				p.mu.Unlock()
			}
		}
	})
}
