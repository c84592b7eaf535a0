// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command legacy is a candidate with a lock of the past: leader-for-life, or
// client-go's record on an annotation. It prints the same lines as the
// candidate program.
//
// A leader-for-life program ends on SIGTERM and leaves its lock to the garbage
// collector. The others stop their work and then, with --release, give the lock
// up.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
	"github.com/zonelect/zonelect/test/kit/register"
)

// options are the flags.
type options struct {
	kind                        legacyelectors.Kind
	variant                     legacyelectors.Variant
	kubeconfig, namespace, lock string
	podName, podUID, identity   string
	lease, deadline, retry      time.Duration
	release                     bool
	register                    string
	stopDelay                   time.Duration
}

func parse(args []string) (options, error) {
	var o options
	f := pflag.NewFlagSet("legacy", pflag.ContinueOnError)
	f.StringVar((*string)(&o.kind), "kind", string(legacyelectors.OwnerRef), "ownerref, configmap, endpoints, multilock-configmap or multilock-endpoints")
	f.StringVar((*string)(&o.variant), "variant", string(legacyelectors.Original), "of ownerref: original, stale or notready")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of lock and pod")
	f.StringVar(&o.lock, "lock", "", "name of the ConfigMap or Endpoints")
	f.StringVar(&o.podName, "pod-name", "", "name of the pod")
	f.StringVar(&o.podUID, "pod-uid", "", "UID of the pod; looked up by its name by default")
	f.StringVar(&o.identity, "identity", "", "identity of the candidate; by default the pod's name, and something random unless the lock is the pod's for life")
	f.DurationVar(&o.lease, "lease-duration", 15*time.Second, "")
	f.DurationVar(&o.deadline, "renew-deadline", 10*time.Second, "")
	f.DurationVar(&o.retry, "retry-period", 2*time.Second, "")
	f.BoolVar(&o.release, "release", false, "give a lock up that is not for life when the work has stopped")
	f.StringVar(&o.register, "register", "", "ConfigMap that the leader writes every 100ms")
	f.DurationVar(&o.stopDelay, "stop-delay", 0, "how long the work takes to stop")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected arguments: %v", f.Args())
	}
	return o.checked()
}

// checked returns the options, with an identity made up if need be, or an error
// that says what is wrong with them.
func (o options) checked() (options, error) {
	switch {
	case !slices.Contains([]legacyelectors.Kind{legacyelectors.OwnerRef, legacyelectors.ConfigMap, legacyelectors.Endpoints, legacyelectors.MultiConfigMap, legacyelectors.MultiEndpoints}, o.kind):
		return o, fmt.Errorf("--kind=%s: there is no such kind of lock", o.kind)
	case !slices.Contains([]legacyelectors.Variant{legacyelectors.Original, legacyelectors.Stale, legacyelectors.NotReady}, o.variant):
		return o, fmt.Errorf("--variant=%s: there is no such variant", o.variant)
	case o.lock == "":
		return o, errors.New("--lock is missing: the name of the object to campaign for")
	case o.podName == "" && (o.kind == legacyelectors.OwnerRef || o.identity == ""):
		return o, errors.New("--pod-name is missing: the name of the pod that this program stands for")
	// client-go's own rule.
	case o.lease <= o.deadline || o.deadline <= time.Duration(legacyelectors.AcquireJitter*float64(o.retry)) || o.retry <= 0:
		return o, fmt.Errorf("want --lease-duration %v > --renew-deadline %v > %v times --retry-period %v > 0", o.lease, o.deadline, legacyelectors.AcquireJitter, o.retry)
	}
	made := o.podName
	if o.kind != legacyelectors.OwnerRef {
		made += "_" + string(uuid.NewUUID())
	}
	o.identity = cmp.Or(o.identity, made)
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "legacy:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := campaign(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "legacy:", err)
		os.Exit(1)
	}
}

// campaign campaigns and leads until ctx ends.
func campaign(ctx context.Context, o options) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	printer := &events.Printer{Identity: o.identity, Lock: o.lock}
	ledger, err := register.New(cfg, o.namespace, o.register, register.Pace{})
	if err != nil {
		return err
	}
	w := &worker{identity: o.identity, stopDelay: o.stopDelay, ledger: ledger, print: printer.Print}
	if o.kind != legacyelectors.OwnerRef {
		return o.elect(ctx, cfg, w)
	}
	client, err := kubernetes.NewForConfig(cfg) // without a timeout, as leader-for-life has it
	if err != nil {
		return err
	}
	f := &legacyelectors.ForLife{
		Client: client, Variant: o.variant, Namespace: o.namespace, Lock: o.lock,
		PodName: o.podName, PodUID: types.UID(o.podUID), Print: printer.Print,
	}
	f.Run(ctx, w.lead)
	return nil
}

// elect campaigns for a lock that is not held for life.
func (o options) elect(ctx context.Context, cfg *rest.Config, w *worker) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = max(time.Second, o.deadline/2) // as client-go and controller-runtime set it
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	l, err := legacyelectors.NewLock(client, o.kind, o.namespace, o.lock, o.identity)
	if err != nil {
		return err
	}
	e := &legacyelectors.Elector{
		Lock: l, Lease: o.lease, Deadline: o.deadline, Retry: o.retry,
		Release: o.release, Print: w.print, Work: w.lead,
	}
	e.Run(ctx)
	return nil
}
