// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

var today = time.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC)

func TestTheQuarantineIsShort(t *testing.T) {
	good := "flaky ./zone TestA 2026-12-06 it waits for a kubelet\n"
	for text, wrong := range map[string]string{
		"# nothing\n\n":                          "",
		strings.Repeat(good, 5):                  "",
		strings.Repeat(good, 6):                  "6 tests are flaky",
		"flaky ./zone TestA 2026-12-05 it waits": "fourteen days",
		"flaky ./zone TestA it waits":            "line 1 is neither",
		"skips ./zone TestA":                     "line 1 is neither",
		"skips ./zone TestA it is long":          "",
	} {
		if _, err := parse(text, today); (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want %q", text, err, wrong)
		}
	}
}

func TestATestThatIsSkippedFailsTheGate(t *testing.T) {
	all, err := parse("skips zone TestLong it is long\nflaky zone TestFlaky/row 2026-12-19 it waits", today)
	if err != nil {
		t.Fatal(err)
	}
	if p := pattern(all); p != `^TestFlaky$/^row$` {
		t.Errorf("go test skips %s", p)
	}
	for test, wrong := range map[string]bool{"TestLong": false, "TestLong/row": false, "TestOther": true, "TestLonger": true} {
		event := `{"Action":"skip","Package":"github.com/zonelect/zonelect/zone","Test":"` + test + `"}`
		if err := judge(strings.NewReader(event), all); (err != nil) != wrong {
			t.Errorf("%s: %v", test, err)
		}
	}
	other := `{"Action":"skip","Package":"github.com/zonelect/zonelect/locks","Test":"TestLong"}{"Action":"pass","Package":"x","Test":"TestA"}`
	if err := judge(strings.NewReader(other), all); err == nil {
		t.Error("a test of that name in another package is listed, too")
	}
	if err := judge(strings.NewReader(`{"Action":"skip"`), all); err == nil {
		t.Error("a file that ends early is no error")
	}
}
