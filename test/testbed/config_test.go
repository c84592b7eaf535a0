// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConfigDefaults(t *testing.T) {
	config, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Zones, []string{"za", "zb", "zc"}) || config.Topology != Stacked || config.Network == Auto {
		t.Errorf("the defaults are %+v", config)
	}
}

func TestConfigRefuses(t *testing.T) {
	for wrong, config := range map[string]Config{
		"named twice":      {Zones: []string{"za", "za"}},
		"DNS label":        {Zones: []string{"Z_1"}},
		"unknown topology": {Topology: 9},
		"unknown network":  {Network: 9},
		"at most":          {Zones: make([]string, maxZones+1)},
	} {
		if _, err := config.withDefaults(); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%+v: %v, want an error that says %q", config, err, wrong)
		}
	}
}

func TestNewer(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	for _, file := range []string{source, target} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for age, want := range map[time.Duration]bool{-time.Hour: true, time.Hour: false} {
		at := time.Now().Add(age)
		if err := os.Chtimes(source, at, at); err != nil {
			t.Fatal(err)
		}
		if got, err := newer(target, dir); got != want || err != nil {
			t.Errorf("with sources %s old the program is newer: %v (%v), want %v", -age, got, err, want)
		}
	}
	if got, err := newer(filepath.Join(dir, "missing"), dir); got || err != nil {
		t.Errorf("a missing program is newer: %v (%v)", got, err)
	}
}

func TestWithoutProxies(t *testing.T) {
	got := withoutProxies([]string{"PATH=x", "https_proxy=y", "HTTPS_PROXY=y", "NO_PROXY=z"})
	if !slices.Equal(got, []string{"PATH=x"}) {
		t.Errorf("kept %v", got)
	}
}
