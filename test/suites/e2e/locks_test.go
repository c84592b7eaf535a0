// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"fmt"
	"github.com/zonelect/zonelect/internal/environment"
	"k8s.io/client-go/rest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestTheLocksHoldTheLawsOnARealAPIServer(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	if err != nil {
		t.Fatal(err)
	}
	onAnnotation := func(kind annotation.Kind) func(t *testing.T, name string) locks.Lock {
		return func(t *testing.T, name string) locks.Lock {
			lock, err := annotation.New(annotation.Config{Client: client.CoreV1().RESTClient(), Kind: kind, Namespace: "default", Name: name})
			must(t, err)
			return lock
		}
	}
	onLease := func(t *testing.T, name string) locks.Lock {
		lock, err := at(b.Cluster.RESTConfig("za"), election.Timing{}).LeaseLock(name)
		must(t, err)
		t.Cleanup(lock.Capabilities().CloseConnections)
		return lock
	}
	twin := func(kind annotation.Kind) func(t *testing.T, name string) locks.Lock {
		return func(t *testing.T, name string) locks.Lock {
			lock, err := at(b.Cluster.RESTConfig("za"), election.Timing{}).Twin(name, twin.Config{Kind: kind})
			must(t, err)
			t.Cleanup(lock.Capabilities().CloseConnections)
			return lock
		}
	}
	leases, configMaps := client.CoordinationV1().Leases("default").Delete, client.CoreV1().ConfigMaps("default").Delete
	endpoints := client.CoreV1().Endpoints("default").Delete //nolint:staticcheck // deprecated, but what the old lock stands on
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

// at returns an environment on that server.
func at(cfg *rest.Config, timing election.Timing) *environment.Environment {
	return &environment.Environment{Config: cfg, Namespace: "default", Timing: timing.WithDefaults()}
}
