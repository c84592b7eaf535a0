// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"regexp"
	"slices"
	"testing"
)

var (
	// spanWord is a name of a span or of its attribute in the code.
	spanWord = regexp.MustCompile(`"((?:election|error|http)\.[a-z_.]+)"`)
	// tracingRow is a row of a table in tracing.md, and tracingName a name in its first cell.
	tracingRow  = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	tracingName = regexp.MustCompile("`([a-z0-9_.]+)`")
)

func TestTheTablesOfTracesAreThoseOfTheCode(t *testing.T) {
	emitted := map[string]bool{ // those that spans share with metrics
		"election.lock.name": true, "election.lock.kind": true, "k8s.namespace.name": true, "election.cause": true,
		"election.holder.zone": true, "election.previous.zone": true, "election.result": true,
	}
	for _, file := range []string{"../election/failover.go", "../election/telemetry.go"} {
		for _, name := range spanWord.FindAllStringSubmatch(read(t, file), -1) {
			emitted[name[1]] = true
		}
	}
	documented := map[string]bool{"election.failover": true} // which the text above the table is about
	for _, row := range tracingRow.FindAllStringSubmatch(read(t, "tracing.md"), -1) {
		for _, name := range tracingName.FindAllStringSubmatch(row[1], -1) {
			documented[name[1]] = true
		}
	}
	if !maps.Equal(emitted, documented) {
		t.Errorf("tracing.md has %q, the code %q", slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(emitted)))
	}
}
