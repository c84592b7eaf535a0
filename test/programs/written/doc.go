// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package written has programs that use client-go's leader election as its documentation shows it:
// a plain main, and one in the way of kube-scheduler with a check for its liveness. A test builds each
// as it stands and with the import of package leaderelection of zonelect. They print "working" when
// they begin to work and "idle" when they have stopped.
package written
