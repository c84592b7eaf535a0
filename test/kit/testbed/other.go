// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package testbed

import (
	"context"
	"errors"
	"syscall"
)

// NamespacesPossible says why this process cannot make network namespaces.
func NamespacesPossible() error { return errors.New("network namespaces exist on Linux only") }

// newNamespaces fails: Config does not let it come to this.
func newNamespaces(context.Context, []string) (fabric, error) { return nil, NamespacesPossible() }

// dieWithParent is not possible here: programs outlive a test process that is
// killed before Close.
func dieWithParent() *syscall.SysProcAttr { return nil }

// frozen cannot tell here; a stop signal works soon enough.
func frozen(int) bool { return true }
