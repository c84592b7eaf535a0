// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// plain is one apiserver, for trials that need processes and no networks.
var plain = testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true}

// ownGround is a control plane for one test.
func ownGround(t *testing.T, config testbed.Config) *ground {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real control plane: run without -short")
	}
	config.Kubernetes, config.Progress = os.Getenv(version), t.Output()
	b, err := testbed.Start(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	zones := b.Zones()
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig(zones[len(zones)-1]))
	must(t, err)
	return &ground{b, "default", client}
}
