// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/events"
)

func TestALeaderThatIsCutOffLeadsNoMore(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	printed := []events.Event{
		{Time: at(1), Event: "leading", Token: 7}, {Time: at(2), Event: "stopping", Cause: "asked to"}, {Time: at(3), Event: "stopped"},
		{Time: at(4), Event: "leading", Token: 9}, {Time: at(99), Event: "leading"},
	}
	got := Terms("a", printed, at(60))
	CutOff(got, time.Time{}, "power loss")
	if len(got) != 2 || !got[0].To.Equal(at(3)) || got[0].Ended != "asked to" || !got[1].To.IsZero() {
		t.Errorf("one that goes on: %+v", got)
	}
	if CutOff(got, at(5), "power loss"); !got[1].To.Equal(at(5)) || got[1].Ended != "power loss" {
		t.Errorf("%+v", got)
	}
}
