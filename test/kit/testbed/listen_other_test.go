// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package testbed

import "net"

// listenConfig listens on ports that the testbed has found free.
var listenConfig net.ListenConfig
