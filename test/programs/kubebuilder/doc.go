// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubebuilder is the module of the programs that scaffold a project, as its users do:
// kubebuilder, and controller-gen for what its Makefile generates.
//
// It is a module of its own, so that what it depends on raises no version of other modules.
package kubebuilder
