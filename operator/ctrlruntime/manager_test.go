// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

// nowhere is the way to an API server that none of these tests asks.
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
	o.LeaseDuration, o.RenewDeadline = new(time.Minute), new(40*time.Second)
	with := self
	with.Timing.RenewDeadline = 30 * time.Second
	m, err := NewManager(nowhere, o, with)
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Election.Status(); s.Lock.Namespace != "ns" || s.Lock.Name != "op" || s.Identity != "me" {
		t.Errorf("the election is %+v", s)
	}
	if got := m.Election.Timing(); got.LeaseDuration != time.Minute || got.RenewDeadline != 30*time.Second || got.RenewInterval != election.RenewIntervalDefault {
		t.Errorf("the timing is %+v", got)
	}
	if _, err := m.GuardedClient(); err != nil {
		t.Errorf("GuardedClient: %v", err)
	}
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
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for want, change := range map[string]func(*ctrl.Options){
		"GracefulShutdownTimeout is 0": func(o *ctrl.Options) { o.GracefulShutdownTimeout = new(time.Duration(0)) },
		"has no name":                  func(o *ctrl.Options) { o.LeaderElectionID = "" },
		"LeaseDuration":                func(o *ctrl.Options) { o.LeaseDuration = new(5 * time.Second) },
	} {
		o := options()
		change(&o)
		if _, err := NewManager(nowhere, o, self); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
	o := options()
	o.LeaseDuration = new(5 * time.Second)
	if _, err := NewManager(nowhere, o, self); !errors.Is(err, election.ErrTiming) {
		t.Errorf("want ErrTiming, got: %v", err)
	}
}
