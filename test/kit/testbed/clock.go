// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/zonelect/zonelect/test/kit/overlay"
)

// clockVariable tells a program which file steps its wall clock.
const clockVariable = "ZONELECT_TESTBED_CLOCK"

// stepTimeout bounds how long a program may take to open that file.
const stepTimeout = 2 * time.Second

// wallClock is what is added to package time.
//
//go:embed wallclock.go.txt
var wallClock []byte

// steppedClock lets time.Now add the step to the wall clock, and to nothing else.
var steppedClock = overlay.Edit{
	File: "time/time.go",
	Find: regexp.MustCompile(`(?m)^func Now\(\) Time \{\n\tsec, nsec, mono := .*\n`),
	By:   "${0}\tsec += wallClockStep()\n",
}

// BuildSteppable is BuildProgram for a program whose wall clock Process.StepClock
// can step. Everything in it, the standard library too, is built with another
// package time; the first time takes minutes. It works on unix.
func BuildSteppable(ctx context.Context, pkg string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	bin, unlock, err := lockedBinDir(ctx, root, ".steppable.lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	edited, err := overlay.Write(ctx, filepath.Join(root, "build", "_clock"),
		[]overlay.Edit{steppedClock}, map[string][]byte{"time/wallclock.go": wallClock})
	if err != nil {
		return "", fmt.Errorf("build %s with a wall clock that can be stepped: %w", pkg, err)
	}
	b := builder{dir: root, pkg: pkg, flags: []string{"-overlay=" + edited},
		target: filepath.Join(bin, program(filepath.Base(pkg)+"-steppable"))}
	return b.target, b.build(ctx)
}

// newClock makes the file that steps a program's wall clock: the step in
// seconds, and whether the program has opened it.
func newClock(dir, name string) (string, error) {
	file, err := os.CreateTemp(dir, name+"-*.clock")
	if err != nil {
		return "", fmt.Errorf("make a clock for %s: %w", name, err)
	}
	if err := errors.Join(file.Truncate(16), file.Close()); err != nil {
		return "", fmt.Errorf("make a clock for %s: %w", name, err)
	}
	return file.Name(), nil
}

// StepClock steps the program's wall clock, forward or back, by whole seconds
// and on top of earlier steps: its time.Now jumps, while elapsed times and
// timers go on as before. The program must have been built by BuildSteppable.
func (p *Process) StepClock(by time.Duration) error {
	if by%time.Second != 0 {
		return fmt.Errorf("step the clock of %s by %v: use whole seconds", p.task.name, by)
	}
	file, err := os.OpenFile(p.clock, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("step the clock of %s: %w", p.task.name, err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(p.bed.ctx, stepTimeout)
	defer cancel()
	content := make([]byte, 16)
	err = poll(ctx, "step the clock of "+p.task.name, func(context.Context) error {
		if _, err := file.ReadAt(content, 0); err != nil {
			return err
		}
		if binary.NativeEndian.Uint64(content[8:]) == 0 {
			return errors.New("the program does not use it: build it by BuildSteppable")
		}
		return nil
	})
	if err != nil {
		return err
	}
	step := int64(binary.NativeEndian.Uint64(content)) + int64(by/time.Second)
	if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(step)), 0); err != nil {
		return fmt.Errorf("step the clock of %s: %w", p.task.name, err)
	}
	return nil
}
