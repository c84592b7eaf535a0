// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// TestTheTableOfTimingsIsComputed: docs/timing.md says what follows from each timing that has a name.
func TestTheTableOfTimingsIsComputed(t *testing.T) {
	page := string(read(t, "timing.md"))
	for _, named := range []struct {
		name string
		of   timing.Timing
	}{{"`default`", timing.Timing{}.WithDefaults()}, {"[`fast`](#fast)", timing.Fast()}, {"[`patient`](#patient)", timing.Patient()}} {
		takeover, answer := named.of.Bounds()
		row := "| " + named.name
		for _, d := range []time.Duration{named.of.LeaseDuration, named.of.RenewDeadline, named.of.RenewInterval, named.of.AttemptTimeout, takeover, answer, named.of.StopGrace} {
			row += fmt.Sprintf(" | %g s", d.Seconds())
		}
		row += fmt.Sprintf(" | %d |\n", 24*time.Hour/named.of.RenewInterval)
		if !strings.Contains(page, row) {
			t.Errorf("docs/timing.md lacks the row\n%s", row)
		}
	}
}
