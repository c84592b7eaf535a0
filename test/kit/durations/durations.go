// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package durations records how long something took in real time, for people to
// compare. A test on a busy machine fails for no duration.
package durations

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// line is one line of build/durations.jsonl.
type line struct {
	Test     string `json:"test"`
	What     string `json:"what"`
	MS       int64  `json:"ms"`
	ClientGo int64  `json:"clientGoMS,omitempty"` // what client-go's elector took in the same run
	Load     string `json:"load"`                 // of the machine, as /proc/loadavg has it
}

// Record notes how long something took in a test.
func Record(test, what string, took time.Duration) error { return Beside(test, what, took, 0) }

// Beside is Record with what client-go's elector took in the same run.
func Beside(test, what string, took, clientGo time.Duration) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg") // elsewhere it is not known
	text, err := json.Marshal(line{test, what, took.Milliseconds(), clientGo.Milliseconds(), strings.TrimSpace(string(load))})
	if err != nil {
		return fmt.Errorf("record a duration: %w", err)
	}
	name := filepath.Join(root, "build", "durations.jsonl")
	made := os.MkdirAll(filepath.Dir(name), 0o750)
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record a duration: %w", errors.Join(made, err))
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}
