// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command front is the front end of a zone for the testbed's embedded API server: it speaks TLS and
// HTTP/2 with clients, and hands their requests to the store through a socket. It dies with its zone.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/test/kit/sharedport"
)

func main() {
	listen := pflag.String("listen", "", "address for clients")
	cert := pflag.String("tls-cert-file", "", "certificate")
	key := pflag.String("tls-private-key-file", "", "its key")
	store := pflag.String("store", "", "unix socket of the store")
	pflag.Parse()
	if err := serve(*listen, *cert, *key, *store); err != nil {
		fmt.Fprintln(os.Stderr, "front:", err)
		os.Exit(1)
	}
}

func serve(listen, cert, key, store string) error {
	listener, err := sharedport.Listen(listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(store)} //nolint:gosec // its clients are a testbed's
	return server.ServeTLS(listener, cert, key)
}

// handler hands requests to the store. What comes back is passed on at once, as a watch needs.
func handler(store string) http.Handler {
	var dialer net.Dialer
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "store"
		},
		FlushInterval: -1,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", store)
			},
			MaxIdleConnsPerHost: 100,
			DisableCompression:  true,
		},
	}
}
