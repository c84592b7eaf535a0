// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelection

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/operator"
)

func TestAConfigThatCannotBeUsedIsRefusedWithWhatToDo(t *testing.T) {
	a := &api{}
	foreign := lockOf(t, &rest.Config{Host: "https://elsewhere:6443"}, "one")
	beside := lockOf(t, &rest.Config{Host: "http://127.0.0.1:80/beside"}, "one") // another cluster behind one address
	type config = LeaderElectionConfig
	lock := func(change func(*resourcelock.LeaseLock)) func(*config) {
		return func(c *config) { change(c.Lock.(*resourcelock.LeaseLock)) }
	}
	client := func(from coordinationv1.LeasesGetter) func(*config) {
		return lock(func(l *resourcelock.LeaseLock) { l.Client = from })
	}
	for want, change := range map[string]func(c *config){
		"Lock is nil":                      func(c *config) { c.Lock = nil },
		"use a *resourcelock.LeaseLock":    func(c *config) { c.Lock = other{} },
		"has no Name":                      lock(func(l *resourcelock.LeaseLock) { l.LeaseMeta.Name = "" }),
		"has no Namespace":                 lock(func(l *resourcelock.LeaseLock) { l.LeaseMeta.Namespace = "" }),
		"has no Identity":                  lock(func(l *resourcelock.LeaseLock) { l.LockConfig.Identity = "" }),
		"must be positive":                 func(c *config) { c.RetryPeriod = 0 },
		"LeaseDuration":                    func(c *config) { c.LeaseDuration = c.RenewDeadline },
		"OnStartedLeading is nil":          func(c *config) { c.Callbacks.OnStartedLeading = nil },
		"OnStoppedLeading is nil":          func(c *config) { c.Callbacks.OnStoppedLeading = nil },
		"Coordinated is set":               func(c *config) { c.Coordinated = true },
		"Options name a lock":              func(c *config) { c.Options.Name = "op" },
		"end the process in Callbacks.OnS": func(c *config) { c.Options.ExitOnOverrun = true },
		"Options.Timing sets durations":    func(c *config) { c.Options.Timing.LeaseDuration = lease },
		"belongs to http://127.0.0.1:80/b": client(beside.Client),
		"belongs to https://elsewhere:644": client(foreign.Client),
		"set Options.Disabled in tests":    client(fake.NewClientset().CoordinationV1()),
	} {
		c := configOf(lockOf(t, a.Config(), "one"), operator.Options{Config: a.Config()})
		if _, err := NewLeaderElector(c); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if _, err := NewLeaderElector(c); !errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

// other is a lock that is none of client-go's.
type other struct{ resourcelock.Interface }

var given = flag.String("kubeconfig", "", "as client-go's examples have it")

// TestTheConfigIsFoundAsThePrograms: client-go's examples have a flag for it.
func TestTheConfigIsFoundAsThePrograms(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := func(name, server string) string {
		path := filepath.Join(dir, name)
		text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], " +
			"clusters: [{name: c, cluster: {server: '" + server + "'}}]}"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flagged, named := kubeconfig("flag", "https://flag:6443"), kubeconfig("env", "https://env:6443")
	t.Setenv("KUBECONFIG", named)
	findFor := func(lock resourcelock.Interface) error {
		_, err := NewLeaderElector(configOf(lock, operator.Options{}))
		return err
	}
	find := func(server string) error { return findFor(lockOf(t, &rest.Config{Host: server}, "one")) }
	defer func() { *given = "" }()
	if err := find("https://env:6443"); err != nil {
		t.Errorf("with a flag that is not given: %v", err)
	}
	timed, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, "ns", "op",
		resourcelock.ResourceLockConfig{Identity: "one"}, &rest.Config{Host: "https://env:6443"}, deadline)
	if err != nil {
		t.Fatal(err)
	}
	if err := findFor(timed); err != nil {
		t.Errorf("with a client that has a timeout: %v", err)
	}
	*given = flagged
	if err := find("https://flag:6443"); err != nil {
		t.Error(err)
	}
	if err := find("https://env:6443"); !errors.Is(err, ErrConfig) {
		t.Errorf("the other cluster's lock: %v", err)
	}
	*given = filepath.Join(dir, "missing")
	if err := find("https://env:6443"); !errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), "missing") {
		t.Errorf("a file that is missing: %v", err)
	}
}

// TestATestNeedsNoServer: programs are tested with a fake client.
func TestATestNeedsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := lockOf(t, &rest.Config{}, "one")
		lock.Client = fake.NewClientset().CoordinationV1()
		ctx, end := context.WithCancel(t.Context())
		led := false
		c := configOf(lock, operator.Options{Disabled: true, Logger: logr.Discard()})
		c.Callbacks.OnStartedLeading = func(context.Context) { led = true; end() }
		RunOrDie(ctx, c)
		if !led {
			t.Error("it has not led")
		}
	})
}
