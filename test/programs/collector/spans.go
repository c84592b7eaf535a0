// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// spansConfig configures the exporter "spans".
type spansConfig struct {
	// Path is the file to which each request is appended as one line of OTLP's JSON, which
	// is the format of the exporter "file" of the collector's contrib distribution.
	Path string `mapstructure:"path"`
}

// Validate is called by the collector.
func (c *spansConfig) Validate() error {
	if c.Path == "" {
		return fmt.Errorf("path is missing: the file for the spans")
	}
	return nil
}

func newSpansFactory() exporter.Factory {
	return exporter.NewFactory(component.MustNewType("spans"), func() component.Config { return &spansConfig{} },
		exporter.WithTraces(newSpans, component.StabilityLevelStable))
}

func newSpans(ctx context.Context, set exporter.Settings, config component.Config) (exporter.Traces, error) {
	file, err := os.OpenFile(config.(*spansConfig).Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the file for the spans: %w", err)
	}
	write := func(_ context.Context, spans ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(spans)
		if err == nil {
			_, err = file.Write(append(line, '\n')) // in one piece: readers see whole lines
		}
		return err
	}
	return exporterhelper.NewTraces(ctx, set, config, write,
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		exporterhelper.WithShutdown(func(context.Context) error { return file.Close() }))
}
