// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// inTerm runs f as the work of a term that ends when f returns.
func inTerm(t *testing.T, f func(context.Context, *election.Elector) error) {
	t.Helper()
	e, err := election.New(election.Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}, TakeoverDelay: atOnce})
	must(t, err)
	must(t, e.Run(t.Context(), func(ctx context.Context, _ election.Term) error { return f(ctx, e) }))
}

func TestS12AGuardedClientWritesInItsTermOnlyAndReadsAlways(t *testing.T) {
	seen := make(chan *http.Request, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"lock","namespace":"ns"}}`)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	way := &rest.Config{Host: s.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{CAData: ca}, QPS: -1}
	var elector *election.Elector
	cfg, err := GuardConfig(way, func() election.Term { return elector.Term() })
	must(t, err)
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	leases := client.CoordinationV1().Leases("ns")
	write := func(ctx context.Context) error {
		_, err := leases.Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock"}}, metav1.UpdateOptions{})
		return err
	}
	inTerm(t, func(ctx context.Context, e *election.Elector) error {
		elector = e
		return write(ctx)
	})
	if err := write(t.Context()); !errors.Is(err, election.ErrUntrusted) || !strings.Contains(err.Error(), "not sent") {
		t.Errorf("a write after the term: %v", err)
	}
	if _, err := leases.Get(t.Context(), "lock", metav1.GetOptions{}); err != nil {
		t.Errorf("a read after the term: %v", err)
	}
	if len(seen) != 2 {
		t.Fatalf("the server saw %d requests, want the first write and the read", len(seen))
	}
	wrote, read := <-seen, <-seen
	if wrote.Method != http.MethodPut || wrote.ProtoMajor != 1 || read.Method != http.MethodGet {
		t.Errorf("the server saw %v and %v", wrote, read)
	}
	if auth := wrote.Header.Values("Authorization"); len(auth) != 1 || auth[0] != "Bearer t" {
		t.Errorf("the write had the credentials %q", auth)
	}
}

// TestS12AGuardedClientsUpgradeBeginsInItsTermOnly: its connection carries both directions.
func TestS12AGuardedClientsUpgradeBeginsInItsTermOnly(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.CopyN(conn, both, 4)
		_ = conn.Close()
	}))
	defer s.Close()
	var elector *election.Elector
	cfg, err := GuardConfig(&rest.Config{Host: s.URL}, func() election.Term { return elector.Term() })
	must(t, err)
	client, err := rest.HTTPClientFor(cfg)
	must(t, err)
	exec := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/namespaces/ns/pods/p/exec", nil)
		if err != nil {
			return "", err
		}
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.WriteString(resp.Body.(io.Writer), "echo"); err != nil {
			return "", err
		}
		said, err := io.ReadAll(resp.Body)
		return string(said), err
	}
	inTerm(t, func(ctx context.Context, e *election.Elector) error {
		elector = e
		said, err := exec(ctx)
		if said != "echo" {
			t.Errorf("the connection says %q", said)
		}
		return err
	})
	if _, err := exec(t.Context()); !errors.Is(err, election.ErrUntrusted) {
		t.Errorf("after the term: %v", err)
	}
}

// memoryConn keeps what is written to it.
type memoryConn struct {
	net.Conn
	wire bytes.Buffer
}

func (c *memoryConn) Write(p []byte) (int, error) { return c.wire.Write(p) }

func TestS12NoPacketLeavesAConnectionAfterTheTerm(t *testing.T) {
	var tcp memoryConn
	var conn *guardedConn
	inTerm(t, func(_ context.Context, e *election.Elector) error {
		conn = &guardedConn{&tcp, e.Term}
		_, err := conn.Write([]byte("in time"))
		return err
	})
	if _, err := conn.Write([]byte("late")); !errors.Is(err, election.ErrUntrusted) {
		t.Errorf("a late write: %v", err)
	}
	if got := tcp.wire.String(); got != "in time" {
		t.Errorf("on the wire is %q", got)
	}
}

func TestS12AGuardedConnectionIsReset(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	tcp, err := net.Dial("tcp", listener.Addr().String())
	must(t, err)
	server, err := listener.Accept()
	must(t, err)
	defer server.Close()
	conn := &guardedConn{tcp, nil}
	must(t, errors.Join(conn.SetLinger(0), conn.Close()))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
}

func TestAGuardWithoutAConfigOrATermIsRefused(t *testing.T) {
	none := func() election.Term { return election.Term{} }
	if _, err := GuardConfig(nil, none); err == nil {
		t.Error("no error without a config")
	}
	if _, err := GuardConfig(&rest.Config{Host: "https://apiserver.test"}, nil); err == nil {
		t.Error("no error without a term")
	}
	if _, err := GuardConfig(&rest.Config{Transport: http.DefaultTransport}, none); err == nil {
		t.Error("no error for a config with a transport of its own")
	}
}

// atOnce is a takeover delay without the spread of candidates that do not know each other.
func atOnce(election.Takeover) time.Duration { return 0 }
