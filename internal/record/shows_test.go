// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"testing"
	"time"

	"github.com/zonelect/zonelect/locks"
)

func TestAnAnswerAcknowledgesOnlyTheWriteThatItShows(t *testing.T) {
	start := time.Date(2026, 12, 1, 10, 0, 0, 900_000_000, time.UTC)
	renewal := locks.Record{
		Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: start, RenewTime: start.Add(time.Minute), Transitions: 3,
		Details: locks.Details{Holder: "a", Token: 7},
	}
	release := renewal
	release.Holder, release.LeaseDuration = "", time.Second
	for name, row := range map[string]struct {
		wrote  locks.Record
		number uint64 // of the answer; 10 is replaced
		change func(*locks.Record)
		shows  bool
	}{
		"what was written":            {renewal, 11, func(*locks.Record) {}, true},
		"a release":                   {release, 12, func(*locks.Record) {}, true},
		"fractions are cut":           {renewal, 11, func(r *locks.Record) { r.RenewTime = r.RenewTime.Truncate(time.Second) }, true},
		"a longer duration":           {release, 11, func(r *locks.Record) { r.LeaseDuration = time.Minute }, true},
		"other annotations":           {renewal, 11, func(r *locks.Record) { r.Details = locks.Details{} }, true},
		"the version before":          {renewal, 10, func(*locks.Record) {}, false},
		"an older version":            {renewal, 9, func(*locks.Record) {}, false},
		"another holder":              {renewal, 11, func(r *locks.Record) { r.Holder = "b" }, false},
		"no holder":                   {renewal, 11, func(r *locks.Record) { r.Holder = "" }, false},
		"a release that is undone":    {release, 11, func(r *locks.Record) { r.Holder = "a" }, false},
		"the renewal before":          {renewal, 11, func(r *locks.Record) { r.RenewTime = r.RenewTime.Add(-2 * time.Second) }, false},
		"another acquisition":         {renewal, 11, func(r *locks.Record) { r.AcquireTime = r.AcquireTime.Add(-time.Second) }, false},
		"transitions that are undone": {renewal, 11, func(r *locks.Record) { r.Transitions-- }, false},
		"a shorter duration":          {renewal, 11, func(r *locks.Record) { r.LeaseDuration -= time.Second }, false},
		"nothing":                     {renewal, 11, func(r *locks.Record) { *r = locks.Record{} }, false},
	} {
		answer := locks.Snapshot{Version: locks.Version{Number: row.number, UID: "u"}, Record: row.wrote}
		row.change(&answer.Record)
		err := Shows(answer, locks.Version{Number: 10, UID: "u"}, row.wrote)
		if (err == nil) != row.shows || err != nil && !errors.Is(err, ErrNotShown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
