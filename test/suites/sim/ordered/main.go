// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command ordered is go test of the simulation, in which a seed gives the same run
// each time: with a Go runtime that has what chance decides in a bubble of
// testing/synctest follow from the seed, too. It takes go test's flags and the
// simulation's:
//
//	go run ./suites/sim/ordered -v -run /shield -seed 23              # the same, however often
//	go run ./suites/sim/ordered -v -run /shield -seed 23 -orders 100  # in a hundred orders, up to one that fails
//
// The first time, it builds the whole standard library, which takes a minute or
// two.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

//go:embed chance.go.txt
var chance []byte

// edit is a change of a file of the standard library, at the only place that matches find.
type edit struct{ file, find, by string }

// edits remove what makes two runs of one seed differ.
var edits = []edit{
	// Hashes, and so the order of maps, differ from process to process.
	{"runtime/rand.go", `(?m)^\tglobalRand\.state\.Init\(\*seed\)\n`, "\t*seed = [32]byte{1}\n${0}"},
	// And from map to map, which shows in the order of large ones only.
	{"runtime/rand.go", `(?m)^func rand\(\) uint64 \{\n`, "${0}\tif simFollows() {\n\t\treturn simChance[simHash]\n\t}\n"},
	// Where a range over a map begins, and package math/rand.
	{"internal/runtime/maps/table.go", `(?m)^\tit\.entryOffset = rand\(\)\n\tit\.dirOffset = rand\(\)\n`,
		"\tit.entryOffset = simChoose()\n\tit.dirOffset = simChoose()\n"},
	{"internal/runtime/maps/table.go", `(?m)^func \(it \*Iter\) Init\(`,
		"//go:linkname simChoose runtime.simChoose\nfunc simChoose() uint64\n\n${0}"},
	{"math/rand/rand.go", `(?m)^//go:linkname runtime_rand runtime\.rand\n`, "//go:linkname runtime_rand runtime.simChoose\n"},
	{"math/rand/v2/rand.go", `(?m)^//go:linkname runtime_rand runtime\.rand\n`, "//go:linkname runtime_rand runtime.simChoose\n"},
	// Timers for the same moment.
	{"runtime/time.go", `t\.rand = cheaprand\(\)`, "t.rand = simTimer()"},
	// Cases of a select that are ready at the same time.
	{"runtime/select.go", `cheaprandn\(uint32\(norder \+ 1\)\)`, "simCase(uint32(norder + 1))"},
	// A select orders its channels, and the timers that it starts, by their
	// address. There is only one P, and it is never preempted while it holds a
	// channel's lock, so any other order works as well.
	{"runtime/chan.go", `(?m)^\tbubble   \*synctestBubble\n`, "${0}\torder    uintptr\n"},
	{"runtime/chan.go", `(?m)^\tc\.elemsize = uint16\(elem\.Size_\)\n`, "${0}\tsimChannels++\n\tc.order = simChannels\n"},
	{"runtime/select.go", `(?m)^\treturn uintptr\(unsafe\.Pointer\(c\)\)\n`, "\tif simFollows() {\n\t\treturn c.order\n\t}\n${0}"},
	// Real time: a goroutine that has run for 10 ms is preempted, here after 10 s;
	// one that has waited for a mutex for 1 ms gets it next, here never.
	{"runtime/proc.go", `(?m)^const forcePreemptNS = .*\n`, "const forcePreemptNS = 10e9\n"},
	{"runtime/sema.go", `(?m)^(func internal_sync_nanotime\(\) int64 \{\n\treturn) nanotime\(\)\n`, "${1} 0\n"},
	// Package election reads from two real clocks how long the machine was suspended,
	// inexactly when it is busy. Here both say zero.
	{"syscall/syscall_linux.go", `(?m)^func RawSyscall\(trap, .*\n`, "${0}\tif trap == SYS_CLOCK_GETTIME {\n\t\treturn\n\t}\n"},
	// A goroutine outside of bubbles, which anything may wake, must not reorder
	// theirs.
	{"runtime/proc.go", `(?m)^\tif randomizeScheduler && next && randn\(2\) == 0 \{\n`,
		"\tnext = next && (simChance[simOn] == 0 || gp.bubble != nil)\n${0}"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ordered:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	file, err := overlay(filepath.Join(root, "build", "_ordered"))
	if err != nil {
		return fmt.Errorf("edit the runtime: %w", err)
	}
	c := exec.Command("go", append([]string{"test", "-tags=ordered", "-overlay=" + file, "./suites/sim/"}, args...)...)
	c.Dir, c.Stdout, c.Stderr = filepath.Join(root, "test"), os.Stdout, os.Stderr
	return c.Run()
}

// overlay puts edited copies of the standard library's files into dir, each under its own path, and
// returns the file for go build's flag -overlay. An error names the file of this Go that
// differs from the one the edits were made for.
func overlay(dir string) (file string, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src")
	files := map[string][]byte{"runtime/simchance.go": chance}
	for _, e := range edits {
		text := files[e.file]
		if text == nil {
			if text, err = os.ReadFile(filepath.Join(source, e.file)); err != nil {
				return "", err
			}
		}
		find := regexp.MustCompile(e.find)
		if n := len(find.FindAllIndex(text, -1)); n != 1 {
			return "", fmt.Errorf("%s of this Go has %d places that match %q, where one is to be edited: adapt the edit to it", e.file, n, e.find)
		}
		files[e.file] = find.ReplaceAll(text, []byte(e.by))
	}
	replace := map[string]string{}
	for name, text := range files {
		copied := filepath.Join(dir, name)
		replace[filepath.Join(source, name)] = copied
		if err := write(copied, text); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, write(file, text)
}

// write writes a file unless it has this content, so that go build does not rebuild what uses it.
func write(file string, text []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644))
}
