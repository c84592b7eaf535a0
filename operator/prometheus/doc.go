// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus shows the metrics of elections to Prometheus. It is a module of its own,
// because package operator does not depend on Prometheus. docs/metrics.md lists the metrics.
//
//   - [Serve] is an endpoint, for programs that have none.
//   - [NewProvider] adds the metrics to the registry of a program that has one, such as
//     Registry of controller-runtime's package metrics.
package prometheus

// The goroutines
//
// These functions start goroutines; a test checks the list against the code.
//
//	endpoint.go  Serve  answers requests; until the endpoint is closed, which waits for it
