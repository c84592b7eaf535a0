// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNothingThatCannotBeSeenIsLeft(t *testing.T) {
	unseen := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs) }
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for _, got := range []string{Text(string(r)), Text("a" + string(r) + "b")} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, unseen) {
				t.Fatalf("%U becomes %q", r, got)
			}
		}
	}
}

func TestTextKeepsWhatPeopleRead(t *testing.T) {
	for from, want := range map[string]string{
		"op-a_1 (zone-a): 15.02s": "op-a_1 (zone-a): 15.02s", "Zürich, 東京, שלום, é": "Zürich, 東京, שלום, é", "": "",
		"a\nb\r\tc\u2028d\u0085e": "a b  c d e", "\x1b[2J": "\ufffd[2J", "\u009b2J": "\ufffd2J", "a\xffb\xc2": "a\ufffdb\ufffd",
		"\u202eab\u200b": "\ufffdab\ufffd", "\U000e0041": "\ufffd", "a\ufe0f\u3164": "a\ufffd\ufffd",
	} {
		if got := Text(from); got != want || utf8.RuneCountInString(got) != utf8.RuneCountInString(from) {
			t.Errorf("%q becomes %q, want %q", from, got, want)
		}
	}
}

func TestAnErrorIsOneLine(t *testing.T) {
	err := errors.Join(errors.New("one"), errors.New("\n two\x1b\n\n\tthree\n"))
	if got, want := Error(err), "one; two\ufffd; three"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}

func TestAWriterKeepsLinesAndTabsAlone(t *testing.T) {
	var b strings.Builder
	n, err := Writer{&b}.Write([]byte("a\tb\r\n\x1b[2J\u009d\xff\u202e\n"))
	if want := "a\tb \n\ufffd[2J\ufffd\ufffd\ufffd\n"; b.String() != want || n != 16 || err != nil {
		t.Errorf("it wrote %q, %d, %v", b.String(), n, err)
	}
}
