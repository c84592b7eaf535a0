// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

// The published modules demand the oldest versions that they support (docs/compatibility.md), and
// test/go.mod the newest, so that the workspace is built and tested with those. These two are
// dependencies of the plugin alone, and are named here so that go mod tidy keeps them.
import (
	_ "github.com/spf13/cobra"
	_ "k8s.io/cli-runtime/pkg/genericiooptions"
)
