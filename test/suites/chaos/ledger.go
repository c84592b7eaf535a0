// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ledger is a file of results, one JSON object a line. Runs are appended, and
// the next invocation continues where the last one ended. The zero value keeps
// none.
type ledger struct{ path string }

// read returns all results.
func (l ledger) read() (all []result, err error) {
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) || l.path == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read the ledger: %s:%d: %w", l.path, n, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// add appends a result.
func (l ledger) add(r result) error {
	if l.path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// failures are the runs that failed and have not passed since, as recorded when
// they failed.
func failures(all []result) (open []result) {
	type run struct {
		seed   uint64
		index  int
		faults string
	}
	name := func(r result) run { return run{r.Seed, r.Run, r.Faults} }
	last := map[run]verdict{}
	for _, r := range all {
		if r.Verdict != void {
			last[name(r)] = r.Verdict
		}
	}
	for _, r := range all {
		if r.Verdict == failed && last[name(r)] == failed {
			open = append(open, r)
			last[name(r)] = passed // once
		}
	}
	return open
}

// resume returns the seed to continue with, and the index of its next run: the
// seed is the wanted one, or the ledger's last, or zero.
func resume(all []result, wanted uint64) (seed uint64, next int) {
	seed = wanted
	for i := len(all) - 1; i >= 0 && seed == 0; i-- {
		if !all[i].Again {
			seed = all[i].Seed
		}
	}
	for _, r := range all {
		if r.Seed == seed {
			next = max(next, r.Run+1)
		}
	}
	return seed, next
}
