// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestTheResultsSayWhatWasRunAndHowItIsSpread(t *testing.T) {
	r := &results{Network: "namespaces", Timing: "3s/2.5s/500ms", Locks: 20, Quiet: &span{Minutes: 60}}
	for i := range 100 {
		r.Losses = append(r.Losses, loss{Locks: 20, Half: 3, All: 3 + float64(i)/100})
	}
	r.Kills = []span{{Minutes: 1}, {Minutes: 1, Terms: 20, Processes: 1}, {Minutes: 1}}
	text := r.String()
	for _, want := range []string{
		"20 locks", "3s/2.5s/500ms", "namespaces", "60 minutes: 0 terms lost",
		"killed 3 times in 3 minutes: 1 of them cost terms, 20 in all, in 1 processes",
		"100 times", "p50 3.49, p99 3.98, most 3.99",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
