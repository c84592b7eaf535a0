// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// world is a lasting manager without election, and the API server that it asks.
type world struct {
	*Lasting
	t      *testing.T
	server *apitest.Server
	asked  atomic.Int64 // how often for ConfigMaps
	denied atomic.Value // the resource that nobody may see
}

// Before its logger is set, controller-runtime keeps whatever asks for one. Client-go's handlers of errors
// pace them by the time at which the process began, which is far ahead of that of a bubble.
func init() {
	ctrl.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
}

func newWorld(t *testing.T, objects int, change ...func(*ctrl.Options)) *world {
	t.Helper()
	if os.Getenv("FLOOR") != "" {
		t.Skip("NewLasting needs a newer controller-runtime than NewManager")
	}
	w := &world{t: t, server: apitest.NewServer()}
	for n := range objects {
		w.put("ns", n)
	}
	o := ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			m := meta.NewDefaultRESTMapper(nil)
			m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
			return m, nil
		},
	}
	for _, c := range change {
		c(&o)
	}
	config := &rest.Config{Host: "http://api", Transport: apitest.Transport(w.server)}
	config.ContentType = "application/json"
	if o.LeaderElection {
		config = nowhere
	}
	w.denied.Store("/nothing")
	w.server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.HasSuffix(path, "/configmaps") {
			w.asked.Add(1)
		}
		if strings.Contains(path, w.denied.Load().(string)) {
			return apitest.Forbidden(verb, path)
		}
		return 0, nil
	}
	var err error
	if w.Lasting, err = NewLasting(config, o, operator.Options{Disabled: o.LeaderElection}); errors.Is(err, errTooOld) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put puts a ConfigMap on the server.
func (w *world) put(namespace string, n int) {
	w.server.Put(fmt.Sprintf("/api/v1/namespaces/%s/configmaps/%d", namespace, n), apitest.Object{
		"kind": "ConfigMap", "apiVersion": "v1",
		"metadata": apitest.Object{"name": fmt.Sprint(n), "namespace": namespace, "uid": fmt.Sprint(namespace, n)},
	})
}

// inWorld runs a test in virtual time, with so many ConfigMaps.
func inWorld(t *testing.T, objects int, do func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { do(newWorld(t, objects)) })
}

// serve starts the cache alone: terms are begun by term.
func (w *world) serve() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- w.GetCache().Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		must(w.t, <-done)
		time.Sleep(time.Minute) // a queue looks only now and then whether it is shut down
	})
	w.started.Store(true)
	synctest.Wait()
}

// term is one term, which ends when during returns.
func (w *world) term(during func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- w.lead(ctx, election.Term{}) }()
	during()
	cancel()
	must(w.t, <-done)
}

// indexing adds an index of ConfigMaps.
func indexing(m ctrl.Manager) error {
	x := func(client.Object) []string { return []string{"x"} }
	return m.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, "f", x)
}

// doing returns the function that adds a controller of ConfigMaps.
func doing(name string, do func(context.Context, reconcile.Request) (reconcile.Result, error)) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).Named(name).For(&corev1.ConfigMap{}).Complete(reconcile.Func(do))
	}
}

func (w *world) mustLead(setup func(ctrl.Manager) error) {
	w.t.Helper()
	must(w.t, w.Lead(setup))
}

// warm rehearses all setups, starts the cache and warms up, as Start does.
func (w *world) warm() {
	w.t.Helper()
	trial, err := w.rehearse(true, w.setups...)
	must(w.t, err)
	w.trial = trial
	w.serve()
	must(w.t, w.warmUp(w.t.Context()))
}
