// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
)

// Options tune a Transport. The zero value is good for default timing.
type Options struct {
	// AttemptTimeout is how long a request waits until another one overtakes it. An unused
	// connection is kept for as long, and no dial waits longer for a kernel's answer. Only
	// its own context bounds the request itself. Zero means timing.DefaultRenewInterval.
	AttemptTimeout time.Duration
	// Patience is how long a handshake may take. Zero means
	// timing.DefaultRenewDeadline. It is at least AttemptTimeout.
	Patience time.Duration
	// DialInterval is the time after which another dial joins one that has not
	// answered, while dials are fast, and a read goes also on a connection that is kept. Zero means 200 ms.
	// It is at most a quarter of AttemptTimeout.
	DialInterval time.Duration
	// Servers are the URLs of the API server, nearest first. All have the
	// same scheme and path and lead to the same cluster. Behind a proxy only the
	// first is used. Empty means the config's Host.
	Servers []string
}

// withDefaults returns o with its zero fields filled in, and the others within
// their limits.
func (o Options) withDefaults() Options {
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, timing.DefaultRenewInterval)
	o.Patience = max(cmp.Or(o.Patience, timing.DefaultRenewDeadline), o.AttemptTimeout)
	o.DialInterval = min(cmp.Or(o.DialInterval, 200*time.Millisecond), o.AttemptTimeout/4)
	return o
}

// server is one address of the API server.
type server struct {
	addr string // host:port to dial
	name string // the name that its certificate must have
}

// servers parses the addresses to dial, nearest first.
func servers(cfg *rest.Config, urls []string) ([]server, error) {
	if len(urls) == 0 {
		urls = []string{cmp.Or(cfg.Host, "localhost")}
	}
	var list []server
	var first *url.URL
	for _, s := range urls {
		s, _ = SplitUser(s)
		u, _, err := rest.DefaultServerURL(s, "", schema.GroupVersion{}, defaultsToTLS(cfg))
		if err != nil {
			return nil, fmt.Errorf("API server address %q: %w", s, err)
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("API server address %q: its scheme is %q, use https", s, u.Scheme)
		}
		first = cmp.Or(first, u)
		if u.Scheme != first.Scheme || strings.TrimSuffix(u.Path, "/") != strings.TrimSuffix(first.Path, "/") {
			return nil, fmt.Errorf("API server addresses %q and %q must have the same scheme and path, since a request is made before it is known which of them answers", first, s)
		}
		port := map[string]string{"https": "443", "http": "80"}[u.Scheme]
		list = append(list, server{addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), name: cmp.Or(cfg.ServerName, u.Hostname())})
	}
	return list, nil
}

// SplitUser returns an address without its user and password, which would show in errors and
// logs, and those separately, nil if there are none.
func SplitUser(address string) (bare string, user *url.Userinfo) {
	if !strings.Contains(address, "://") {
		address = "//" + address
	}
	u, err := url.Parse(address)
	if err == nil {
		user, u.User = u.User, nil
		address = u.String()
	}
	return strings.TrimPrefix(address, "//"), user
}

// defaultsToTLS is client-go's rule for an address without a scheme.
func defaultsToTLS(cfg *rest.Config) bool {
	return len(cfg.CAFile)+len(cfg.CAData)+len(cfg.CertFile)+len(cfg.CertData) != 0 || cfg.Insecure
}
