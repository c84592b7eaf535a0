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
		r.Losses = append(r.Losses, loss{Locks: 20, Half: 3, All: 3 + float64(i)/100, Etcd: i >= 90, Elected: 1.5})
	}
	r.Kills = []kill{
		{span: span{Minutes: 1}, Elected: 1.1}, {span: span{Minutes: 1, Terms: 20, Processes: 1}, Elected: 2.3}, {span: span{Minutes: 1}, Elected: 1.4},
	}
	text := r.String()
	for _, want := range []string{
		"20 locks", "3s/2.5s/500ms", "namespaces", "60 minutes: 0 terms lost",
		"killed 3 times in 3 minutes: 1 of them cost terms, 20 in all, in 1 processes in all and 1 at most each time",
		"where no term was lost      p50 1.10, p99 1.40, most 1.40", "where some were             p50 2.30",
		"lost its power 100 times", "p50 3.49, p99 3.98, most 3.99",
		"with etcd's leader in it 10 times", "p50 3.94, p99 3.99, most 3.99",
		"with etcd's leader elsewhere 90 times", "p50 3.44, p99 3.89, most 3.89",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestTheResultsSayWhoKnewWhomAndWhichServersWereUsed(t *testing.T) {
	plain := (&results{}).String()
	for want, r := range map[string]*results{
		"do not know of each other":          {Strangers: true},
		"all connections of the others died": {Worst: true},
	} {
		if text := r.String(); !strings.Contains(text, want) || strings.Contains(plain, want) {
			t.Errorf("%q is missing in:\n%s\nor is in:\n%s", want, text, plain)
		}
	}
}

func TestTheLastLocksPhasesAddUp(t *testing.T) {
	l := loss{All: 3.2, Last: phases{Seen: -0.1, Free: 2.9, Claimed: 2.95, Withdrawn: 3, Taken: 3.15, Led: 3.2}}
	w := &strings.Builder{}
	describeLosses(w, "lost", []loss{l})
	for what, want := range map[string]string{"renewal was seen": "-0.10", "it was free": "3.00", "was withdrawn": "0.10", "it was taken": "0.15", "the work began": "0.05"} {
		_, row, _ := strings.Cut(w.String(), what)
		if row = strings.TrimSpace(row); !strings.HasPrefix(row, "p50 "+want) {
			t.Errorf("%s: want %s in:\n%s", what, want, w)
		}
	}
}
