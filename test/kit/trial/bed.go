// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"os"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// Version is the environment variable with the version of Kubernetes for all
// tests whose testbed names none; see testbed.Config.
const Version = "ZONELECT_KUBERNETES"

// Bed starts a testbed that ends with the test. It skips the test under -short.
func Bed(t *testing.T, config testbed.Config) *testbed.Testbed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real control plane: run without -short")
	}
	config.Kubernetes = cmp.Or(config.Kubernetes, os.Getenv(Version))
	config.Progress = t.Output()
	b, err := testbed.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
