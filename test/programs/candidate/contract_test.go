// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
		"kubeconfig": "string", "server": "strings", "namespace": `string .*\(default "default"\)`,
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
	Token                            uint64
	text                             string
}

// candidate is a running program.
type candidate struct {
	*exec.Cmd
	lines chan line
	seen  []string
}

// campaigns starts the program for the lock "contract".
func campaigns(t *testing.T, program, kubeconfig, identity string, more ...string) *candidate {
	t.Helper()
	args := append([]string{"--kubeconfig", kubeconfig, "--lock", "contract", "--identity", identity, "--zone", "z-" + identity}, more...)
	c := &candidate{Cmd: exec.CommandContext(t.Context(), program, args...), lines: make(chan line, 1000)}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			l := line{text: scanner.Text()}
			if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
				l.Event = fmt.Sprintf("no JSON: %v", err)
			}
			c.lines <- l
		}
	}()
	return c
}

// says waits for the next line with an event.
func (c *candidate) says(t *testing.T, event string) line {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case l, more := <-c.lines:
			if !more {
				t.Fatalf("%v ended without %q, after %v", c.Args, event, c.seen)
			}
			c.seen = append(c.seen, l.Event)
			if l.Event == event {
				return l
			}
		case <-ctx.Done():
			t.Fatalf("%v does not say %q, only %v", c.Args, event, c.seen)
		}
	}
}

// ends asks the program to end, and waits until it has.
func (c *candidate) ends(t *testing.T) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for l := range c.lines {
		c.seen = append(c.seen, l.Event)
	}
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
	cfg, stop := apitest.Run(nil)
	defer stop()
	way := kubeconfig(t, cfg.Host)

	first := campaigns(t, program, way, "a")
	first.says(t, "started")
	leading := first.says(t, "leading")
	if leading.Token == 0 || leading.Cause == "" || leading.Identity != "a" || leading.Lock != "contract" ||
		time.Since(leading.Time).Abs() > time.Minute {
		t.Errorf("who leads says %s", leading.text)
	}
	second := campaigns(t, program, way, "b",
		"--lease-duration", "4s", "--renew-deadline", "2500ms", "--renew-interval", "500ms", "--stop-delay", "10ms")
	if l := second.says(t, "following"); l.Leader != "a" || l.LeaderZone != "z-a" {
		t.Errorf("who follows says %s", l.text)
	}
	first.ends(t)
	first.seen = slices.DeleteFunc(first.seen, func(event string) bool { return event == "error" }) // of a slow release
	end := []string{"stopping", "stopped", "released", "ended"}
	if at := slices.Index(first.seen, "stopping"); at < 0 || !slices.Equal(first.seen[at:], end) {
		t.Errorf("who ends in good order says %v", first.seen)
	}
	next := second.says(t, "leading")
	if next.Token <= leading.Token || !strings.Contains(next.text, `"previous":"a"`) {
		t.Errorf("the next leader says %s", next.text)
	}
	stop()
	if l := second.says(t, "error"); l.Error == "" {
		t.Errorf("without an API it says %s", l.text)
	}
	if l := second.says(t, "stopping"); l.Cause == "" {
		t.Errorf("who loses its term says %s", l.text)
	}
	second.ends(t)
}
