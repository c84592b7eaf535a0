// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
)

// nowhere is the config of an API server that none of these tests asks.
var nowhere = &rest.Config{Host: "http://127.0.0.1:1"}

func options() ctrl.Options {
	return ctrl.Options{
		LeaderElection: true, LeaderElectionID: "op", LeaderElectionNamespace: "ns",
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
}

var self = operator.Options{Self: operator.SelfOptions{Identity: "me", PodName: "me", Zone: "za"}}

func TestAManagersElectionIsWhatItsOptionsSay(t *testing.T) {
	o := options()
	o.LeaseDuration, o.RenewDeadline = ptr.To(time.Minute), ptr.To(40*time.Second)
	with := self
	with.Timing.RenewDeadline = 30 * time.Second
	m, err := NewManager(nowhere, o, with)
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Election.Status(); s.Lock.Namespace != "ns" || s.Lock.Name != "op" || s.Identity != "me" {
		t.Errorf("the election is %+v", s)
	}
	if got := durations(m); !slices.Equal(got, []time.Duration{time.Minute, 30 * time.Second, timing.DefaultRenewInterval}) {
		t.Errorf("the timing is %v", got)
	}
	if _, err := m.GuardedClient(); err != nil {
		t.Errorf("GuardedClient: %v", err)
	}
}

func durations(m *Manager) []time.Duration {
	t := m.Election.Timing()
	return []time.Duration{t.LeaseDuration, t.RenewDeadline, t.RenewInterval}
}

func TestAManagerWithoutElectionIsControllerRuntimes(t *testing.T) {
	o := options()
	o.LeaderElection = false
	m, err := NewManager(nowhere, o, self)
	if err != nil || m.Election != nil {
		t.Errorf("the election is %v, %v", m.Election, err)
	}
	if c, err := m.GuardedClient(); err != nil || c != m.GetClient() {
		t.Errorf("GuardedClient: %v", err)
	}
	if err := m.Election.Alive(nil); err != nil {
		t.Error(err)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for want, change := range map[string]func(*ctrl.Options){
		"GracefulShutdownTimeout is 0": func(o *ctrl.Options) { o.GracefulShutdownTimeout = ptr.To(time.Duration(0)) },
		"has no name":                  func(o *ctrl.Options) { o.LeaderElectionID = "" },
		"LeaseDuration":                func(o *ctrl.Options) { o.LeaseDuration = ptr.To(5 * time.Second) },
		"LeaderElectionResourceLockInterface is set": func(o *ctrl.Options) {
			o.LeaderElectionResourceLockInterface = &bridge{}
		},
		"use configmapsleases": func(o *ctrl.Options) { o.LeaderElectionResourceLock = "configmaps" },
		"is unknown":           func(o *ctrl.Options) { o.LeaderElectionResourceLock = "pods" },
	} {
		o := options()
		change(&o)
		_, err := NewManager(nowhere, o, self)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, timing.ErrInvalid) != (want == "LeaseDuration") {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

func TestALockOfTwoObjectsIsHeldAsControllerRuntimeWouldHoldIt(t *testing.T) {
	with := self
	with.Self.PodUID = "uid"
	for lock, want := range map[string]string{
		"": "Lease ns/op", "leases": "Lease ns/op", "configmapsleases": "ConfigMap", "endpointsleases": "Endpoints",
	} {
		o := options()
		o.LeaderElectionResourceLock = lock
		m, err := NewManager(nowhere, o, with)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Election.Status().Lock.String(); !strings.Contains(got, want) {
			t.Errorf("with %q the lock is %s", lock, got)
		}
	}
}

func TestLabelsOfManagerAndElectionAreJoined(t *testing.T) {
	got := labels(map[string]string{"a": "manager", "b": "manager"}, map[string]string{"b": "own"})
	if len(got) != 2 || got["a"] != "manager" || got["b"] != "own" {
		t.Errorf("the labels are %v", got)
	}
}

// scaffold does the same as the main function of kubebuilder's programs, up to its manager.
// join adds zonelect's flags, if any, and parses all flags.
func scaffold(join func(o *operator.Options, own *flag.FlagSet) error) (*Manager, error) {
	own := flag.NewFlagSet("manager", flag.ContinueOnError)
	var elect, secure bool
	own.Bool("enable-http2", false, "")
	own.BoolVar(&secure, "metrics-secure", true, "")
	own.BoolVar(&elect, "leader-elect", false, "")
	own.Bool("zap-devel", true, "")
	o := self
	if err := join(&o, own); err != nil {
		return nil, err
	}
	options := options()
	options.LeaderElection = elect
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = ptr.To(time.Minute), ptr.To(40*time.Second), ptr.To(5*time.Second)
	options.WebhookServer = webhook.NewServer(webhook.Options{Port: 9443})
	options.Metrics.SecureServing = secure
	return NewManager(nowhere, options, o)
}

func TestAProgramOfKubebuildersHasItsElectionWhateverItsFlags(t *testing.T) {
	byFlag := func(o *operator.Options, own *flag.FlagSet, args []string) error {
		o.AddGoFlags(own)
		return own.Parse(args)
	}
	byPflag := func(o *operator.Options, own *flag.FlagSet, args []string) error {
		all := pflag.NewFlagSet("manager", pflag.ContinueOnError)
		all.AddGoFlagSet(own)
		o.AddFlags(all)
		return all.Parse(args)
	}
	alone := func(_ *operator.Options, own *flag.FlagSet, args []string) error { return own.Parse(args) }
	for _, tc := range []struct {
		name string
		join func(o *operator.Options, own *flag.FlagSet, args []string) error
		args string
		want []time.Duration // none: no election
	}{
		{"zero Options", alone, "", nil},
		{"zero Options", alone, "--leader-elect", []time.Duration{60, 40, 5}},
		{"package flag", byFlag, "", nil},
		{"package flag", byFlag, "--leader-elect --leader-elect-lease-duration=90s", []time.Duration{90, 40, 5}},
		{"pflag", byPflag, "", nil},
		{"pflag", byPflag, "--leader-elect=true --leader-elect-renew-deadline=30s", []time.Duration{60, 30, 5}},
	} {
		m, err := scaffold(func(o *operator.Options, own *flag.FlagSet) error { return tc.join(o, own, strings.Fields(tc.args)) })
		if err != nil || (m.Election == nil) != (tc.want == nil) {
			t.Errorf("%s %s: %v", tc.name, tc.args, err)
			continue
		}
		if m.Election == nil {
			continue
		}
		for i, got := range durations(m) {
			if got != tc.want[i]*time.Second {
				t.Errorf("%s %s: the timing is %v", tc.name, tc.args, durations(m))
			}
		}
	}
}

// TestAFlagThatWouldElectNobodyIsRefused: AddGoFlagSet drops a flag that exists already.
func TestAFlagThatWouldElectNobodyIsRefused(t *testing.T) {
	_, err := scaffold(func(o *operator.Options, own *flag.FlagSet) error {
		all := pflag.NewFlagSet("manager", pflag.ContinueOnError)
		o.AddFlags(all)
		all.AddGoFlagSet(own)
		return all.Parse([]string{"--leader-elect"})
	})
	if err == nil || !strings.Contains(err.Error(), "set LeaderElection to true") {
		t.Errorf("want an error that says what to do, got: %v", err)
	}
}
