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
	// All have the same age: a file that is written later may carry a later
	// time, or not.
	built := time.Now()
	for _, file := range []string{source, target, filepath.Join(dir, "v1.mod"), filepath.Join(dir, "v1.sum")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, built, built); err != nil {
			t.Fatal(err)
		}
	}
	for age, want := range map[time.Duration]bool{-time.Hour: true, time.Hour: false} {
		at := built.Add(age)
		if err := os.Chtimes(source, at, at); err != nil {
			t.Fatal(err)
		}
		if got, err := newer(target, dir, "v1.mod"); got != want || err != nil {
			t.Errorf("with sources %s old the program is newer: %v (%v), want %v", -age, got, err, want)
		}
	}
	if got, err := newer(filepath.Join(dir, "missing"), dir, "v1.mod"); got || err != nil {
		t.Errorf("a missing program is newer: %v (%v)", got, err)
	}
}

func TestEachVersionOfKubernetesIsWhatItsFileIsNamedFor(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "programs", "controlplane", "v*.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("versions of the control plane: %v (%v)", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		version := strings.TrimSuffix(filepath.Base(file), ".mod")
		if !strings.Contains(string(content), "\tk8s.io/kubernetes "+version+"\n") {
			t.Errorf("%s does not require it", file)
		}
		for line := range strings.Lines(string(content)) {
			_, staged, replaced := strings.Cut(line, " => k8s.io/")
			if want := " " + strings.Replace(version, "v1.", "v0.", 1) + "\n"; replaced && !strings.HasSuffix(staged, want) {
				t.Errorf("%s has a part of another version: %s", file, line)
			}
		}
	}
}

func TestAnUnknownVersionOfKubernetesIsRefusedWithTheKnown(t *testing.T) {
	_, err := Build(t.Context(), "v1.2.3", nil)
	if err == nil || !strings.Contains(err.Error(), "v1.33.13") {
		t.Errorf("%v, want an error that lists the versions", err)
	}
}

func TestWithoutProxies(t *testing.T) {
	got := withoutProxies([]string{"PATH=x", "https_proxy=y", "HTTPS_PROXY=y", "NO_PROXY=z"})
	if !slices.Equal(got, []string{"PATH=x"}) {
		t.Errorf("kept %v", got)
	}
}
