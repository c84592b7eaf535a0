// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/requests"
)

func TestEvacuationsAreReadAsTheyWereWritten(t *testing.T) {
	until := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		all   []requests.Evacuation
		wrong bool
	}{
		"":                                  {},
		"za":                                {all: []requests.Evacuation{{Zone: "za"}}},
		"za,zb=2026-11-21T12:00:00Z":        {all: []requests.Evacuation{{Zone: "za"}, {Zone: "zb", Until: until}}},
		" za , ,zb ":                        {all: []requests.Evacuation{{Zone: "za"}, {Zone: "zb"}}},
		"za=tomorrow,zb":                    {all: []requests.Evacuation{{Zone: "zb"}}, wrong: true},
		"=2026-11-21T12:00:00Z,zb":          {all: []requests.Evacuation{{Zone: "zb"}}, wrong: true},
		"za=2026-11-21T13:00:00+01:00,za=,": {all: []requests.Evacuation{{Zone: "za", Until: until}}, wrong: true},
	} {
		got, err := requests.ParseEvacuations(text)
		same := slices.EqualFunc(got, want.all, func(a, b requests.Evacuation) bool { return a.Zone == b.Zone && a.Until.Equal(b.Until) })
		if !same || (err != nil) != want.wrong {
			t.Errorf("%q: %+v (%v), want %+v", text, got, err, want.all)
		}
	}
}

// FuzzEvacuations reads any text. A zone is evacuated only if the text names it, without a
// time or with a time to come. The result reads the same again after it was written.
func FuzzEvacuations(f *testing.F) {
	for _, seed := range []string{
		"za,zb=2026-11-21T12:00:00Z", "za=", "=2026-11-21T12:00:00Z", "za=garbage", " za , ,zb", "za=0001-01-01T00:00:00Z",
		"za=9999-12-31T23:59:59-23:59", "za=0000-01-01T00:00:00+23:59", "za==", "za=2026-11-21T12:00:00.999999999Z", "za=2020-01-01T00:00:00Z",
	} {
		f.Add(seed, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		all, err := requests.ParseEvacuations(text)
		at := time.Unix(now, 0)
		for _, e := range requests.InForce(text, at) {
			named := slices.ContainsFunc(strings.Split(text, ","), func(part string) bool {
				name, until, limited := strings.Cut(strings.TrimSpace(part), "=")
				end, err := time.Parse(time.RFC3339, until)
				return name == e.Zone && (!limited || err == nil && end.After(at))
			})
			if !named || e.Zone == "" {
				t.Errorf("%q at %v is read as an evacuation of %q", text, at, e.Zone)
			}
		}
		again, problem := requests.ParseEvacuations(requests.FormatEvacuations(all))
		same := func(a, b requests.Evacuation) bool {
			return a.Zone == b.Zone && a.Until.IsZero() == b.Until.IsZero() && a.Until.Unix() == b.Until.Unix()
		}
		if problem != nil || !slices.EqualFunc(all, again, same) {
			t.Errorf("read %v (%v)\nthen %v, %v", all, err, again, problem)
		}
	})
}
