// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the objects of this directory that grant something, for
// kubectl zonelect rights: whoever installed the plugin alone has no such directory.
package config

import "embed"

// Files are those objects, by their paths in this directory: WHOSE/NAME/FILE.
//
//go:embed operator/*/role.yaml people/*/role.yaml cluster/flowcontrol/leases.yaml
var Files embed.FS
