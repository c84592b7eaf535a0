// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	_ "github.com/go-logr/logr/funcr"
	_ "github.com/go-logr/stdr"
	_ "github.com/spf13/pflag"
	_ "github.com/zonelect/zonelect/election"
	_ "github.com/zonelect/zonelect/election/electiontest"
	_ "github.com/zonelect/zonelect/locks/lease"
	_ "go.opentelemetry.io/otel/attribute"
	_ "go.opentelemetry.io/otel/metric"
	_ "go.opentelemetry.io/otel/sdk/metric"
	_ "go.opentelemetry.io/otel/sdk/metric/metricdata"
	_ "go.opentelemetry.io/otel/sdk/trace"
	_ "go.opentelemetry.io/otel/sdk/trace/tracetest"
	_ "go.opentelemetry.io/otel/trace"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/tools/leaderelection"
	_ "k8s.io/client-go/tools/record"
)
