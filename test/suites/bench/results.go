// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// Results are what was measured.
type Results struct {
	Runs      []string // when and on what it was measured, and how busy that was at the beginning
	Idle      []Idle
	Takeovers []Takeover
}

// Idle is what a fleet of three processes costs that only goes on. Requests are those for
// Leases.
type Idle struct {
	Kind        string
	Locks       int
	Candidates  int                // for each lock
	Verbs       map[string]float64 // requests each second
	Requests    float64            // each second
	Bytes       float64            // each second, read and written by all processes
	Connections int                // of all processes
	Watches     int
	ClientCPU   float64 // cores, of all processes
	ServerCPU   float64 // of all API servers
	EtcdCPU     float64 // of all members
	RSS         int64   // of the largest process, in bytes
	Goroutines  int     // of the process that has the most
}

// Takeover is how soon others led when the process that led at all locks went. Times are in
// seconds.
type Takeover struct {
	Kind            string
	Locks           int
	Candidates      int
	Way             string
	Led             int     // locks that were led again
	Half, Most, All float64 // until 50 %, 99 % and all of the locks were; zero if they never were
	Writes          int     // of Leases, renewals included, until all were; zero where they cannot be counted
}

// key names what an Idle measures.
func (i Idle) key() string {
	return fmt.Sprintf("%s, %d locks, %d candidates", i.Kind, i.Locks, i.Candidates)
}

func (t Takeover) key() string {
	return fmt.Sprintf("%s, %d locks, %d candidates, %s", t.Kind, t.Locks, t.Candidates, t.Way)
}

// machine describes what it is measured on.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg") // elsewhere it is not known
	one, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s/%s, %d CPUs, load %s at the beginning", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), one)
}

// describe describes a run that is over.
func describe(b *testbed.Testbed, machine string, began time.Time) string {
	network := testbed.Namespaces
	if strings.Contains(b.Cluster.Server(b.Zones()[0]), "127.0.0.1") {
		network = testbed.Links
	}
	return fmt.Sprintf("%s: %s; zones are joined by %v; took %v", began.Format("2006-01-02"), machine, network, time.Since(began).Round(time.Second))
}

// over returns the results of an earlier run, with those of r in place of its own.
func (r *Results) over(before *Results) *Results {
	all := &Results{Runs: append(slices.Clone(before.Runs), r.Runs...)}
	all.Idle = merged(before.Idle, r.Idle, Idle.key)
	all.Takeovers = merged(before.Takeovers, r.Takeovers, Takeover.key)
	return all
}

func merged[T any](before, now []T, key func(T) string) []T {
	all := slices.DeleteFunc(slices.Clone(before), func(b T) bool {
		return slices.ContainsFunc(now, func(n T) bool { return key(n) == key(b) })
	})
	return append(all, now...)
}

// load reads results; there are none if there is no such file.
func load(file string) (*Results, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Results{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the results: %w", err)
	}
	r := &Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the results in %s: %w", file, err)
	}
	return r, nil
}

// save writes the results as JSON.
func (r *Results) save(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return put(file, append(text, '\n'))
}

func put(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make a directory for the results: %w", err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// round keeps three digits after the point.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func seconds(d time.Duration) float64 { return round(d.Seconds()) }
