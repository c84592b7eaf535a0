// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

const leaseText = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"holderIdentity":"a"},` +
	`"metadata":{"name":"lock","namespace":"ns","uid":"u","resourceVersion":"7"}}`

// leaseServer answers every request with a Lease and notes the requests.
type leaseServer struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func serve(t *testing.T) *leaseServer {
	t.Helper()
	s := &leaseServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, leaseText)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *leaseServer) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{
		Host: s.URL, BearerToken: "t", UserAgent: "my-operator",
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		ContentConfig:   rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
		QPS:             0.0001, Burst: 1,
	}
}

// lockOf returns a lock on that Lease on connections of its own.
func lockOf(e *Environment, name string) (*lease.Lock, error) {
	clients, err := e.Clients()
	if err != nil {
		return nil, err
	}
	return lease.New(e.Lease(clients, name))
}

// at returns an environment with timeouts that no test reaches.
func at(cfg *rest.Config) *Environment {
	return &Environment{Config: cfg, Namespace: "ns", Timing: slow.WithDefaults()}
}

var slow = timing.Timing{LeaseDuration: time.Hour, RenewDeadline: 30 * time.Minute, RenewInterval: 10 * time.Minute}

// TestAnElectionDialsByItsOwnTiming: with a RenewDeadline of 2.5 s there is no time for the dials of 10 s.
func TestAnElectionDialsByItsOwnTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, dials := time.Now(), make(chan time.Duration, 100)
		cfg := &rest.Config{Host: "http://apiserver.test", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials <- time.Since(began)
			<-ctx.Done()
			return nil, ctx.Err()
		}, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
		fast := timing.Fast()
		lock, err := lockOf(&Environment{Config: cfg, Namespace: "ns", Timing: fast}, "lock")
		must(t, err)
		_, err = lock.Read(t.Context())
		took, first, second := time.Since(began), <-dials, <-dials
		if err == nil || took != fast.RenewDeadline || first != 0 || second != fast.AttemptTimeout/4 {
			t.Errorf("%v after %v; it dialed after %v and %v", err, took, first, second)
		}
	})
}

func TestALeaseLockSpeaksToTheServerOfItsConfig(t *testing.T) {
	s := serve(t)
	cfg := s.config()
	cfg.Timeout = time.Nanosecond // it would end the watches
	lock, err := lockOf(at(cfg), "lock")
	must(t, err)
	defer lock.Capabilities().CloseConnections()
	snapshot, err := lock.Read(t.Context())
	if err != nil || snapshot.Record.Holder != "a" {
		t.Fatalf("read %+v, %v", snapshot, err)
	}
	for range 20 { // a rate limit would take hours
		_, err := lock.Write(t.Context(), snapshot.Version, locks.Record{Holder: "b", LeaseDuration: time.Second})
		if !errors.Is(err, record.ErrNotShown) { // this server stores nothing
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.seen[len(s.seen)-1]
	for name, got := range map[string][2]string{
		"request":    {last.Method + " " + last.URL.Path, "PUT /apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"},
		"protocol":   {last.Proto, "HTTP/1.1"},
		"token":      {last.Header.Get("Authorization"), "Bearer t"},
		"user agent": {last.UserAgent(), "my-operator/leader-election"},
		"content":    {last.Header.Get("Content-Type"), "application/json"},
		"connection": {last.RemoteAddr, s.seen[0].RemoteAddr},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %q, want %q", name, got[0], got[1])
		}
	}
}

func TestTheUserAgentIsClientGosIfTheConfigNamesNone(t *testing.T) {
	s := serve(t)
	cfg := s.config()
	cfg.UserAgent = ""
	lock, err := lockOf(at(cfg), "lock")
	must(t, err)
	defer lock.Capabilities().CloseConnections()
	_, err = lock.Read(t.Context())
	must(t, err)
	if got := s.seen[0].UserAgent(); !strings.Contains(got, "kubernetes") || !strings.HasSuffix(got, "/leader-election") {
		t.Errorf("user agent %q, want client-go's", got)
	}
	if cfg.UserAgent != "" || cfg.APIPath != "" {
		t.Errorf("the config was changed: %+v", cfg)
	}
}

func TestALeaseLockThatCannotWorkIsRefused(t *testing.T) {
	good, unlawful := &rest.Config{Host: "https://a"}, timing.Timing{LeaseDuration: time.Second}.WithDefaults()
	for name, tc := range map[string]struct {
		e    *Environment
		name string
		kind error
		says string
	}{
		"unlawful time":  {&Environment{Config: good, Namespace: "ns", Timing: unlawful}, "lock", timing.ErrInvalid, "RenewDeadline"},
		"no name":        {at(good), "", nil, "name is empty"},
		"no namespace":   {&Environment{Config: good, Timing: slow.WithDefaults()}, "lock", nil, "namespace is empty"},
		"both passwords": {at(&rest.Config{Host: "https://a", BearerToken: "t", Username: "u"}), "lock", nil, "authentication"},
	} {
		t.Run(name, func(t *testing.T) {
			lock, err := lockOf(tc.e, tc.name)
			if err == nil || lock != nil || !strings.Contains(err.Error(), tc.says) || tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("%v, want an error that says %q", err, tc.says)
			}
		})
	}
}
