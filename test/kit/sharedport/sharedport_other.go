// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package sharedport

import "net"

var config net.ListenConfig
