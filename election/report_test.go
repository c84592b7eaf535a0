// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOnlyTheReporterReports: all that an elector says of itself is in one file, and in those of what
// it writes to. Guards count what they refuse on goroutines of the work, on which the span of a
// takeover ends too.
func TestOnlyTheReporterReports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reports := regexp.MustCompile(`\.(publish|update|log|meters|telemetry)\b`)
	may := map[string][]string{
		"report.go": {"publish", "update", "log", "meters", "telemetry"}, "elector.go": {"log", "meters"},
		"guard.go": {"meters"}, "failover.go": {"meters", "telemetry"}, "leadership.go": {"meters"},
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, match := range reports.FindAllSubmatch(source, -1) {
			found[string(match[1])] = true
		}
		for what := range found {
			if !slices.Contains(may[name], what) {
				t.Errorf("%s uses %s", name, what)
			}
		}
		for _, what := range may[name] {
			if !found[what] {
				t.Errorf("%s does not use %s any more", name, what)
			}
		}
	}
}
