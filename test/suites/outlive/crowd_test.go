// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
	"github.com/zonelect/zonelect/test/kit/usage"
)

// TestACrowdOfLeadersComesBackGently: so many leaders, of a lock each, lose their terms while the API
// server is away for 20 s. Each has connections of its own, as if it were a process.
func TestACrowdOfLeadersComesBackGently(t *testing.T) {
	if *crowd == 0 {
		t.Skip("takes two minutes: set -crowd")
	}
	audit, err := usage.AuditFlags(t.TempDir())
	must(t, err)
	bed := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true, APIServerFlags: audit})
	s, err := trial.Start(t.Context(), bed, trial.Zonelect, "za", "lock", "crowd", "--locks", fmt.Sprint(*crowd))
	must(t, err)
	_, err = trial.AwaitLocks(t.Context(), []*trial.Seat{s}, *crowd, time.Time{}, "leading")
	must(t, err)
	time.Sleep(10 * time.Second)
	must(t, bed.Parts.Kill(t.Context(), testbed.APIServer, "za"))
	time.Sleep(20 * time.Second)
	stopped := len(trial.First([]*trial.Seat{s}, time.Time{}, "stopped"))
	returns := time.Now()
	must(t, bed.Parts.Start(t.Context(), testbed.APIServer, "za"))
	over := time.Now()
	led, err := trial.AwaitLocks(t.Context(), []*trial.Seat{s}, *crowd, returns, "leading")
	must(t, err)
	time.Sleep(time.Until(over.Add(8 * time.Second))) // longer than any request takes
	all, err := usage.Audited(returns, filepath.Join(bed.Dir(), "za", "apiserver.log"))
	must(t, err)
	perSecond, verbs := map[int]int{}, map[string]int{}
	for _, r := range all {
		if second := int(math.Floor(r.At.Sub(over).Seconds())); second < 5 {
			perSecond[second]++
			verbs[r.Verb]++
		}
	}
	most := slices.Max(slices.Collect(maps.Values(perSecond)))
	t.Logf("%d leaders, of which %d lost their terms: half lead %v after the API is ready, all %v. Requests for Leases until 5 s after, renewals included: %v; most in a second: %d",
		*crowd, stopped, led.After(over, 50).Round(time.Millisecond), led.After(over, 100).Round(time.Millisecond), verbs, most)
	if most > 4**crowd {
		t.Errorf("they sent %d requests in a second, want 4 for each leader at most", most)
	}
	must(t, s.Kill())
}
