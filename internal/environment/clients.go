// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/transport"
)

// Clients are an election's own clients of the API server, one for each API group, on the same
// connections.
type Clients struct {
	Transport                *transport.Transport
	Coordination, Core, Apps *rest.RESTClient
}

// electing ends the user agent of an election's requests, as in client-go, so that audit logs
// and quotas tell them from the work's requests.
const electing = "/leader-election"

// Clients returns clients on connections of their own: no rate limit, no retries, and dead
// connections are left within an AttemptTimeout. It does no I/O except to read the files that the
// config names.
func (e *Environment) Clients() (*Clients, error) {
	if e.Config == nil {
		return nil, errors.New("the rest.Config is nil")
	}
	if err := errors.Join(e.Timing.Validate(), record.CheckLabels(e.Labels)); err != nil {
		return nil, err
	}
	cfg := warning(e.Config, e.Logger)
	if len(e.Servers) > 0 {
		cfg.Host = e.Servers[0]
	}
	cfg = Named(cfg)
	if !strings.HasSuffix(cfg.UserAgent, electing) {
		cfg.UserAgent += electing
	}
	tr, err := transport.New(cfg, transport.Options{AttemptTimeout: e.Timing.AttemptTimeout, Patience: e.Timing.RenewDeadline, Servers: e.Servers})
	if err != nil {
		return nil, err
	}
	c := &Clients{Transport: tr}
	var errs [3]error
	c.Coordination, errs[0] = restClient(cfg, tr, "/apis", coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme)
	c.Core, errs[1] = restClient(cfg, tr, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme)
	c.Apps, errs[2] = restClient(cfg, tr, "/apis", appsv1.SchemeGroupVersion, appsv1.AddToScheme)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return c, nil
}

// restClient returns a client of one API group that speaks JSON on tr, without
// a rate limit.
func restClient(cfg *rest.Config, tr http.RoundTripper, path string, gv schema.GroupVersion, add func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // errors
	if err := add(scheme); err != nil {
		return nil, fmt.Errorf("preparing a client of %s: %w", gv, err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = path, &gv
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, ""
	cfg.QPS, cfg.RateLimiter = -1, nil
	client, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: tr})
	if err != nil {
		return nil, fmt.Errorf("preparing a client of %s: %w", gv, err)
	}
	return client, nil
}

// Named returns cfg with the user agent that client-go would send. It removes credentials
// from the server's address, because errors show that address.
func Named(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
	host, user := transport.SplitUser(cfg.Host)
	cfg.Host = host
	if user != nil && cfg.Username == "" && cfg.BearerToken == "" && cfg.BearerTokenFile == "" {
		cfg.Username = user.Username()
		cfg.Password, _ = user.Password()
	}
	return cfg
}

// warnings logs each warning of the API server once: client-go would log it with each request, and
// to its own logger.
type warnings struct {
	log  logr.Logger
	mu   sync.Mutex
	seen map[string]bool
}

// mostWarnings is how many warnings are logged. Others may write what they say.
const mostWarnings = 20

// warning returns a copy of cfg with such a handler, unless it has a handler of its own.
func warning(cfg *rest.Config, log logr.Logger) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.WarningHandler == nil && cfg.WarningHandlerWithContext == nil && log.GetSink() != nil {
		cfg.WarningHandler = &warnings{log: log, seen: map[string]bool{}}
	}
	return cfg
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	w.mu.Lock()
	news := code == 299 && text != "" && !w.seen[text] && len(w.seen) < mostWarnings
	if news {
		w.seen[text] = true
	}
	w.mu.Unlock()
	if news {
		w.log.Info("the API server warns", "of", text)
	}
}
