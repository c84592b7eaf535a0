// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"testing"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks/multilock"
)

// TestM10OnlyCandidatesInPodsThatTakePartKeepAShield: the presence of another one outlives its candidate.
func TestM10OnlyCandidatesInPodsThatTakePartKeepAShield(t *testing.T) {
	pod := presence.Pod{Name: "a", UID: "u"}
	owners := ShieldKeepers([]presence.Object{
		{Name: "in-pod", Pod: pod, Mode: string(multilock.Auto)},
		{Name: "lease-alone", Pod: pod, Mode: presence.Alone},
		{Name: "in-no-pod", Mode: string(multilock.Auto), Renewed: 1},
	})
	if len(owners) != 1 || owners[0].Name != "in-pod" {
		t.Errorf("the shield is kept by %+v", owners)
	}
}
