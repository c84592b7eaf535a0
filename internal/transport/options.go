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

// DialIntervalDefault is the default of Options.DialInterval.
const DialIntervalDefault = 200 * time.Millisecond

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
	// answered, while dials are fast, and a read goes also on a connection that is kept. Zero means DialIntervalDefault. It is at most
	// a quarter of AttemptTimeout.
	DialInterval time.Duration
	// Servers are the URLs of the API server, nearest first. All have the
	// same scheme and path and lead to the same cluster. Empty means the
	// config's Host.
	Servers []string
}

// WithDefaults returns o with its zero fields filled in, and the others within
// their limits.
func (o Options) WithDefaults() Options {
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, timing.DefaultRenewInterval)
	o.Patience = max(cmp.Or(o.Patience, timing.DefaultRenewDeadline), o.AttemptTimeout)
	o.DialInterval = min(cmp.Or(o.DialInterval, DialIntervalDefault), o.AttemptTimeout/4)
	return o
}

func (o Options) validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"AttemptTimeout", o.AttemptTimeout}, {"Patience", o.Patience}, {"DialInterval", o.DialInterval}} {
		if d.value < 0 {
			return fmt.Errorf("%s is %v: it must be positive, or zero for the default", d.name, d.value)
		}
	}
	if o.AttemptTimeout > 0 && o.AttemptTimeout < 4*time.Millisecond {
		return fmt.Errorf("AttemptTimeout is %v: use at least 4ms, which still has to hold two dials", o.AttemptTimeout)
	}
	return nil
}

// server is one address of the API server.
type server struct {
	url  *url.URL
	addr string // host:port to dial
	name string // the name that its certificate must have
}

// servers parses the addresses to dial, nearest first.
func servers(cfg *rest.Config, urls []string) ([]server, error) {
	if len(urls) == 0 {
		urls = []string{cmp.Or(cfg.Host, "localhost")}
	}
	first, _ := SplitUser(urls[0])
	var list []server
	for _, s := range urls {
		s, _ = SplitUser(s)
		u, _, err := rest.DefaultServerURL(s, "", schema.GroupVersion{}, defaultsToTLS(cfg))
		if err != nil {
			return nil, fmt.Errorf("API server address %q: %w", s, err)
		}
		if u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("API server address %q: its scheme is %q, use https", s, u.Scheme)
		}
		if one := append(list, server{url: u})[0].url; u.Scheme != one.Scheme || path(u) != path(one) {
			return nil, fmt.Errorf("API server addresses %q and %q must have the same scheme and path, since a request is made before it is known which of them answers", first, s)
		}
		list = append(list, server{url: u, addr: hostPort(u), name: cmp.Or(cfg.ServerName, u.Hostname())})
	}
	return list, nil
}

// SplitUser returns an address without its user and password, which would show in errors and
// logs, and those separately, nil if there are none.
func SplitUser(address string) (bare string, user *url.Userinfo) {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	if at < 0 {
		return address, nil
	}
	user = url.User(rest[:at])
	if u, err := url.Parse("//" + rest[:at] + "@host"); err == nil {
		user = u.User
	}
	return scheme + rest[at+1:], user
}

// defaultsToTLS is client-go's rule for an address without a scheme.
func defaultsToTLS(cfg *rest.Config) bool {
	return len(cfg.CAFile)+len(cfg.CAData)+len(cfg.CertFile)+len(cfg.CertData) != 0 || cfg.Insecure
}

func path(u *url.URL) string { return strings.TrimSuffix(u.Path, "/") }

func hostPort(u *url.URL) string {
	port := "443"
	if u.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}
