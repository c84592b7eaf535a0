// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/locks/lease"
)

// LockOptions say more about a lock and the way to it. The zero value is ready
// to use.
type LockOptions struct {
	// Servers are URLs of the API server, nearest first, used instead of the
	// config's Host. All have the same scheme and path, lead to the same
	// cluster, and accept the same credentials. They cannot be used through a
	// proxy, unless there is one only.
	Servers []string
	// Logger gets the lock's warnings. The zero value drops them.
	Logger logr.Logger
}

// LeaseLock returns a lock on the Lease namespace/name, on connections of its
// own that serve this lock alone: no rate limit, no retries, and dead
// connections are left within timing.AttemptTimeout. cfg says where the API
// server is and how to authenticate; it is not changed. Its Timeout, QPS,
// Burst and content types have no meaning here. timing is that of the election
// that will use the lock; zero fields have their defaults.
//
// It does no I/O but reading the files that cfg names.
func LeaseLock(cfg *rest.Config, timing election.Timing, namespace, name string, o LockOptions) (*lease.Lock, error) {
	fail := func(err error) (*lease.Lock, error) {
		return nil, fmt.Errorf("making the lock on lease %s/%s: %w", namespace, name, err)
	}
	if cfg == nil {
		return fail(errors.New("the rest.Config is nil"))
	}
	timing = timing.WithDefaults()
	if err := timing.Validate(); err != nil {
		return fail(err)
	}
	cfg = named(cfg)
	if len(o.Servers) > 0 {
		cfg.Host = o.Servers[0]
	}
	tr, err := transport.New(cfg, transport.Options{AttemptTimeout: timing.AttemptTimeout, Servers: o.Servers})
	if err != nil {
		return fail(err)
	}
	client, err := restClient(cfg, tr, "/apis", coordinationv1.SchemeGroupVersion)
	if err != nil {
		return fail(err)
	}
	lock, err := lease.New(lease.Config{
		Client: client, Namespace: namespace, Name: name,
		CloseConnections: tr.CloseConnections,
		Logger:           o.Logger,
	})
	if err != nil {
		return fail(err)
	}
	return lock, nil
}

// restClient returns a client of one API group that speaks JSON on tr, without
// a rate limit.
func restClient(cfg *rest.Config, tr http.RoundTripper, path string, gv schema.GroupVersion) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // errors
	if err := coordinationv1.AddToScheme(scheme); err != nil {
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

// named returns cfg with the user agent that client-go would send.
func named(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
	return cfg
}
