// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator is what an operator imports to take part in an election. Run
// is all that most need, or Become for those who called operator-sdk's function
// of that name; Options can be set by flags and by the environment.
//
// A program that has client-go's elector gives it a Bridge for a lock, one of
// controller-runtime calls NewManager of package ctrlruntime. GuardConfig is for
// the clients that the leader's work writes with.
//
// The parts can be had one by one: who this process is (WhoAmI), where the API
// server is (RESTConfig), and the locks, on connections that notice within
// seconds when a zone has died.
package operator
