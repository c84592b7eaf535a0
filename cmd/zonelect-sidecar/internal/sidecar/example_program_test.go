// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/zonelect/zonelect/election"
)

// await reads lines until one fits, and returns its first group.
func await(t *testing.T, r *bufio.Reader, fits string) string {
	t.Helper()
	said := ""
	for {
		line, err := r.ReadString('\n')
		if found := regexp.MustCompile(fits).FindStringSubmatch(line); found != nil {
			return found[1]
		}
		if said += line; err != nil {
			t.Fatalf("%v: nothing fits %q in:\n%s", err, fits, said)
		}
	}
}

func TestTheExampleInPythonWorksWhileItsReplicaLeadsAndThenSaysSo(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	start := func(cmd *exec.Cmd, output func() (io.ReadCloser, error), env ...string) *bufio.Reader {
		cmd.Env = append(os.Environ(), env...)
		out, err := output()
		if err == nil {
			err = cmd.Start()
		}
		must(t, err)
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return bufio.NewReader(out)
	}
	sidecar := exec.Command(os.Args[0], named, "--leader-elect=false", "--address=127.0.0.1:0")
	log := start(sidecar, sidecar.StderrPipe, envRole+"="+roleSelf)
	address := await(t, log, `address=(\S+)`)
	program := exec.Command(python, "../../../../examples/sidecar/poll.py")
	said := start(program, program.StdoutPipe, "ZONELECT_URL=http://"+address, "POLL=0.1", "http_proxy=http://127.0.0.1:1")
	token := await(t, said, `^leading with token (\d+)\n`)
	must(t, program.Process.Signal(syscall.SIGTERM))
	if last, err := io.ReadAll(said); err != nil || string(last) != "stopped with token "+token+"\n" {
		t.Errorf("it said %q, %v", last, err)
	}
	if cause := await(t, log, `INFO stopping .*cause="(.*)"`); cause != election.ErrResigned.Error() {
		t.Errorf("the term ended because %s", cause)
	}
	must(t, program.Wait())
}
