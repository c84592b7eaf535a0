// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
)

// programs parse their flags by package flag, by pflag, or by both.
var programs = map[string]func(o *Options, own *flag.FlagSet, args []string) error{
	"package flag": func(o *Options, own *flag.FlagSet, args []string) error {
		o.AddGoFlags(own)
		return own.Parse(args)
	},
	"pflag, with the program's flags first": func(o *Options, own *flag.FlagSet, args []string) error {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.AddGoFlagSet(own)
		o.AddFlags(fs)
		return fs.Parse(args)
	},
}

func TestAFlagThatTheProgramHasTooIsShared(t *testing.T) {
	for name, parse := range programs {
		for args, want := range map[string]bool{"": false, "--leader-elect": true, "--leader-elect=true": true, "--leader-elect=false": false} {
			var o Options
			own := flag.NewFlagSet("", flag.ContinueOnError)
			theirs := own.Bool("leader-elect", false, "")
			lease := own.Duration("leader-elect-lease-duration", time.Minute, "")
			if err := parse(&o, own, append(strings.Fields(args), "--leader-elect-renew-deadline=5s")); err != nil {
				t.Errorf("%s: %q: %v", name, args, err)
			}
			if *theirs != want || o.Disabled == want || o.ElectionByFlag() != want {
				t.Errorf("%s: %q: the program's variable is %v, Disabled %v, want election %v", name, args, *theirs, o.Disabled, want)
			}
			if *lease != time.Minute || o.Timing != (election.Timing{RenewDeadline: 5 * time.Second}) {
				t.Errorf("%s: %q: the program's lease is %v, the timing %+v", name, args, *lease, o.Timing)
			}
		}
	}
}

func TestAProgramsOwnDefaultOfLeaderElectHolds(t *testing.T) {
	for name, parse := range programs {
		o := Options{Disabled: true}
		own := flag.NewFlagSet("", flag.ContinueOnError)
		own.Bool("leader-elect", true, "")
		if err := parse(&o, own, nil); err != nil || o.Disabled {
			t.Errorf("%s: Disabled %v, %v", name, o.Disabled, err)
		}
	}
}

func TestBothPackagesForFlagsHaveTheSameFlags(t *testing.T) {
	args := []string{
		"--leader-elect", "--leader-elect-resource-name=n", "--leader-elect-resource-namespace=ns", "--leader-elect-lease-duration=30s",
		"--leader-elect-preferred-zones=za,zb", "--leader-elect-exit-on-overrun", "--leader-elect-legacy-grace=0s", "--leader-elect-mode=auto",
	}
	var byFlag, byPflag Options
	ours, theirs := flag.NewFlagSet("", flag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	byFlag.AddGoFlags(ours)
	byPflag.AddFlags(theirs)
	if err := ours.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if byFlag.Name != "n" || byFlag.Disabled || byFlag.Timing != byPflag.Timing || byFlag.LegacyGrace != byPflag.LegacyGrace ||
		!byFlag.ExitOnOverrun || byFlag.Mode != ModeAuto || !slices.Equal(byFlag.PreferredZones, byPflag.PreferredZones) {
		t.Errorf("by package flag %+v\nby pflag %+v", byFlag, byPflag)
	}
	theirs.VisitAll(func(f *pflag.Flag) {
		if own := ours.Lookup(f.Name); own == nil || own.DefValue != f.DefValue {
			t.Errorf("%s: %+v", f.Name, own)
		}
	})
	var help bytes.Buffer
	ours.SetOutput(&help)
	ours.PrintDefaults()
	if strings.Contains(help.String(), "panic") || !strings.Contains(help.String(), "(default 15s)") {
		t.Errorf("the help is:\n%s", help.String())
	}
}

func TestTheTimingOfSecondsCanBeChosenByFlags(t *testing.T) {
	chosen := map[string]string{
		"leader-elect-lease-duration": "3s", "leader-elect-renew-deadline": "2.5s", "leader-elect-retry-period": "500ms",
		"leader-elect-attempt-timeout": "250ms", "leader-elect-exclusive": "true",
	}
	var args []string
	for name, value := range chosen {
		args = append(args, "--"+name+"="+value)
		t.Setenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
	}
	for name, parse := range programs {
		var o Options
		if err := parse(&o, flag.NewFlagSet("", flag.ContinueOnError), args); err != nil || o.Timing.WithDefaults() != timing.Seconds() {
			t.Errorf("%s: the timing is %+v, %v", name, o.Timing, err)
		}
	}
	var o Options
	if err := o.FromEnvironment(); err != nil || o.Timing.WithDefaults() != timing.Seconds() {
		t.Errorf("by the environment: the timing is %+v, %v", o.Timing, err)
	}
}

func TestAResourceLockOfClientGosIsAModeAndAKind(t *testing.T) {
	for _, tc := range []struct {
		lock string
		set  MigrationOptions
		mode Mode
		kind LegacyKind
		err  string
	}{
		{lock: "", set: MigrationOptions{Mode: ModeAuto}, mode: ModeAuto},
		{lock: "leases", mode: ModeLease},
		{lock: "configmapsleases", mode: ModeDual, kind: LegacyConfigMap},
		{lock: "endpointsleases", mode: ModeDual, kind: LegacyEndpoints},
		{lock: "endpointsleases", set: MigrationOptions{Mode: ModeDual, LegacyKind: LegacyEndpoints}, mode: ModeDual, kind: LegacyEndpoints},
		{lock: "configmaps", err: "use configmapsleases"},
		{lock: "endpoints", err: "--leader-elect-legacy-kind=endpoints"},
		{lock: "pods", err: "use leases, configmapsleases or endpointsleases"},
		{lock: "configmapsleases", set: MigrationOptions{Mode: ModeLease}, err: "set one of both"},
		{lock: "configmapsleases", set: MigrationOptions{LegacyKind: LegacyLeaderForLife}, err: "set one of both"},
	} {
		o := Options{MigrationOptions: tc.set}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(fs)
		if err := fs.Parse([]string{"--leader-elect-resource-lock", tc.lock}); err != nil {
			t.Fatal(err)
		}
		got, err := o.resolved()
		switch {
		case tc.err != "":
			if _, failed := New(t.Context(), "op", o); err == nil || !strings.Contains(err.Error(), tc.err) || failed == nil {
				t.Errorf("%q with %q: %v, and New: %v", tc.lock, tc.set.Mode, err, failed)
			}
		case err != nil || got.Mode != tc.mode || got.LegacyKind != tc.kind:
			t.Errorf("%q is mode %q of kind %q, %v", tc.lock, got.Mode, got.LegacyKind, err)
		}
	}
}
