// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	"fmt"
	"os"
	"strings"
)

// golden is what a command prints in a test.
const golden = "../../cmd/kubectl-zonelect/command/testdata/"

// terminal is a command and what it prints, as a terminal shows both.
func terminal() *picture {
	text, _ := os.ReadFile(golden + "is-held.golden") // without it the picture differs
	printed, _, _ := strings.Cut(string(text), "--- stderr\n")
	lines := append([]string{"$ kubectl zonelect status op"}, strings.Split(strings.TrimRight(printed, "\n"), "\n")...)
	longest := 0
	for _, l := range lines {
		longest = max(longest, len(l))
	}
	const size, wide, high = 12, 7.25, 19
	p := &picture{name: "status", title: "kubectl zonelect status in a terminal", width: round(float64(longest)*wide + 40), height: float64(len(lines))*high + 62}
	p.bar("plain", 0, 0, p.width, p.height)
	for i := range 3 {
		p.bar("dark", 16+18*float64(i), 12, 10, 10)
	}
	for i, l := range lines {
		fmt.Fprintf(&p.body, `<text class="ink" fill="%s" font-size="%d" font-family="ui-monospace, 'DejaVu Sans Mono', monospace" xml:space="preserve" textLength="%g" x="20" y="%d">%s</text>`+"\n",
			ink.light, size, round(float64(len(l))*wide), 50+high*i, escape(l))
	}
	return p
}
