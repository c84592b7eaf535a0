// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/internal/plan"
	"github.com/zonelect/zonelect/operator"
)

// timingOf runs the command without a cluster.
func timingOf(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut buffer
	env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	env.config.KubeConfig = ptr.To("testdata/absent.yaml")
	env.connect = func() (clients, error) { return clients{}, errors.New("asked the cluster") }
	code := run(t.Context(), env, args)
	return result{code, out.String(), errOut.String()}
}

func TestTimingPlansWithoutACluster(t *testing.T) {
	for name, line := range map[string]string{
		"timing":            "timing",
		"timing-outage":     "timing --api-outage 30s --failover 45s --stop 5s --drift 1% --round-trip 50ms",
		"timing-wide":       "timing --api-outage 30s --failover 45s --stop 5s -o wide",
		"timing-many":       "timing --api-outage 1m --stop 30s --drift 0.05 --round-trip 1s --candidates 50 --zones 3 --exclusive",
		"timing-yaml":       "timing --api-outage 30s --failover 45s --stop 5s -o yaml",
		"timing-yaml-drift": "timing --drift 5% -o yaml",
		"timing-heartbeat":  "timing --heartbeat --locks 1000 --processes 3",
		"timing-slow":       "timing --heartbeat --locks 1000 --processes 3 --round-trip 120ms --etcd-election 2s -o wide",
		"timing-locks":      "timing --locks 200 --candidates 5",
		"timing-yaml-three": "timing --api-outage 1s --failover 6s --stop 0.3s --heartbeat -o yaml",
		"timing-impossible": "timing --api-outage 30s --failover 30s --stop 5s",
		"timing-nonsense":   "timing --api-outage=-1s --stop 48h --drift 150% --candidates 2 --zones 3",
		"timing-formats":    "__complete timing -o ",
		"timing-flags":      "__complete timing --ro",
		"timing-nothing":    "__complete timing --stop ",
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, timingOf(t, strings.Split(line, " ")...))
		})
	}
}

func TestTimingIsToldFromNonsense(t *testing.T) {
	for line, want := range map[string]string{
		"timing now":                `takes no arguments, but got "now"`,
		"timing -o nonsense":        "use one of wide, yaml",
		"timing --drift much":       "use a percentage such as 1%, or a fraction such as 0.01",
		"timing --drift NaN":        "MaxClockDrift <= 0.5 is broken by NaN",
		"timing --stop soon":        "invalid duration",
		"timing --zones 4":          "4 zones of 3 candidates",
		"timing --failover 1s":      "Possible is",
		"timing --round-trip=-50ms": "RoundTrip",
		"timing --candidates=-3":    "Candidates <= 10000 is broken by -3",
		"timing --locks=-1":         "Locks <= 1000000 is broken by -1",
		"timing --processes=-1":     "Processes <= 10000 is broken by -1",
		"timing --etcd-election=-s": "invalid argument",
	} {
		t.Run(line, func(t *testing.T) {
			r := timingOf(t, strings.Fields(line)...)
			if r.code != exitUsage || r.out != "" || !strings.Contains(r.errors, want) {
				t.Errorf("exit code %d, %q, %q", r.code, r.out, r.errors)
			}
		})
	}
}

func TestTheFlagsAndTheEnvironmentGiveTheTimingThatWasPlanned(t *testing.T) {
	for name, test := range map[string]struct {
		line         string
		requirements plan.Requirements
	}{
		"shared":     {"--api-outage 30s --failover 42s --stop 5s", plan.Requirements{APIOutage: 30 * time.Second, Failover: 42 * time.Second, Stop: 5 * time.Second}},
		"exclusive":  {"--api-outage 1s --failover 6s --stop 0.3s --exclusive", plan.Requirements{APIOutage: time.Second, Failover: 6 * time.Second, Stop: 300 * time.Millisecond, Exclusive: true}},
		"heartbeats": {"--api-outage 1s --failover 6s --stop 0.3s --heartbeat", plan.Requirements{APIOutage: time.Second, Failover: 6 * time.Second, Stop: 300 * time.Millisecond, Heartbeat: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.requirements.Plan()
			if err != nil {
				t.Fatal(err)
			}
			want := p.Timing
			want.StopGrace = 0 // its default is what the timing rules leave
			want = want.WithDefaults()
			for way, o := range printedOptions(t, test.line) {
				if got := o.Timing.WithDefaults(); got != want {
					t.Errorf("by the %s comes %+v, planned was %+v", way, got, want)
				}
				if o.heartbeat != test.requirements.Heartbeat {
					t.Errorf("by the %s comes heartbeat = %v", way, o.heartbeat)
				}
			}
		})
	}
}

// printedOption is what a program with the flag --leader-elect-heartbeat gets.
type printedOption struct {
	operator.Options
	heartbeat bool
}

// printedOptions are what an operator makes of the flags, and of the environment, that the
// command prints.
func printedOptions(t *testing.T, line string) map[string]printedOption {
	t.Helper()
	r := timingOf(t, append([]string{"timing", "-o", "yaml"}, strings.Fields(line)...)...)
	var printed struct {
		Args []string                       `json:"args"`
		Env  []struct{ Name, Value string } `json:"env"`
	}
	if err := yaml.UnmarshalStrict([]byte(r.out), &printed); err != nil {
		t.Fatal(err)
	}
	var byFlags, byEnv printedOption
	flags := newRoot(newEnvironment(genericiooptions.IOStreams{})).Flags()
	byFlags.AddFlags(flags)
	heartbeat.AddFlag(flags, &byFlags.heartbeat)
	if err := flags.Parse(printed.Args); err != nil {
		t.Fatal(err)
	}
	for _, e := range printed.Env {
		t.Setenv(e.Name, e.Value)
	}
	if err := errors.Join(byEnv.FromEnvironment(), heartbeat.FromEnvironment(&byEnv.heartbeat)); err != nil {
		t.Fatal(err)
	}
	return map[string]printedOption{"flags": byFlags, "environment": byEnv}
}

func TestTimingWarnsOnlyOfWhatIsNotSurvived(t *testing.T) {
	for line, want := range map[string][]string{
		"timing":                                                  nil,
		"timing --heartbeat":                                      nil,
		"timing --heartbeat --etcd-election 2s":                   {"warning: 3s/2.5s/0.5s: etcd may end the term"},
		"timing --heartbeat --etcd-election 8s":                   {"warning: 15s/10s/2s: etcd may end the term", "warning: 3s/2.5s/0.5s: etcd may end the term"},
		"timing --heartbeat --round-trip 150ms":                   {"warning: 3s/2.5s/0.5s: round trips of 150ms are too long", "warning: 3s/2.5s/0.5s: etcd may end the term"},
		"timing --heartbeat --stop 1s":                            {"warning: 3s/2.5s/0.5s: work that takes 1s to stop may overlap the next leader's: it has 470ms"},
		"timing --etcd-election 8s":                               {"warning: 15s/10s/2s: etcd may end the term"},
		"timing --api-outage 10s --etcd-election 8s --heartbeat ": {"warning: 3s/2.5s/0.5s: etcd may end the term"},
	} {
		t.Run(line, func(t *testing.T) {
			r := timingOf(t, strings.Fields(line)...)
			var got []string
			if r.errors != "" {
				got = strings.Split(strings.TrimSpace(r.errors), "\n")
			}
			if r.code != 0 || len(got) != len(want) {
				t.Fatalf("exit code %d, warnings %q, want %q", r.code, got, want)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("the warning is %q, want %q", got[i], want[i])
				}
			}
		})
	}
}
