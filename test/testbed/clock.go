// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// clockVariable tells a program where the file is by which its wall clock is
// stepped.
const clockVariable = "ZONELECT_TESTBED_CLOCK"

// stepTimeout bounds how long a program may take to open that file.
const stepTimeout = 2 * time.Second

// wallClock is what package time gets besides its own files.
//
//go:embed wallclock.go.txt
var wallClock []byte

// readsClock is the line of package time that reads the clocks.
var readsClock = regexp.MustCompile(`(?m)^func Now\(\) Time \{\n\tsec, nsec, mono := .*\n`)

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
	overlay, err := clockOverlay(ctx, filepath.Join(root, "build", "_clock")) // no package of ./...
	if err != nil {
		return "", fmt.Errorf("build %s with a wall clock that can be stepped: %w", pkg, err)
	}
	b := builder{dir: root, pkg: pkg, flags: []string{"-overlay=" + overlay},
		target: filepath.Join(bin, program(filepath.Base(pkg)+"-steppable"))}
	return b.target, b.build(ctx)
}

// clockOverlay writes into dir what replaces package time, and returns the file
// that tells go build.
func clockOverlay(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	original, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", fmt.Errorf("read package time: %w", err)
	}
	edited, err := withStep(original)
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for name, data := range map[string][]byte{"time.go": edited, "wallclock.go": wallClock} {
		files[filepath.Join(source, name)] = filepath.Join(dir, name)
		if err := writeNews(filepath.Join(dir, name), data); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return "", fmt.Errorf("say what replaces package time: %w", err)
	}
	return filepath.Join(dir, "overlay.json"), writeNews(filepath.Join(dir, "overlay.json"), overlay)
}

// withStep lets time.Now add the step to the wall clock, and to nothing else.
func withStep(source []byte) ([]byte, error) {
	places := readsClock.FindAllIndex(source, -1)
	if len(places) != 1 {
		return nil, errors.New("package time of this Go does not read the clock where it did: adapt readsClock to it")
	}
	end := places[0][1]
	return bytes.Join([][]byte{source[:end], source[end:]}, []byte("\tsec += wallClockStep()\n")), nil
}

// writeNews writes a file unless it has this content.
func writeNews(file string, data []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make the directory for package time: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("write package time: %w", err)
	}
	return nil
}

// newClock makes the file by which a program's wall clock is stepped: the step
// in seconds, and whether the program has opened it.
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

// StepClock steps the program's wall clock, forth or back, by whole seconds and
// on top of earlier steps: its time.Now jumps, while elapsed times and timers go
// on as before. The program must have been built by BuildSteppable.
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
