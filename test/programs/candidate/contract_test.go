// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// built is the candidate program as `make candidate` leaves it in build/bin.
func built(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make here")
	}
	root, err := testbed.Root()
	if err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), "make", "-C", root, "candidate").CombinedOutput(); err != nil {
		t.Fatalf("make candidate: %v\n%s", err, said)
	}
	return filepath.Join(root, "build", "bin", "candidate")
}

// Other programs start the candidate: its flags are a contract and must stay.
func TestTheFlagsOfTheContractAreThere(t *testing.T) {
	program := built(t)
	help, err := exec.CommandContext(t.Context(), program, "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{
		"kubeconfig": "string", "server": "string", "namespace": `string .*\(default "default"\)`,
		"lock": "string", "identity": "string", "pod-name": "string", "pod-uid": "string", "node-name": "string", "zone": "string",
		"mode": `string .*\(default "lease"\)`, "legacy-kind": "string", "legacy-name": "string",
		"lease-duration": `duration .*\(default 15s\)`, "renew-deadline": `duration .*\(default 10s\)`,
		"renew-interval": `duration .*\(default 2s\)`,
		"stop-delay":     "duration", "register": "string",
		"locks": "int", "shared": "", "max-clock-skew": "duration",
	} {
		if !regexp.MustCompile(`(?m)^ +--` + flag + " " + value).Match(help) {
			t.Errorf("there is no --%s %s in:\n%s", flag, value, help)
		}
	}
	for _, wrong := range [][]string{
		{"--nonsense"}, {}, {"--lock", "l", "--renew-deadline", "20s"}, {"--lock", "l", "--max-clock-skew", "2s"},
	} {
		var status *exec.ExitError
		if err := exec.CommandContext(t.Context(), program, wrong...).Run(); !errors.As(err, &status) || status.ExitCode() != 2 {
			t.Errorf("%v: it ended with %v, want status 2", wrong, err)
		}
	}
}

// line is what each line of the output promises to contain.
type line struct {
	Time                             time.Time
	Identity, Event, Lock            string
	Leader, LeaderZone, Cause, Error string
	Previous                         string
	Token                            uint64
}

// candidate is a running program.
type candidate struct {
	*exec.Cmd
	lines *json.Decoder
	seen  []string
}

// campaigns starts the program for the lock "contract". It is killed after a minute.
func campaigns(t *testing.T, program, kubeconfig, identity string, more ...string) *candidate {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	args := append([]string{"--kubeconfig", kubeconfig, "--lock", "contract", "--identity", identity, "--zone", "z-" + identity}, more...)
	c := &candidate{Cmd: exec.CommandContext(ctx, program, args...)}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = json.NewDecoder(stdout)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// says waits for the next line with an event, or for the last line if that is empty.
func (c *candidate) says(t *testing.T, event string) (l line) {
	t.Helper()
	for l.Event != event || event == "" {
		l = line{}
		if err := c.lines.Decode(&l); errors.Is(err, io.EOF) && event == "" {
			return l
		} else if err != nil {
			t.Fatalf("%v does not say %q, only %v: %v", c.Args, event, c.seen, err)
		}
		c.seen = append(c.seen, l.Event)
	}
	return l
}

// ends asks the program to end, and waits until it has.
func (c *candidate) ends(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.says(t, "")
	if err := c.Wait(); err != nil {
		t.Errorf("asked to end, %v ended with %v, want status 0", c.Args, err)
	}
}

// kubeconfig writes a kubeconfig of a server without authentication.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Other programs read what the candidate prints: events and fields are a
// contract and must stay.
func TestTheEventsOfTheContractArePrinted(t *testing.T) {
	program := built(t)
	cfg, stop := apitest.Run()
	defer stop()
	way := kubeconfig(t, cfg.Host)

	first := campaigns(t, program, way, "a")
	first.says(t, "started")
	leading := first.says(t, "leading")
	if leading.Token == 0 || leading.Cause == "" || leading.Identity != "a" || leading.Lock != "contract" ||
		time.Since(leading.Time).Abs() > time.Minute {
		t.Errorf("who leads says %+v", leading)
	}
	second := campaigns(t, program, way, "b",
		"--lease-duration", "4s", "--renew-deadline", "2500ms", "--renew-interval", "500ms", "--stop-delay", "10ms")
	if l := second.says(t, "following"); l.Leader != "a" || l.LeaderZone != "z-a" {
		t.Errorf("who follows says %+v", l)
	}
	first.ends(t)
	first.seen = slices.DeleteFunc(first.seen, func(event string) bool { return event == "error" }) // of a slow release
	end := []string{"stopping", "stopped", "released", "ended"}
	if at := slices.Index(first.seen, "stopping"); at < 0 || !slices.Equal(first.seen[at:], end) {
		t.Errorf("who ends in good order says %v", first.seen)
	}
	next := second.says(t, "leading")
	if next.Token <= leading.Token || next.Previous != "a" {
		t.Errorf("the next leader says %+v", next)
	}
	stop()
	if l := second.says(t, "error"); l.Error == "" {
		t.Errorf("without an API it says %+v", l)
	}
	if l := second.says(t, "stopping"); l.Cause == "" {
		t.Errorf("who loses its term says %+v", l)
	}
	second.ends(t)
}
