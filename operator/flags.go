// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
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

// defaulted is a duration that keeps its value unless its flag is given.
type defaulted struct {
	value       *time.Duration
	unlessGiven time.Duration
	given       bool
}

func (d *defaulted) String() string {
	switch {
	case d.value == nil:
		return ""
	case *d.value == 0:
		return d.unlessGiven.String()
	}
	return d.value.String()
}

func (d *defaulted) Set(s string) (err error) {
	*d.value, err = time.ParseDuration(s)
	d.given = true
	return err
}

func (d *defaulted) Type() string { return "duration" }

// named is a timing by its name. It sets what has no flag of its own that was given.
type named struct {
	timing    *election.Timing
	durations []*defaulted // LeaseDuration, RenewDeadline, RenewInterval
	name      string
}

func (n *named) String() string { return n.name }

func (n *named) Set(name string) error {
	var t election.Timing
	switch name {
	case "default":
		t = t.WithDefaults()
	case "patient":
		t = timing.Patient()
	case "fast":
		t = timing.Fast()
	default:
		return errors.New("use default, patient or fast")
	}
	for i, d := range []time.Duration{t.LeaseDuration, t.RenewDeadline, t.RenewInterval} {
		if !n.durations[i].given {
			*n.durations[i].value = d
		}
	}
	n.timing.AttemptTimeout = t.AttemptTimeout
	n.timing.Exclusive = n.timing.Exclusive || t.Exclusive
	n.name = name
	return nil
}

func (n *named) Type() string { return "string" }

// grace is a flag for a duration where zero means never.
type grace time.Duration

func (g *grace) String() string { return max(0, time.Duration(*g)).String() }

func (g *grace) Set(s string) error {
	d, err := time.ParseDuration(s)
	if *g = grace(d); d == 0 {
		*g = -1
	}
	return err
}

func (g *grace) Type() string { return "duration" }

// negated is a flag that is true where its variable is false.
type negated struct{ value *bool }

func (n *negated) String() string {
	return strconv.FormatBool(n.value == nil || !*n.value)
}

func (n *negated) Set(s string) error {
	on, err := strconv.ParseBool(s)
	*n.value = !on
	return err
}

func (n *negated) Type() string { return "bool" }

// IsBoolFlag lets package flag take the flag without a value.
func (n *negated) IsBoolFlag() bool { return true }
