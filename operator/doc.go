// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator is what an operator imports to elect one leader among its
// replicas. One call does it:
//
//   - [Run] calls the work whenever this process leads. Start here.
//   - [NewGroup] is for programs with several locks, which share clients, identity and presence.
//   - [Become] blocks until this process leads, for programs that call leader.Become of
//     operator-sdk today.
//   - NewLasting of package ctrlruntime, a module of its own, is for managers of
//     controller-runtime. Package leaderelection, another one, has the names of client-go's package for
//     programs that call its RunOrDie or NewLeaderElector.
//   - Run of package prometheus, a module of its own, is Run with an endpoint for Prometheus.
//
// In a pod the zero [Options] are enough, with a Role that allows get, list, create, update
// and watch on leases, and get on pods, and get on configmaps; config/operator/lease of the
// repository has that Role. Errors are logged to slog's default logger unless the options or the context have
// another. [Options.AddFlags], [Options.AddGoFlags] and [Options.FromEnvironment] let users
// change the options. [GuardConfig] makes a client for the work that writes only while this
// process leads.
package operator

// The goroutines
//
// These functions start goroutines; a test checks the list against the code. client-go's
// broadcaster of Events starts its own, until the end of Run.
//
//	election.go                     Options.Become          the election of a program that waits to lead; until done, or its context ends
//	election.go                     Election.Run            tells the other candidates of its own health; until the end of Run
//	internal/events/events.go       Post                    posts Events; until the end of Run
//	election.go                     Election.exitOnOverrun  logs that the process ends; until then
//	group.go                        Group.start             keeps the presence object; until the last election ends
//	group.go                        Group.start             passes on the zone of this process; the same
//	../internal/transport/conns.go  conns.until             ends a dial when all connections are closed; none before that
//	../internal/transport/dial.go   dialer.dial             one dial; until it connects, or fails, or its limit
//	../internal/transport/lane.go   lane.askBoth            one of two requests; until its answer, and the answer to the other cancels it
//	../internal/transport/lane.go   lane.askBoth            takes the answer to the other; until that comes
