// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
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
	if err := errors.Join(e.Timing.Validate(), record.CheckLabels(e.Labels)); err != nil {
		return nil, err
	}
	cfg := Named(e.Config)
	if !strings.HasSuffix(cfg.UserAgent, electing) {
		cfg.UserAgent += electing
	}
	tr, err := transport.New(cfg, transport.Options{AttemptTimeout: e.Timing.AttemptTimeout, Patience: e.Timing.RenewDeadline})
	if err != nil {
		return nil, err
	}
	c := &Clients{Transport: tr}
	var errs [3]error
	c.Coordination, errs[0] = restClient(cfg, tr, coordinationv1.SchemeGroupVersion)
	c.Core, errs[1] = restClient(cfg, tr, corev1.SchemeGroupVersion)
	c.Apps, errs[2] = restClient(cfg, tr, appsv1.SchemeGroupVersion)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return c, nil
}

// restClient returns a client of one API group that speaks JSON on tr, without
// a rate limit.
func restClient(cfg *rest.Config, tr http.RoundTripper, gv schema.GroupVersion) (*rest.RESTClient, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &gv
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, ""
	cfg.QPS, cfg.RateLimiter = -1, nil
	client, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: tr})
	if err != nil {
		return nil, fmt.Errorf("preparing a client of %s: %w", gv, err)
	}
	return client, nil
}

// Named returns cfg with the user agent that client-go would send. Warnings of the API server go to
// the program's own handler or nowhere: client-go would log them with each request.
func Named(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.WarningHandlerWithContext == nil {
		cfg.WarningHandler = cmp.Or[rest.WarningHandler](cfg.WarningHandler, rest.NoWarnings{})
	}
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
	return cfg
}
