// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func seconds(n float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n * float64(time.Second))}
}

func ran(index int, faults string, v verdict, gap float64, theirs findings) result {
	return result{
		Time: at(float64(index)).UTC(), Commit: "c0ffee", Seed: 7, Run: index, Faults: faults, Timing: "4s/2.5s/500ms", Network: "links", Verdict: v,
		Groups: map[string]record{
			onLease:  {findings: findings{Gap: seconds(gap)}, Bound: seconds(8)},
			onShield: {findings: findings{Gap: seconds(gap / 2)}, Bound: seconds(8)},
			clientGo: {findings: theirs},
		},
	}
}

var sample = []result{
	ran(0, "leader-killed", passed, 2, findings{Gap: seconds(6)}),
	ran(1, "leader-killed", passed, 4, findings{Gap: seconds(16), Overlaps: 2, Notes: []string{"<b>two"}}),
	ran(2, "leader-killed+lease-deleted", failed, 9, findings{Gap: seconds(3)}),
	{Run: 3, Faults: "etcd-frozen", Verdict: void, Reason: "it did not bite", Time: at(3).UTC()},
}

func TestALedgerIsReadAsItWasWritten(t *testing.T) {
	l := ledger{filepath.Join(t.TempDir(), "ledger.jsonl")}
	if all, err := l.read(); err != nil || len(all) != 0 {
		t.Errorf("read %v and %v where there is none", all, err)
	}
	for _, r := range sample {
		if err := l.add(r); err != nil {
			t.Fatal(err)
		}
	}
	all, err := l.read()
	if err != nil || len(all) != len(sample) {
		t.Fatalf("read %d results and %v", len(all), err)
	}
	for i := range all {
		if all[i].Faults != sample[i].Faults || all[i].Verdict != sample[i].Verdict || !all[i].Time.Equal(sample[i].Time) ||
			all[i].Groups[clientGo].Gap != sample[i].Groups[clientGo].Gap || all[i].Groups[onLease].Bound != sample[i].Groups[onLease].Bound {
			t.Errorf("read %+v, written was %+v", all[i], sample[i])
		}
	}
	if err := os.WriteFile(l.path, []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.read(); err == nil || !strings.Contains(err.Error(), ":2:") {
		t.Errorf("read %v, want an error that names line 2", err)
	}
}

func TestALedgerIsGoneOnWith(t *testing.T) {
	if seed, next := resume(nil, 0); seed != 0 || next != 0 {
		t.Errorf("an empty ledger has seed %d and run %d", seed, next)
	}
	other := []result{{Seed: 3, Run: 40}, {Seed: 7, Run: 0}, {Seed: 7, Run: 1}}
	for wanted, want := range map[uint64]int{0: 2, 7: 2, 3: 41, 9: 0} {
		if seed, next := resume(other, wanted); seed != cmp.Or(wanted, 7) || next != want {
			t.Errorf("asked for seed %d it goes on with run %d of seed %d, want run %d", wanted, next, seed, want)
		}
	}
}

func TestASummaryCountsEachRunUnderItsFaults(t *testing.T) {
	s := summarize(sample)
	if len(s.Singles) != 2 || len(s.Pairs) != 2 {
		t.Fatalf("the summary is %+v", s)
	}
	kill := s.Singles[0]
	if kill.Runs != 2 || kill.Failed != 0 || kill.Zonelect.Max() != 4*time.Second || kill.ClientGo.Overlaps != 2 || kill.ClientGo.Max() != 16*time.Second {
		t.Errorf("kills come to %+v", kill)
	}
	if z := kill.Zonelect; z.Share != 0.5 || z.P50() != 2*time.Second || len(z.Gaps) != 4 {
		t.Errorf("of zonelect's kills there is %+v", z)
	}
	if frozen := s.Singles[1]; frozen.Runs != 0 || frozen.Voided != 1 {
		t.Errorf("a void run counts as %+v", frozen)
	}
	for _, pair := range s.Pairs {
		if pair.Runs != 1 || pair.Failed != 1 || pair.Zonelect.Share != 9.0/8 {
			t.Errorf("a pair comes to %+v", pair)
		}
	}
	if s.Total.Runs != 3 || s.Total.Failed != 1 || s.Total.Voided != 1 || s.Total.ClientGo.Overlaps != 2 {
		t.Errorf("the total is %+v", s.Total)
	}
	var text bytes.Buffer
	if err := s.print(&text); err != nil || !strings.Contains(text.String(), "112 % of 8.0s") {
		t.Errorf("printed is, with %v:\n%s", err, &text)
	}
}

func TestThePageShowsEachPairAndWhatFailed(t *testing.T) {
	p := newPage(sample)
	n := len(faults())
	if len(p.Grid) != n || p.Possible != n*(n-1)/2 || p.Done != 1 || len(p.Told) != 3 {
		t.Errorf("the page has %d lines, %d pairs of %d, and %d runs to tell of", len(p.Grid), p.Done, p.Possible, len(p.Told))
	}
	for i, l := range p.Grid {
		if len(l.Cells) != i+1 || strings.Contains(l.Cells[i].Name, "+") {
			t.Errorf("line %d is %+v", i, l)
		}
	}
	var text bytes.Buffer
	if err := reportPage.Execute(&text, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"leader killed", "--seed 7 --only-run 2 --faults leader-killed&#43;lease-deleted", "it did not bite", "&lt;b&gt;two", "112 % of 8.0s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := reportPage.Execute(&text, newPage(nil)); err != nil {
		t.Error(err)
	}
}

func TestTheLastCommitsRunsAreToldApart(t *testing.T) {
	all := append([]result{}, sample...)
	later := func(index int, faults string, v verdict, gap, took float64) result {
		r := ran(index, faults, v, gap, findings{})
		r.Commit, r.Took = "beef", seconds(took)
		r.Spent.Faults = seconds(took / 2)
		return r
	}
	passedSince := later(2, "leader-killed+lease-deleted", passed, 4, 10)
	passedSince.Again = true
	all = append(all, passedSince, later(4, "leader-killed", failed, 8, 20), later(5, "etcd-frozen", void, 1, 100))
	l := lastOf(all)
	if l.Commit != "beef" || l.Judged != 2 || l.Voided != 1 || l.Took != 15*time.Second || l.Faults != 7500*time.Millisecond {
		t.Errorf("the last commit comes to %+v", l)
	}
	if l.Pair != 0.5 || l.Single != 1 {
		t.Errorf("the median gap used %v of two faults and %v of one, want 0.5 and 1", l.Pair, l.Single)
	}
	if l.Failures != 2 || l.Passed != 1 || l.Open != 1 {
		t.Errorf("of the failures there is %+v", l)
	}
	var text bytes.Buffer
	if err := l.print(&text); err != nil || !strings.Contains(text.String(), "commit beef 2 runs were judged") {
		t.Errorf("printed is, with %v:\n%s", err, &text)
	}
	if l := lastOf(nil); l.Judged != 0 {
		t.Errorf("no runs come to %+v", l)
	}
}
