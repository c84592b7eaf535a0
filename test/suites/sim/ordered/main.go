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
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/zonelect/zonelect/test/kit/overlay"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

//go:embed chance.go.txt
var chance []byte

func edit(file, find, by string) overlay.Edit {
	return overlay.Edit{File: file, Find: regexp.MustCompile(find), By: by}
}

// edits remove what makes two runs of one seed differ.
var edits = []overlay.Edit{
	// Hashes, and so the order of maps, differ from process to process.
	edit("runtime/rand.go", `(?m)^\tglobalRand\.state\.Init\(\*seed\)\n`, "\t*seed = [32]byte{1}\n${0}"),
	// And from map to map, which shows in the order of large ones only.
	edit("runtime/rand.go", `(?m)^func rand\(\) uint64 \{\n`, "${0}\tif simFollows() {\n\t\treturn simChance[simHash]\n\t}\n"),
	// Where a range over a map begins, and package math/rand.
	edit("internal/runtime/maps/table.go", `(?m)^\tit\.entryOffset = rand\(\)\n\tit\.dirOffset = rand\(\)\n`,
		"\tit.entryOffset = simChoose()\n\tit.dirOffset = simChoose()\n"),
	edit("internal/runtime/maps/table.go", `(?m)^func \(it \*Iter\) Init\(`, "//go:linkname simChoose runtime.simChoose\nfunc simChoose() uint64\n\n${0}"),
	edit("math/rand/rand.go", `(?m)^//go:linkname runtime_rand runtime\.rand\n`, "//go:linkname runtime_rand runtime.simChoose\n"),
	edit("math/rand/v2/rand.go", `(?m)^//go:linkname runtime_rand runtime\.rand\n`, "//go:linkname runtime_rand runtime.simChoose\n"),
	// Timers for the same moment.
	edit("runtime/time.go", `t\.rand = cheaprand\(\)`, "t.rand = simTimer()"),
	// Cases of a select that are ready at the same time.
	edit("runtime/select.go", `cheaprandn\(uint32\(norder \+ 1\)\)`, "simCase(uint32(norder + 1))"),
	// A select orders its channels, and the timers that it starts, by their
	// address. There is only one P, and it is never preempted while it holds a
	// channel's lock, so any other order works as well.
	edit("runtime/chan.go", `(?m)^\tbubble   \*synctestBubble\n`, "${0}\torder    uintptr\n"),
	edit("runtime/chan.go", `(?m)^\tc\.elemsize = uint16\(elem\.Size_\)\n`, "${0}\tsimChannels++\n\tc.order = simChannels\n"),
	edit("runtime/select.go", `(?m)^\treturn uintptr\(unsafe\.Pointer\(c\)\)\n`, "\tif simFollows() {\n\t\treturn c.order\n\t}\n${0}"),
	// Real time: a goroutine that has run for 10 ms is preempted, here after 10 s;
	// one that has waited for a mutex for 1 ms gets it next, here never.
	edit("runtime/proc.go", `(?m)^const forcePreemptNS = .*\n`, "const forcePreemptNS = 10e9\n"),
	edit("runtime/sema.go", `(?m)^(func internal_sync_nanotime\(\) int64 \{\n\treturn) nanotime\(\)\n`, "${1} 0\n"),
	// Package election reads from two real clocks how long the machine was suspended,
	// inexactly when it is busy. Here both say zero.
	edit("syscall/syscall_linux.go", `(?m)^func RawSyscall\(trap, .*\n`, "${0}\tif trap == SYS_CLOCK_GETTIME {\n\t\treturn\n\t}\n"),
	// A goroutine outside of bubbles, which anything may wake, must not reorder
	// theirs.
	edit("runtime/proc.go", `(?m)^\tif randomizeScheduler && next && randn\(2\) == 0 \{\n`,
		"\tnext = next && (simChance[simOn] == 0 || gp.bubble != nil)\n${0}"),
}

func main() {
	err := run(context.Background(), os.Args[1:])
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		os.Exit(failed.ExitCode()) // go test has said why
	case err != nil:
		fmt.Fprintln(os.Stderr, "ordered:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	file, err := overlay.Write(ctx, filepath.Join(root, "build", "_ordered"), edits, map[string][]byte{"runtime/simchance.go": chance})
	if err != nil {
		return fmt.Errorf("edit the runtime: %w", err)
	}
	c := exec.CommandContext(ctx, "go", append([]string{"test", "-tags=ordered", "-overlay=" + file, "./suites/sim/"}, args...)...)
	c.Dir, c.Stdout, c.Stderr = filepath.Join(root, "test"), os.Stdout, os.Stderr
	return c.Run()
}
