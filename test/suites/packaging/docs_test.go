// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheCommandsOfTheDocsInstallTheChart: each helm install in them renders. The archive of a
// release is the chart ("make packaging DIST=1" compares them).
func TestTheCommandsOfTheDocsInstallTheChart(t *testing.T) {
	command := regexp.MustCompile(`(?m)^ {4}helm install (\S+) (charts/zonelect|https://\S+/zonelect-\S+\.tgz) ((?:.*\\\n)*.*)$`)
	found := 0
	for _, file := range []string{"../../../docs/install.md", filepath.Join(chart, "README.md")} {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, c := range command.FindAllStringSubmatch(string(raw), -1) {
			found++
			args := strings.Fields(strings.NewReplacer("\\\n", " ", "'", "", "--create-namespace", "").Replace(c[3]))
			if out, err := helm(t, append([]string{"template", c[1], chart}, args...)...); err != nil {
				t.Errorf("%s: %v\n%s", c[0], err, out)
			}
		}
	}
	if found != 4 {
		t.Errorf("%d commands were found", found)
	}
}
