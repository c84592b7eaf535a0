// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	for stat, want := range map[string]child{
		"7 (sh) S 1 7 7 0 -1":           {pid: 7, parent: 1, group: 7, session: 7},
		"7 (a) Z 9 (b)) Z 5 6 4 0 -1":   {pid: 7, parent: 5, group: 6, session: 4, zombie: true},
		"7 (Z S 1 2 3) R 12 7 34 0 -1 ": {pid: 7, parent: 12, group: 7, session: 34},
	} {
		if got, err := parseStat(7, stat); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", stat, got, err, want)
		}
	}
	for _, stat := range []string{"", "7 (sh)", "7 (sh) S 1", "7 (sh) S x 7 7", "7 (sh) S 1 x 7", "7 (sh) S 1 7 x"} {
		if got, err := parseStat(7, stat); err == nil {
			t.Errorf("%q: %+v", stat, got)
		}
	}
	if own, err := look(os.Getpid()); err != nil || own.parent != os.Getppid() || own.zombie {
		t.Errorf("of this process: %+v, %v", own, err)
	}
}

// TestOnlyOneReapsWhatIsLeftBehind: who looks for it sees all only if nobody else reaps meanwhile.
func TestOnlyOneReapsWhatIsLeftBehind(t *testing.T) {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, cmd.Start())
	awaitEnd(cmd.Process.Pid)
	p := &process{reaped: true}
	if p.pass(syscall.SIGCHLD); gone(cmd.Process.Pid) {
		t.Error("it is reaped when the command has been reaped")
	}
	p.reaped = false
	if p.pass(syscall.SIGCHLD); !gone(cmd.Process.Pid) {
		t.Error("it is not reaped while the command runs")
	}
}

// TestTheWholeGroupOfACommandIsAskedToStop: a shell in front of the work is not the work.
func TestTheWholeGroupOfACommandIsAskedToStop(t *testing.T) {
	const work = `trap "echo asked; exit" TERM; echo runs; sleep 1 & wait; echo "not asked"`
	r, w, err := os.Pipe()
	must(t, err)
	cmd := exec.Command("sh", "-c", "trap : TERM; sh -c '"+work+"' & wait; wait")
	cmd.Stdout = w
	p, err := start(cmd)
	must(t, err)
	must(t, w.Close())
	says := bufio.NewScanner(r)
	says.Scan()
	p.signal(syscall.SIGTERM)
	if says.Scan(); says.Text() != "asked" {
		t.Errorf("what the shell runs says %q", says.Text())
	}
	if <-p.gone; !p.reaped {
		t.Error("it counts as running")
	}
}

// TestWhatTheCommandHasNotStartedIsNotLeftBehind: a script may have started it before it became the sidecar.
func TestWhatTheCommandHasNotStartedIsNotLeftBehind(t *testing.T) {
	other, command := exec.Command("sleep", "60"), exec.Command("sleep", "60")
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, other.Start())
	must(t, command.Start())
	if all, err := orphans(command.Process.Pid); len(all) > 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	_, _, _, _ = other.Process.Kill(), command.Process.Kill(), other.Wait(), command.Wait()
}

// TestWhatIsLeftBehindIsKilledByGroups: else processes that fork faster than they are found live
// on. The child of the one that is found is killed in the same stroke.
func TestWhatIsLeftBehindIsKilledByGroups(t *testing.T) {
	must(t, adopt())
	cmd := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var pid int
	if _, err := fmt.Fscanln(out, &pid); err != nil {
		t.Fatal(err)
	}
	leftBehind()
	var status syscall.WaitStatus
	for again := true; again; { // until its parent has ended, and it is this process's child
		_, err := syscall.Wait4(pid, &status, 0, nil)
		again = err != nil
	}
	if !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("its child ended with %#x, want SIGKILL", status)
	}
}

// TestWhereNobodyCanLookSomethingMayBeLeft: this process may have no file descriptor for a moment.
func TestWhereNobodyCanLookSomethingMayBeLeft(t *testing.T) {
	var all syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &all))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: all.Max}))
	left := leftBehind()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &all))
	if !left {
		t.Error("without a file descriptor it takes nothing to be left")
	}
}
