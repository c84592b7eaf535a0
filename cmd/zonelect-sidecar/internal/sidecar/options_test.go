// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package sidecar

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const named = "--leader-elect-resource-name=l"

func TestBadInputIsRefusedWithWhatToDo(t *testing.T) {
	for want, args := range map[string]string{
		"--leader-elect-resource-name is missing: name the Lease":      "-- sh",
		"install it in this image, or correct what follows --":         named + " -- no-such-program",
		"is not on the loopback interface: use an address such as":     named + " --address :4040",
		"--address 10.0.0.1:4040 is not on the loopback":               named + " --address 10.0.0.1:4040",
		"there is no command after --: name one, or leave -- out":      named + " --",
		"--address: address 4040: missing port":                        named + " --address 4040",
		"--metrics-bind-address: address 8080: missing port":           named + " --metrics-bind-address 8080",
		"lower --leader-elect-renew-deadline, or raise":                named + " --stop-grace 100ms",
		"use a LeaseDuration of at least 41s":                          named + " --stop-grace 30s",
		"the record holds whole seconds only: use 3s":                  named + " --leader-elect-lease-duration 2500ms --leader-elect-renew-deadline 2s --leader-elect-retry-period 1s",
		"unknown flag: --leader":                                       named + " --leader",
		`invalid argument "soon" for "--stop-grace" flag`:              named + " --stop-grace soon",
		"--leader-elect-resource-name is missing: name the Lease, the": "",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got: %v", args, want, err)
		}
	}
}

func TestTheVersionIsShownAndNothingIsRun(t *testing.T) {
	out := &bytes.Buffer{}
	if _, err := parse([]string{"--version", "--", "no-such-program"}, out); !errors.Is(err, errShown) || !strings.HasPrefix(out.String(), "zonelect-sidecar ") || !strings.Contains(out.String(), "(go1.") {
		t.Errorf("it says %q: %v", out, err)
	}
}

func TestTheCommandsFlagsAreItsOwn(t *testing.T) {
	for _, args := range []string{named + " -- sh -c true --address x", named + " sh -c true --address x"} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil || !slices.Equal(o.command, []string{"sh", "-c", "true", "--address", "x"}) || o.address != "" {
			t.Errorf("%q: command %q, address %q, %v", args, o.command, o.address, err)
		}
	}
}

func TestLeaderIsServedIfNoCommandIsRunOrIfThatIsWanted(t *testing.T) {
	for args, want := range map[string]string{
		named:                                   defaultAddress,
		named + " --address localhost:1":        "localhost:1",
		named + " --address [::1]:1":            "[::1]:1",
		named + " -- sh":                        "",
		named + " --address 127.0.0.1:1 -- sh":  "127.0.0.1:1",
		named + " --stop-grace 4s -- sh":        "",
		named + " --leader-elect=false -- true": "",
	} {
		if o, err := parse(strings.Fields(args), io.Discard); err != nil || o.address != want {
			t.Errorf("%q: served at %q, want %q, %v", args, o.address, want, err)
		}
	}
}

// TestWhatMayOutliveThisProcessIsNotProvenDeadByItsEnd: the tests are not the first process of
// a container either.
func TestWhatMayOutliveThisProcessIsNotProvenDeadByItsEnd(t *testing.T) {
	for _, args := range []string{named, named + " -- sh", named + " --address 127.0.0.1:1 -- sh"} {
		if o, err := parse(strings.Fields(args), io.Discard); err != nil || !o.WorkOutlivesProcess {
			t.Errorf("%q: the death of this process counts as the end of its work: %v", args, err)
		}
	}
	for _, tc := range []struct {
		command, address string
		pid              int
		want             bool
	}{
		{"sh", "", 1, false},
		{"sh", "", 2, true},
		{"sh", "127.0.0.1:1", 1, true},
		{"", "127.0.0.1:1", 1, true},
	} {
		o := options{command: strings.Fields(tc.command), address: tc.address}
		if got := o.outlives(tc.pid); got != tc.want {
			t.Errorf("%+v: the work may outlive the process: %v", tc, got)
		}
	}
}

func TestTheEnvironmentSetsWhatTheFlagsDoNot(t *testing.T) {
	t.Setenv("LEADER_ELECT_RESOURCE_NAME", "ours")
	t.Setenv("LEADER_ELECT_EXIT_ON_OVERRUN", "false")
	o, err := parse([]string{"--stop-grace=3s"}, io.Discard)
	if err != nil || o.Name != "ours" || o.ExitOnOverrun || o.Timing.StopGrace != 3*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestHelpDescribesEveryFlag(t *testing.T) {
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	for _, want := range []string{"-- command args...", "ZONELECT_TOKEN", "--address string", "--stop-grace duration", "--leader-elect-resource-name string"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help has no %q", want)
		}
	}
	if bare := regexp.MustCompile(`(?m)^\s+--\S+( \S+)?\s*$`).FindAllString(help.String(), -1); len(bare) > 0 {
		t.Errorf("flags without a word about them: %q", bare)
	}
}

func TestABadVariableIsExitCode2(t *testing.T) {
	for name, value := range map[string]string{
		"LEADER_ELECT_MODE": "atuo", "LEADER_ELECT_PREFERRED_ZONES": "zone a", "LEADER_ELECT_LEASE_DURATION": "soon", "LEADER_ELECT_LEASE_DURATON": "20s",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if code := Run(t.Context(), []string{named, "--", "true"}); code != codeUsage {
				t.Errorf("%s=%s gives exit code %d", name, value, code)
			}
		})
	}
}
