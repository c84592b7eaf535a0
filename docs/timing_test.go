// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestThePageOfTimingShowsWhatTheCommandPrints, but for what three dots stand for.
func TestThePageOfTimingShowsWhatTheCommandPrints(t *testing.T) {
	shown := regexp.MustCompile("(?s)```console\n[$] kubectl zonelect timing (.*?)\n(.*?)```").FindStringSubmatch(string(read(t, "timing.md")))
	if shown == nil {
		t.Fatal("docs/timing.md shows no output")
	}
	if test := string(read(t, "../cmd/kubectl-zonelect/command/timing_test.go")); !strings.Contains(test, `"timing-outage":     "timing `+shown[1]) {
		t.Errorf("no golden file is what timing %s prints", shown[1])
	}
	printed := strings.Split(string(read(t, "../cmd/kubectl-zonelect/command/testdata/timing-outage.golden")), "\n")
	for line := range strings.Lines(shown[2]) {
		begin, cut := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "...")
		if !slices.ContainsFunc(printed, func(p string) bool { return p == begin || cut && strings.HasPrefix(p, begin) }) {
			t.Errorf("docs/timing.md shows %q, which the command does not print", line)
		}
	}
}
