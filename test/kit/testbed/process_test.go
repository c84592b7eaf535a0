// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"os"
	"testing"
)

// startBeat starts a program that prints a line every 10 ms in a zone, and
// waits for the first line.
func startBeat(t *testing.T, bed *Testbed, zone string) *Process {
	t.Helper()
	program, err := bed.StartProcess(zone, ProcessSpec{
		Name: "beat", Path: os.Args[0], Env: []string{roleVariable + "=beat"},
	})
	must(t, err)
	eventually(t, "wait for the first line", func(context.Context) error {
		if len(program.Output()) == 0 {
			return errors.New("the program prints nothing")
		}
		return nil
	})
	return program
}

// obeys checks that a program stands still, goes on and ends as it is told.
func obeys(t *testing.T, program *Process) {
	t.Helper()
	must(t, program.Pause())
	if !frozen(program.task.process.Pid) {
		t.Error("the program is paused and moves")
	}
	must(t, program.Resume())
	resumed := len(program.Output())
	eventually(t, "wait for more lines", func(context.Context) error {
		if len(program.Output()) <= resumed {
			return context.DeadlineExceeded
		}
		return nil
	})
	must(t, program.Terminate())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, program.Wait(ctx))
	all := program.Output()
	if all[0] != "beat 0" || all[len(all)-1] != "bye" || len(all) < resumed {
		t.Errorf("of %d lines the first is %q and the last %q", len(all), all[0], all[len(all)-1])
	}
}
