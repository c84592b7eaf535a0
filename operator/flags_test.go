// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

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
		"--leader-elect-preferred-zones=za,zb", "--leader-elect-legacy-grace=0s", "--leader-elect-mode=auto",
	}
	var byFlag, byPflag Options
	ours, theirs := flag.NewFlagSet("", flag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	byFlag.AddGoFlags(ours)
	byPflag.AddFlags(theirs)
	must(t, ours.Parse(args))
	must(t, theirs.Parse(args))
	if byFlag.Name != "n" || byFlag.Disabled || byFlag.Timing != byPflag.Timing || byFlag.Legacy != byPflag.Legacy ||
		byFlag.Legacy.Mode != ModeAuto || !slices.Equal(byFlag.PreferredZones, byPflag.PreferredZones) {
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

func TestATimingIsChosenByNameOrByItsDurations(t *testing.T) {
	slow := timing.Patient()
	slow.LeaseDuration = 90 * time.Second
	for args, want := range map[string]timing.Timing{
		"leader-elect-timing=patient":                                 timing.Patient(),
		"leader-elect-timing=fast":                                    timing.Fast(),
		"leader-elect-timing=default":                                 {},
		"leader-elect-timing=patient leader-elect-lease-duration=90s": slow,
		"leader-elect-lease-duration=90s leader-elect-timing=patient": slow,
	} {
		want.StopGrace = 0 // its default depends on the others
		t.Run(args, func(t *testing.T) {
			check := func(how string, o Options, err error) {
				if o.Timing.StopGrace = 0; err != nil || o.Timing.WithDefaults() != want.WithDefaults() {
					t.Errorf("%s: the timing is %+v, %v", how, o.Timing, err)
				}
			}
			var given []string
			for arg := range strings.FieldsSeq(args) {
				given = append(given, "--"+arg)
				name, value, _ := strings.Cut(arg, "=")
				t.Setenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
			}
			for name, parse := range programs {
				var o Options
				err := parse(&o, flag.NewFlagSet("", flag.ContinueOnError), given)
				check(name, o, err)
			}
			var o Options
			err := o.FromEnvironment()
			check("by the environment", o, err)
		})
	}
}

// TestANamedTimingChangesNothingElse: what the program says of its clocks and its work, and that no
// client-go candidate shares the lock.
func TestANamedTimingChangesNothingElse(t *testing.T) {
	own := func(t timing.Timing) timing.Timing {
		t.StopTimeout, t.StopGrace, t.MaxClockDrift, t.Precedence, t.Exclusive = time.Minute, time.Second, 0.02, time.Second, true
		return t
	}
	o, want := Options{Timing: own(timing.Timing{RenewInterval: time.Second})}, own(timing.Patient())
	for name, parse := range programs {
		got := o
		err := parse(&got, flag.NewFlagSet("", flag.ContinueOnError), []string{"--leader-elect-timing=patient"})
		if err != nil || got.Timing != want {
			t.Errorf("%s: %+v, %v", name, got.Timing, err)
		}
		silent := flag.NewFlagSet("", flag.ContinueOnError)
		silent.SetOutput(io.Discard)
		err = parse(&got, silent, []string{"--leader-elect-timing=slow"})
		if err == nil || !strings.Contains(err.Error(), "use default, patient or fast") {
			t.Errorf("%s: an unknown name: %v", name, err)
		}
	}
}

func TestAResourceLockOfClientGosSaysWhichLocksAreHeld(t *testing.T) {
	for _, tc := range []struct {
		lock string
		set  Mode
		want Mode
		err  string
	}{
		{lock: "", set: ModeAuto, want: ModeAuto},
		{lock: "leases", want: ModeLease},
		{lock: "leases", set: ModeAuto, want: ModeAuto},
		{lock: "configmapsleases", want: ModeDual},
		{lock: "endpointsleases", set: ModeAuto, want: ModeAuto},
		{lock: "configmaps", err: "use configmapsleases"},
		{lock: "endpoints", set: ModeAuto, err: "use endpointsleases"},
		{lock: "pods", err: "use leases, configmapsleases or endpointsleases"},
		{lock: "configmapsleases", set: ModeLease, err: "leave one of them out"},
	} {
		o := Options{Legacy: Legacy{Mode: tc.set}}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(fs)
		must(t, fs.Parse([]string{"--leader-elect-resource-lock", tc.lock}))
		switch err := o.validate("op"); {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q with %q: %v", tc.lock, tc.set, err)
			}
		case err != nil || o.Legacy.mode() != tc.want:
			t.Errorf("%q with %q is mode %q, %v", tc.lock, tc.set, o.Legacy.mode(), err)
		}
	}
}

// TestEachFieldOfTheElectorsConfigIsAnOptionOrSetHere keeps Options complete: every choice of
// a user about an elector is a field of the same name and type, and reaches the elector
// unchanged. A new field of election.Config must be an option or be set here.
func TestEachFieldOfTheElectorsConfigIsAnOptionOrSetHere(t *testing.T) {
	setHere := map[string]bool{
		"Lock": true, "Candidate": true, "StopAtLoss": true,
		"TakeoverDelay": true, "OnOverrun": true, "WatchZone": true, "WatchPeers": true, "ProcessLock": true,
	}
	var given election.Config
	_, o := inPod(t)
	o.Timing = election.Timing{LeaseDuration: time.Minute}
	o.WaitOnAbsent = true
	o.Health = election.Health{Check: func(context.Context) error { return nil }}
	o.TracerProvider, o.MeterProvider = tracenoop.NewTracerProvider(), metricnoop.NewMeterProvider()
	o.Logger = funcr.New(func(string, string) {}, funcr.Options{})
	_, err := newElection(t.Context(), "lock", o, func(c *election.Config) { given = *c }, nil)
	must(t, err)
	config, options := reflect.ValueOf(given), reflect.ValueOf(o)
	for _, field := range reflect.VisibleFields(config.Type()) {
		option := options.FieldByName(field.Name)
		switch got := config.FieldByIndex(field.Index); {
		case setHere[field.Name] && option.IsValid():
			t.Errorf("%s is an option, and set here too", field.Name)
		case setHere[field.Name]:
		case !option.IsValid():
			t.Errorf("%s of election.Config is neither an option nor set here", field.Name)
		case option.Type() != field.Type || option.IsZero() || fmt.Sprint(option) != fmt.Sprint(got):
			t.Errorf("%s is %v as an option, and %v for the elector", field.Name, option, got)
		}
	}
}
