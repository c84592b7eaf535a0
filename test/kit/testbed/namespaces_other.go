// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testbed

import (
	"context"
	"errors"
)

// NamespacesPossible returns nil if this process can make network namespaces,
// or else why it cannot.
func NamespacesPossible() error {
	return errors.New("network namespaces exist on Linux only")
}

// newNamespaces fails: Config does not let it come to this.
func newNamespaces(context.Context, []string) (fabric, error) {
	return nil, NamespacesPossible()
}
