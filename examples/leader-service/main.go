// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command leader-service serves HTTP on all replicas. A Service sends its clients to the one that
// leads. All replicas are Ready, so that a rolling update does not wait for a leader.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

func main() {
	address := flag.String("address", ":8080", "address to serve HTTP on")
	o := operator.Options{LeaderService: "my-operator-leader"}
	o.AddGoFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, o); err != nil {
		log.Fatal(err)
	}
}

// run serves until the election has ended, so that clients which still come here are answered.
func run(ctx context.Context, address string, o operator.Options) error {
	e, err := operator.New(ctx, "leader-service", o)
	if err != nil {
		return err
	}
	var c net.ListenConfig
	listener, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	// Without these, clients that do nothing keep connections for ever. Each costs a file descriptor, and
	// without a free one a leader whose connection breaks cannot renew.
	server := &http.Server{
		Handler: handler(e), ReadHeaderTimeout: time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	go func() { _ = server.Serve(listener) }() // it ends by Close
	defer server.Close()
	return e.Run(ctx, work)
}

// handler serves the API and the probes.
func handler(e *operator.Election) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		// Clients learn late that the leader has changed, so each request looks whether it has.
		if term := e.Term(); term.TrustedFor() > 0 {
			_, _ = fmt.Fprintln(w, "served by the leader with token", term.Token) // the client may be gone
			return
		}
		http.Error(w, "this replica does not lead: try again", http.StatusServiceUnavailable)
	})
	// Followers are Ready, too. If they were not, a rolling update would wait for ever: its first new
	// pod follows until an old one goes, and no old one goes before the new one is Ready.
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.Handle("/healthz", e.LivenessHandler())
	return mux
}

// work is what only the leader does, beside serving.
func work(ctx context.Context, term election.Term) error {
	fmt.Println("leading with token", term.Token)
	<-ctx.Done()
	fmt.Println("stopped:", context.Cause(ctx))
	return nil
}
