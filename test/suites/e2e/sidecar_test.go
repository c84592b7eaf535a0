// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// The timing of the sidecars: a command that ignores its stop is killed 4 s after a wanted stop,
// and 1.56 s after a loss.
var sidecarFlags = []string{
	"--leader-elect-resource-name=register", "--leader-elect-resource-namespace=default", "--leader-elect-lease-duration=5s",
	"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s", "--leader-elect-stop-timeout=5s",
}

// sidecars are replicas that run a script while they lead, which appends to a register.
type sidecars struct {
	*testing.T
	*testbed.Testbed
	ctx                       context.Context
	program, script, register string
	all                       map[string]*testbed.Process // by the name of their pod
}

// appended is a line of the register.
type appended struct {
	token uint64
	what  string
	pid   int
	pod   string
}

func newSidecars(t *testing.T) *sidecars {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links, WithoutControllers: true})
	s := &sidecars{T: t, Testbed: b, ctx: patience(t, 4*time.Minute), register: filepath.Join(b.Dir(), "register"), all: map[string]*testbed.Process{}}
	root, err := testbed.Root()
	must(t, err)
	s.script = filepath.Join(root, "examples/sidecar/register.sh")
	s.program, err = testbed.BuildProgram(s.ctx, "./cmd/zonelect-sidecar")
	must(t, err)
	return s
}

// start starts a sidecar. A deaf command ignores SIGTERM, and so do its children.
func (s *sidecars) start(name, zone string, deaf bool) *testbed.Process {
	s.Helper()
	command := []string{"--", "sh", s.script}
	if deaf {
		command = []string{"--", "sh", "-c", `trap "" TERM; exec sh "$0"`, s.script}
	}
	s.all[name] = s.run(name, zone, command...)
	return s.all[name]
}

// run runs a sidecar in a pod of its own.
func (s *sidecars) run(name, zone string, args ...string) *testbed.Process {
	s.Helper()
	pod, err := s.Cluster.AddPod(s.ctx, zone, name, "default", nil)
	must(s.T, err)
	p, err := s.StartProcess(zone, testbed.ProcessSpec{
		Name: name, Path: s.program, Args: append(slices.Clone(sidecarFlags), args...),
		Env: []string{
			"KUBECONFIG=" + s.Cluster.Kubeconfig(zone), "POD_NAME=" + name, "POD_UID=" + string(pod.UID), "POD_NAMESPACE=default",
			"NODE_NAME=" + pod.Spec.NodeName, "NODE_ZONE=" + zone, "REGISTER=" + s.register, "INTERVAL=0.02",
		},
	})
	must(s.T, err)
	return p
}

// entries reads the register.
func (s *sidecars) entries() (all []appended) {
	s.Helper()
	text, err := os.ReadFile(s.register)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(s.T, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			s.Fatalf("the register says %q", line)
		}
		token, err := strconv.ParseUint(f[0], 10, 64)
		must(s.T, err)
		pid, err := strconv.Atoi(f[2])
		must(s.T, err)
		pod, _, _ := strings.Cut(f[3], "_")
		all = append(all, appended{token, f[1], pid, pod})
	}
	return all
}

// next waits until a command with a larger token has worked, and returns who that is.
func (s *sidecars) next(after uint64) appended {
	s.Helper()
	for {
		for _, e := range s.entries() {
			if e.token > after && e.what == "works" {
				return e
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.ctx.Done():
			s.Fatalf("nobody led after token %d", after)
		}
	}
}

// ended reports whether a command has ended. Nobody may have reaped it: its parent was killed.
func ended(e appended) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.pid))
	if err == nil {
		return strings.Contains(string(stat), ") Z ")
	}
	return errors.Is(syscall.Kill(e.pid, 0), syscall.ESRCH)
}

// isGone fails unless a command has ended.
func (s *sidecars) isGone(e appended) {
	s.Helper()
	if !ended(e) {
		s.Errorf("the command of token %d runs beside the next", e.token)
	}
}

// judge checks that no command wrote, or tried to, after the next had begun.
func (s *sidecars) judge(terms int) {
	s.Helper()
	var last appended
	seen := 0
	for _, e := range s.entries() {
		switch {
		case e.token < last.token:
			s.Errorf("%+v after %+v", e, last)
		case e.token == last.token && e.pid != last.pid:
			s.Errorf("two commands with token %d: %+v, %+v", e.token, last, e)
		case e.token > last.token:
			seen++
		case e.what == "stopped" && strings.HasPrefix(e.pod, "deaf"):
			s.Errorf("%+v was to ignore its stop", e)
		}
		last = e
	}
	for name, p := range s.all {
		for _, line := range p.Output() {
			if strings.HasPrefix(line.Text, "refused") {
				s.Errorf("%s: %s", name, line.Text)
			}
		}
	}
	if seen < terms { // more if one is lost on a busy machine
		s.Errorf("%d terms, want %d at least", seen, terms)
	}
}

// TestASidecarsCommandIsDeadBeforeTheNextBegins: when its sidecar is killed, when it hands over
// in good order, when it ignores that, and when its zone is cut off and it ignores that too.
func TestASidecarsCommandIsDeadBeforeTheNextBegins(t *testing.T) {
	s := newSidecars(t)
	for i, zone := range threeZones {
		s.start(fmt.Sprint("obeys-", i), zone, false)
	}
	first := s.next(0)
	must(t, s.all[first.pod].Kill())
	killed := time.Now()
	for !ended(first) && s.ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	t.Logf("the command was gone %v after its sidecar was killed", time.Since(killed))
	second := s.next(first.token)
	s.isGone(first)
	t.Logf("the next worked %v after the kill", time.Since(killed))

	asked := time.Now()
	must(t, s.all[second.pod].Terminate())
	third := s.next(second.token)
	s.isGone(second)
	t.Logf("the next worked %v after SIGTERM", time.Since(asked))
	must(t, s.all[second.pod].Wait(s.ctx))
	if took := time.Since(asked); took > 4*time.Second {
		t.Errorf("a handover took %v, as long as if the command had not heard of it", took)
	}

	s.start("deaf-0", "za", true)
	awaitLog(t, s.ctx, s.all["deaf-0"], "following")
	must(t, s.all[third.pod].Terminate())
	fourth := s.next(third.token)
	s.isGone(third)

	s.start("deaf-1", "zb", true)
	awaitLog(t, s.ctx, s.all["deaf-1"], "following")
	asked = time.Now()
	must(t, s.all[fourth.pod].Terminate())
	fifth := s.next(fourth.token)
	s.isGone(fourth)
	t.Logf("the next worked %v after the SIGTERM that a command ignored", time.Since(asked))
	must(t, s.all[fourth.pod].Wait(s.ctx))
	awaitLog(t, s.ctx, s.all[fourth.pod], "the command is killed")

	s.start("obeys-3", "zc", false)
	awaitLog(t, s.ctx, s.all["obeys-3"], "following")
	cut := time.Now()
	must(t, s.Network.PartitionFromAll("zb"))
	sixth := s.next(fifth.token)
	s.isGone(fifth)
	t.Logf("the next worked %v after the zone of a command that ignores its stop was cut off", time.Since(cut))
	awaitLog(t, s.ctx, s.all["deaf-1"], "the command is killed")
	if fifth.pod != "deaf-1" || sixth.pod != "obeys-3" {
		t.Errorf("%s led, and then %s", fifth.pod, sixth.pod)
	}
	s.judge(6)
}
