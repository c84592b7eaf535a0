// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is an operator of controller-runtime: a manager with an
// informer, a reconciler that needs leadership, a webhook that does not, and
// its election by zonelect or, for comparison, by controller-runtime itself.
// It prints the same lines as the candidate program.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/stdr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/operator/ctrlruntime"
	"github.com/zonelect/zonelect/test/kit/events"
)

// by is the annotation on a reconciled ConfigMap that names who reconciled it.
const by = "test.zonelect.dev/reconciled-by"

type options struct {
	kubeconfig, namespace, lock string
	identity, zone              string
	plain, lasting              bool
	bare                        bool
	late                        time.Duration
	webhook                     string
}

func main() {
	var o options
	f := pflag.NewFlagSet("manager", pflag.ExitOnError)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.namespace, "namespace", "default", "namespace of the lock and of the ConfigMaps that are reconciled")
	f.StringVar(&o.lock, "lock", "", "name of the lock, and value of the label lock on the ConfigMaps that are reconciled")
	f.StringVar(&o.identity, "identity", "", "identity of the candidate")
	f.StringVar(&o.zone, "zone", "", "zone of the candidate")
	f.BoolVar(&o.plain, "plain", false, "the election is controller-runtime's own")
	f.BoolVar(&o.lasting, "lasting", false, "the manager goes on when leadership is lost")
	f.BoolVar(&o.bare, "bare", false, "the candidate finds out by itself who and where it is")
	f.DurationVar(&o.late, "late", 0, "how late each request comes to the API server")
	f.StringVar(&o.webhook, "webhook", "", "host:port to serve the webhook on; none by default")
	_ = f.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &events.Printer{Identity: o.identity, Lock: o.lock}
	if err := o.run(ctx, p); err != nil {
		p.Print(events.Event{Event: "error", Error: err.Error()})
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, p *events.Printer) error {
	mgr, lead, err := o.manager()
	if err != nil {
		return err
	}
	err = errors.Join(
		lead(func(m manager.Manager, c client.Client) error {
			return errors.Join(
				ctrl.NewControllerManagedBy(m).Named(o.lock).For(&corev1.ConfigMap{}).
					Complete(&reconciler{c, o.identity}),
				m.Add(manager.RunnableFunc(func(ctx context.Context) error { // needs leadership, as a controller does
					p.Print(events.Event{Event: "leading"})
					<-ctx.Done()
					p.Print(events.Event{Event: "stopping"})
					p.Print(events.Event{Event: "stopped"})
					return nil
				})),
			)
		}),
		mgr.Add(everywhere(func() { p.Print(events.Event{Event: "started"}) })),
	)
	if err != nil {
		return err
	}
	if o.webhook != "" {
		mgr.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(
			func(context.Context, admission.Request) admission.Response {
				return admission.Allowed("")
			},
		)})
	}
	return mgr.Start(ctx)
}

// manager returns a manager, and what calls a function that sets up the leader's work.
func (o options) manager() (manager.Manager, func(setup func(manager.Manager, client.Client) error) error, error) {
	logger := stdr.New(log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds))
	ctrl.SetLogger(logger)
	cfg, err := environment.RESTConfig(o.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	if o.late > 0 {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return late{next, o.late} })
	}
	options := ctrl.Options{
		LeaderElection: true, LeaderElectionID: o.lock, LeaderElectionNamespace: o.namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(timing.DefaultStopTimeout),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{o.namespace: {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(labels.Set{"lock": o.lock})}},
		},
	}
	if o.webhook != "" {
		host, port, err := net.SplitHostPort(o.webhook)
		if err != nil {
			return nil, nil, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, nil, err
		}
		chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			return nil, nil, err
		}
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, nil, err
		}
		options.WebhookServer = webhook.NewServer(webhook.Options{Host: host, Port: number, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		}}})
	}
	with := operator.Options{Self: operator.SelfOptions{Identity: o.identity, Zone: o.zone}}
	if o.bare {
		with.Self = operator.SelfOptions{}
	}
	switch {
	case o.plain:
		mgr, err := ctrl.NewManager(cfg, options)
		return mgr, func(setup func(manager.Manager, client.Client) error) error { return setup(mgr, mgr.GetClient()) }, err
	case o.lasting:
		mgr, err := ctrlruntime.NewLasting(cfg, options, with)
		return mgr, func(setup func(manager.Manager, client.Client) error) error {
			return mgr.Lead(func(m ctrl.Manager) error { return setup(m, m.GetClient()) })
		}, err
	}
	mgr, err := ctrlruntime.NewManager(cfg, options, with)
	return mgr, func(setup func(manager.Manager, client.Client) error) error {
		guarded, err := mgr.GuardedClient()
		if err != nil {
			return err
		}
		return setup(mgr, guarded)
	}, err
}

// everywhere runs without leadership.
type everywhere func()

func (e everywhere) Start(context.Context) error { e(); return nil }

func (e everywhere) NeedLeaderElection() bool { return false }

// late delays requests.
type late struct {
	http.RoundTripper
	by time.Duration
}

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(l.by)
	return l.RoundTripper.RoundTrip(r)
}

// reconciler writes its identity on each ConfigMap.
type reconciler struct {
	client.Client
	identity string
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &cm); err != nil || cm.Annotations[by] == r.identity {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, by, r.identity)
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, &cm, client.RawPatch(types.MergePatchType, patch)))
}
