// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"flag"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
)

const electFlag = "leader-elect"

// AddFlags adds a flag to fs for each option that a user may want to set, under the names
// that Kubernetes' own components use where these exist. The default of each flag is what the
// environment says, see [Options.FromEnvironment], or else the field's present value. Parse fs
// before the Options are used: what is wrong with the environment is an error then.
//
// A flag that fs has already, such as the --leader-elect of kubebuilder's programs, is
// shared: it still sets the program's variable, and sets the field as well. Whether there is an
// election, its default decides, and not the environment. So call AddFlags
// after the program's own flags are defined, and after fs.AddGoFlagSet, which drops flags
// that fs has.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.given.mistaken = o.FromEnvironment()
	if theirs := fs.Lookup(electFlag); theirs != nil {
		if elect, err := strconv.ParseBool(theirs.Value.String()); err == nil {
			o.Disabled = !elect
		}
	}
	o.given.elects = true
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	o.flags(own)
	own.VisitAll(func(f *pflag.Flag) {
		if theirs := fs.Lookup(f.Name); theirs != nil {
			theirs.Value = &shared{theirs.Value, f.Value}
			return
		}
		fs.AddFlag(f)
	})
}

// AddGoFlags is AddFlags for package flag, such as flag.CommandLine in programs
// that kubebuilder made. Package flag panics if a program defines a flag of the
// same name afterwards, so call AddGoFlags right before the flags are parsed.
func (o *Options) AddGoFlags(fs *flag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.AddGoFlagSet(fs)
	o.AddFlags(all)
	all.VisitAll(func(f *pflag.Flag) {
		theirs := fs.Lookup(f.Name)
		if both, is := f.Value.(*shared); is {
			theirs.Value = &shared{theirs.Value, both.own}
		} else if theirs == nil {
			fs.Var(&goFlag{f.Value}, f.Name, f.Usage)
		}
	})
}

// ElectionByFlag reports whether a flag of AddFlags or AddGoFlags, or a variable of
// FromEnvironment, says that there is an election. It is for packages that also learn this
// elsewhere, such as ctrlruntime.
func (o *Options) ElectionByFlag() bool { return o.given.elects && !o.Disabled }

// shared is a flag of the program that sets a field of Options as well.
type shared struct{ theirs, own flag.Value }

func (s *shared) String() string {
	if s.theirs == nil {
		return ""
	}
	return s.theirs.String()
}

func (s *shared) Set(value string) error {
	if err := s.theirs.Set(value); err != nil {
		return err
	}
	return s.own.Set(value)
}

func (s *shared) Type() string {
	if v, ok := s.theirs.(pflag.Value); ok {
		return v.Type()
	}
	return "value"
}

// IsBoolFlag lets package flag take the flag without a value, if it takes the program's flag
// without one.
func (s *shared) IsBoolFlag() bool {
	b, ok := s.theirs.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// goFlag adapts a pflag flag to package flag, which asks a zero value for its string to know
// whether a default is worth printing.
type goFlag struct{ pflag.Value }

func (g *goFlag) String() string {
	if g.Value == nil {
		return ""
	}
	return g.Value.String()
}

// IsBoolFlag lets package flag take the flag without a value.
func (g *goFlag) IsBoolFlag() bool { return g.Value != nil && g.Type() == "bool" }

// value is a flag whose text is not simply that of a variable.
type value struct {
	kind string
	text func() string
	set  func(string) error
}

// String is empty for a zero value, which package flag asks.
func (v *value) String() string {
	if v.text == nil {
		return ""
	}
	return v.text()
}

func (v *value) Set(s string) error { return v.set(s) }
func (v *value) Type() string       { return v.kind }

// elect is a flag that is false where the election is disabled.
func (o *Options) elect() *value {
	return &value{"bool", func() string { return strconv.FormatBool(!o.Disabled) }, func(s string) error {
		on, err := strconv.ParseBool(s)
		o.Disabled = !on
		return err
	}}
}

// grace is a flag for a duration where zero means never.
func (l *Legacy) grace() *value {
	return &value{"duration", func() string { return max(0, l.Grace).String() }, func(s string) (err error) {
		if l.Grace, err = time.ParseDuration(s); l.Grace == 0 {
			l.Grace = -1
		}
		return err
	}}
}

// defaulted is a duration that keeps its value unless its flag is given.
type defaulted struct {
	value       *time.Duration
	unlessGiven time.Duration
	given       bool
}

func (d *defaulted) flag() *value {
	text := func() string { return cmp.Or(*d.value, d.unlessGiven).String() }
	return &value{"duration", text, func(s string) (err error) {
		*d.value, err = time.ParseDuration(s)
		d.given = true
		return err
	}}
}

// named is a flag for a timing by its name. It sets what has no flag of its own that was given: LeaseDuration,
// RenewDeadline and RenewInterval.
func (o *Options) named(durations []*defaulted) *value {
	given := ""
	return &value{"string", func() string { return given }, func(name string) error {
		all := map[string]election.Timing{
			"default": election.Timing{}.WithDefaults(), "patient": timing.Patient(), "fast": timing.Fast(),
		}
		t, known := all[name]
		if !known {
			return errors.New("use default, patient or fast")
		}
		for i, d := range []time.Duration{t.LeaseDuration, t.RenewDeadline, t.RenewInterval} {
			if !durations[i].given {
				*durations[i].value = d
			}
		}
		o.Timing.AttemptTimeout = t.AttemptTimeout
		o.Timing.Exclusive = o.Timing.Exclusive || t.Exclusive
		given = name
		return nil
	}}
}
