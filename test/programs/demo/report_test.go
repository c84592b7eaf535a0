// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestWhatNobodyHasSeenIsNotCalledATime(t *testing.T) {
	for want, r := range map[[2]string]result{
		{"14.892s", "0.005s"}:             {Kind: string(trial.Zonelect), AfterFault: 14.892, BehindLease: .005},
		{"61.600s", "no lease"}:           {Kind: string(trial.Legacy), AfterFault: 61.6},
		{"never within 8m0s", "no lease"}: {Kind: string(trial.Legacy), NeverWithin: 480},
	} {
		if got := [2]string{r.took(), r.behind()}; got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

func TestLeaderForLifePlaysInAllItsVariantsIfAskedTo(t *testing.T) {
	if n := len(teams(false, time.Minute)); n != 2 {
		t.Errorf("%d play", n)
	}
	all := teams(true, time.Minute)
	if len(all) != 2+len(variants) {
		t.Fatalf("%d play", len(all))
	}
	for _, x := range all[2:] {
		if !x.forLife() || x.within != time.Minute || x.name == "leader-for-life, " {
			t.Errorf("%+v", x)
		}
	}
}
