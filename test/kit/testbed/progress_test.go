// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProgressGoesByTheSizeOfWhatIsCompiled(t *testing.T) {
	p := &buildProgress{sizes: map[string]int64{"big": 900, "small": 100}, total: 1000}
	if got := p.after(5 * time.Second); got != " 0 % after 5s" {
		t.Error(got)
	}
	fmt.Fprint(p, "small\nb")
	fmt.Fprint(p, "ig")
	if got := p.after(time.Minute); got != "10 % after 1m0s, about 9m30s left" {
		t.Error(got)
	}
	fmt.Fprint(p, "\n# other\nx.go:1: undefined\n")
	if got := p.after(2 * time.Minute); !strings.HasPrefix(got, "95 % after 2m0s, about 10s left") {
		t.Error(got)
	}
	if got := p.errors(); got != "# other\nx.go:1: undefined\n" {
		t.Errorf("%q", got)
	}
}
