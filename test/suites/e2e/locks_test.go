// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	leaselock "github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/multilock/twin"
)

func TestTheLocksHoldTheLawsOnARealAPIServer(t *testing.T) {
	g := newGround(t, harmless, "laws")
	client := g.client
	onAnnotation := func(kind annotation.Kind) func(t *testing.T, name string) locks.Lock {
		return func(t *testing.T, name string) locks.Lock {
			lock, err := annotation.New(annotation.Config{Client: client.CoreV1().RESTClient(), Kind: kind, Namespace: g.namespace, Name: name})
			must(t, err)
			return lock
		}
	}
	onLease := func(t *testing.T, name string) locks.Lock {
		lock := leaseLock(t, g.environment(), name)
		t.Cleanup(lock.Capabilities().CloseConnections)
		return lock
	}
	twin := func(kind annotation.Kind) func(t *testing.T, name string) locks.Lock {
		return func(t *testing.T, name string) locks.Lock {
			lock, err := g.environment().Twin(name, twin.Config{Kind: kind})
			must(t, err)
			t.Cleanup(lock.Capabilities().CloseConnections)
			return lock
		}
	}
	type deleter func(ctx context.Context, name string, options metav1.DeleteOptions) error
	leases, configMaps := client.CoordinationV1().Leases(g.namespace).Delete, client.CoreV1().ConfigMaps(g.namespace).Delete
	endpoints := client.CoreV1().Endpoints(g.namespace).Delete //nolint:staticcheck // deprecated, but what the old lock stands on
	names := 0
	for kind, tc := range map[string]struct {
		lock   func(t *testing.T, name string) locks.Lock
		delete []deleter
	}{
		"lease":             {onLease, []deleter{leases}},
		"configmaps":        {onAnnotation(annotation.ConfigMaps), []deleter{configMaps}},
		"endpoints":         {onAnnotation(annotation.Endpoints), []deleter{endpoints}},
		"twin of configmap": {twin(annotation.ConfigMaps), []deleter{configMaps, leases}},
		"twin of endpoints": {twin(annotation.Endpoints), []deleter{leases, endpoints}},
	} {
		t.Run(kind, func(t *testing.T) {
			lockstest.RunSuite(t, lockstest.Suite{
				New: func(t *testing.T) locks.Lock {
					names++
					return tc.lock(t, fmt.Sprint("lock-", names))
				},
				Delete: func(t *testing.T, l locks.Lock) {
					for _, remove := range tc.delete {
						must(t, remove(t.Context(), l.Describe().Name, metav1.DeleteOptions{}))
					}
				},
			})
		})
	}
}

// leaseLock is a lock on a Lease, on connections of its own. No migration counts for it.
func leaseLock(t *testing.T, e *environment.Environment, name string) *leaselock.Lock {
	t.Helper()
	clients, err := e.Clients()
	must(t, err)
	lock, err := leaselock.New(e.Lease(clients, name))
	must(t, err)
	return lock
}

// environment is one on a server of the ground.
func (g *ground) environment() *environment.Environment {
	return &environment.Environment{Config: g.Cluster.RESTConfig("za"), Namespace: g.namespace, Timing: election.Timing{}.WithDefaults()}
}
