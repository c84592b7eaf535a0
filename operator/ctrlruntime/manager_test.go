// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/metric/noop"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
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
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = ptr.To(time.Minute), ptr.To(40*time.Second), ptr.To(4*time.Second)
	with := self
	with.Timing.RenewDeadline = 30 * time.Second
	m, err := NewManager(nowhere, o, with)
	must(t, err)
	if s := m.Election.Status(); s.Lock.Namespace != "ns" || s.Lock.Name != "op" || s.Identity != "me" {
		t.Errorf("the election is %+v", s)
	}
	got := m.Election.Timing()
	if got.LeaseDuration != time.Minute || got.RenewDeadline != 30*time.Second || got.RenewInterval != 4*time.Second {
		t.Errorf("the timing is %+v", got)
	}
	if _, err := m.GuardedClient(); err != nil {
		t.Errorf("GuardedClient: %v", err)
	}
	if m, err = NewManager(nowhere, o, self); err != nil || m.Election.Timing().RenewDeadline != 40*time.Second {
		t.Errorf("without a timing of its own the election has not the manager's: %v", err)
	}
}

// TestAGuardedClientReadsFromTheCacheAndHasConnectionsOfItsOwn: it reads as the manager's own does, and not from the
// API server, and does not use the HTTP client that the manager's own has, which guards nothing.
func TestAGuardedClientReadsFromTheCacheAndHasConnectionsOfItsOwn(t *testing.T) {
	var made []client.Options
	o := options()
	o.Client.HTTPClient = &http.Client{}
	o.NewClient = func(config *rest.Config, with client.Options) (client.Client, error) {
		made = append(made, with)
		return client.New(config, with)
	}
	m, err := NewManager(nowhere, o, self)
	if err == nil {
		_, err = m.GuardedClient()
	}
	if err != nil || len(made) != 2 || made[1].Cache == nil || made[1].Cache.Reader != made[0].Cache.Reader || made[1].HTTPClient != nil {
		t.Errorf("%v; clients were made with %+v", err, made)
	}
}

// TestTheElectionIsWhereLeaderElectionConfigSays, and not where the manager works.
func TestTheElectionIsWhereLeaderElectionConfigSays(t *testing.T) {
	o := options()
	o.LeaderElectionConfig = &rest.Config{Host: "ftp://elsewhere"}
	if _, err := NewManager(nowhere, o, self); err == nil || !strings.Contains(err.Error(), "ftp://elsewhere") {
		t.Errorf("it is somewhere else: %v", err)
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
	must(t, m.Election.Alive(nil))
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
		must(t, err)
		if got := m.Election.Status().Lock.String(); !strings.Contains(got, want) {
			t.Errorf("with %q the lock is %s", lock, got)
		}
	}
}

func TestLabelsOfManagerAndElectionAreJoined(t *testing.T) {
	got := joined(map[string]string{"a": "manager", "b": "manager"}, map[string]string{"b": "own"})
	if len(got) != 2 || got["a"] != "manager" || got["b"] != "own" {
		t.Errorf("the labels are %v", got)
	}
}

// TestAFlagThatWouldElectNobodyIsRefused: the program has a flag of its own, whose variable is not set.
func TestAFlagThatWouldElectNobodyIsRefused(t *testing.T) {
	with, fs := self, pflag.NewFlagSet("manager", pflag.ContinueOnError)
	with.AddFlags(fs)
	must(t, fs.Parse([]string{"--leader-elect"}))
	o := options()
	o.LeaderElection = false
	if _, err := NewManager(nowhere, o, with); err == nil || !strings.Contains(err.Error(), "set LeaderElection to true") {
		t.Errorf("want an error that says what to do, got: %v", err)
	}
}

// metricsOf returns what the endpoint of a manager says while it leads.
func metricsOf(t *testing.T, name string, o operator.Options) string {
	t.Helper()
	config, stop := apitest.Run()
	defer stop()
	o.Self = self.Self
	free := httptest.NewServer(nil)
	free.Close()
	address := free.Listener.Addr().String()
	mgr, err := NewManager(config, ctrl.Options{
		Metrics:        metricsserver.Options{BindAddress: address},
		LeaderElection: true, LeaderElectionID: name, LeaderElectionNamespace: "ns",
	}, o)
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var text []byte
	must(t, mgr.Add(manager.RunnableFunc(func(context.Context) error {
		defer end()
		resp, err := http.Get("http://" + address + "/metrics") //nolint:noctx // the manager has started it
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the endpoint says %s", resp.Status)
		}
		text, err = io.ReadAll(resp.Body)
		return err
	})))
	must(t, mgr.Start(ctx))
	return string(text)
}

// TestAManagerShowsItsElection with nothing but NewManager, and so does the next one of the process. One with a
// provider shows it there alone.
func TestAManagerShowsItsElection(t *testing.T) {
	for lock, o := range map[string]operator.Options{"first": {}, "second": {}, "third": {MeterProvider: noop.NewMeterProvider()}} {
		text := metricsOf(t, lock, o)
		ours := `election_leader{election_lock_kind="Lease",election_lock_name="` + lock + `",k8s_namespace_name="ns"} 1`
		if strings.Contains(text, "\n"+ours+"\n") != (o.MeterProvider == nil) {
			t.Errorf("is there %s in\n%s", ours, text)
		}
	}
}
