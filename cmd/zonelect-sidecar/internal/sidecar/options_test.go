// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

const named = "--leader-elect-resource-name=l"

func TestBadInputIsRefusedWithWhatToDo(t *testing.T) {
	for want, args := range map[string]string{
		"install it in this image, or correct what follows --":    named + " -- no-such-program",
		"--address :4040 is not a port on the loopback interface": named + " --address :4040",
		"--address 10.0.0.1:4040 is not a port on":                named + " --address 10.0.0.1:4040",
		"--address 4040 is not a port on":                         named + " --address 4040",
		"there is no command after --: name one, or leave -- out": named + " --",
		"lower --leader-elect-renew-deadline, or raise":           named + " --stop-grace 100ms",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got: %v", args, want, err)
		}
		if got := Run(t.Context(), strings.Fields(args)); got != codeUsage {
			t.Errorf("%q: exit code %d", args, got)
		}
	}
	if got := Run(t.Context(), []string{"--", "sh"}); got != codeUsage {
		t.Errorf("without a name: exit code %d", got)
	}
}

// TestLeaderIsServedIfNoCommandIsRunOrIfThatIsWanted: the flags of a command are its own.
func TestLeaderIsServedIfNoCommandIsRunOrIfThatIsWanted(t *testing.T) {
	for args, want := range map[string]string{
		named:                                   defaultAddress,
		named + " --address localhost:1":        "localhost:1",
		named + " --address [::1]:1":            "[::1]:1",
		named + " -- sh":                        "",
		named + " --address 127.0.0.1:1 -- sh":  "127.0.0.1:1",
		named + " --stop-grace 4s -- sh":        "",
		named + " --leader-elect=false -- true": "",
		named + " -- sh -c true --address x":    "",
		named + " sh -c true --address x":       "",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		_, command, _ := strings.Cut(args, "sh")
		if err != nil || o.address != want || command != "" && !slices.Equal(o.command, strings.Fields("sh"+command)) {
			t.Errorf("%q: served at %q, want %q, with command %q, %v", args, o.address, want, o.command, err)
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
	t.Setenv("LEADER_ELECT_LEASE_DURATION", "17s")
	o, err := parse([]string{"--stop-grace=3s", "--stop-timeout=7s"}, io.Discard)
	timed := o.Timing.LeaseDuration == 17*time.Second && o.Timing.StopGrace == 3*time.Second && o.Timing.StopTimeout == 7*time.Second
	if err != nil || o.Name != "ours" || !o.ExitOnOverrun || !timed {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestAReplicaWhoseProgramDoesNotAskSaysThatItIsUnhealthy, after a LeaseDuration. One that runs a command does not.
func TestAReplicaWhoseProgramDoesNotAskSaysThatItIsUnhealthy(t *testing.T) {
	said := make(chan string, 99)
	for i, role := range []string{"", roleObey} {
		b, lasts := newBench(t, role), time.Duration(2-i)*time.Second
		if b.options.address = free(); role == "" {
			b.options.command = nil
		}
		b.options.Timing = election.Timing{LeaseDuration: lasts, RenewDeadline: lasts / 2, RenewInterval: lasts / 10, Exclusive: true}
		b.server.Stored = func(_ *http.Request, _ string, _, after apitest.Object) {
			if strings.Contains(string(apitest.Marshal(after)), "no program has asked for "+lasts.String()) {
				said <- role
			}
		}
		b.run()
	}
	if role := <-said; role != "" {
		t.Errorf("a replica whose command is there to %s says so", role)
	}
}

// TestATakenPortIsAnErrorThatNamesTheFlag.
func TestATakenPortIsAnErrorThatNamesTheFlag(t *testing.T) {
	taken := httptest.NewServer(nil)
	defer taken.Close()
	at := taken.Listener.Addr().String()
	for flag, o := range map[string]options{"--address": {address: at}, "--metrics-bind-address": {metrics: at}} {
		b := newBench(t, roleObey)
		b.options.address, b.options.metrics = o.address, o.metrics
		if err := b.options.run(t.Context(), b.signals); err == nil || !strings.Contains(err.Error(), "choose a free port with "+flag) {
			t.Error(err)
		}
	}
}
