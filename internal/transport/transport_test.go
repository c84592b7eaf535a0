// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/transport/live"
)

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func TestADialThatHangsIsOvertakenAndReset(t *testing.T) {
	s := serve(t, true, 3, peer)
	tr := mustNew(t, s.config(), Options{AttemptTimeout: 4 * time.Millisecond, Patience: 10 * time.Minute})
	mustGet(t, t.Context(), tr, s.URL)
	tr.CloseConnections() // with the dial that went on
	for _, c := range s.held() {
		wantReset(t, c)
	}
}

func TestHTTP1IsSpokenThoughTheServerOffersHTTP2(t *testing.T) {
	for _, secure := range []bool{true, false} {
		s := serve(t, secure, 0, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
		if got := mustGet(t, t.Context(), mustNew(t, s.config(), patient()), s.URL); got != "HTTP/1.1" {
			t.Errorf("secure %v: the server saw %s", secure, got)
		}
	}
}

// hanging serves /hang by reporting the request and waiting for the client to go.
func hanging(arrived chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			arrived <- struct{}{}
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // no answer, not even a late one
		}
		peer(w, r)
	}
}

func TestAnAttemptThatEndsTakesItsConnectionWithIt(t *testing.T) {
	for name, secure := range map[string]bool{"TLS": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			s := serve(t, secure, 0, hanging(arrived))
			tr := mustNew(t, s.config(), calm())
			first := mustGet(t, t.Context(), tr, s.URL)

			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-arrived; cancel() }()
			if _, err := get(ctx, tr, s.URL+"/hang"); !errors.Is(err, context.Canceled) {
				t.Fatalf("the attempt ended with %v", err)
			}
			if err := <-s.ended; !secure && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("its connection ended with %v, want a reset", err)
			}
			if again := mustGet(t, t.Context(), tr, s.URL); again == first {
				t.Errorf("%s was used again", first)
			}
		})
	}
}

func TestARefusedCredentialMakesTheNextRequestDial(t *testing.T) {
	s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		peer(w, r)
	})
	tr := mustNew(t, s.config(), calm())
	first := mustGet(t, t.Context(), tr, s.URL)
	if second := mustGet(t, t.Context(), tr, s.URL); second == first {
		t.Errorf("%s was used again", first)
	}
}

func TestCloseConnectionsEndsRequestsAndDials(t *testing.T) {
	t.Run("request", func(t *testing.T) {
		arrived := make(chan struct{})
		s := serve(t, false, 0, hanging(arrived))
		tr := mustNew(t, s.config(), calm())
		var closing sync.WaitGroup
		closing.Go(func() { <-arrived; tr.CloseConnections() })
		if _, err := get(t.Context(), tr, s.URL+"/hang"); err == nil {
			t.Error("the request went on")
		}
		if err := <-s.ended; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("its connection ended with %v, want a reset", err)
		}
		closing.Wait() // else it may end the next request too
		mustGet(t, t.Context(), tr, s.URL)
	})
	t.Run("dial", func(t *testing.T) {
		dialing := make(chan struct{}, 1000)
		cfg := &rest.Config{Host: "https://nowhere.invalid", Proxy: noProxy}
		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialing <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		tr := mustNew(t, cfg, calm())
		go func() { <-dialing; tr.CloseConnections() }()
		if _, err := get(t.Context(), tr, cfg.Host); !errors.Is(err, errAborted) {
			t.Errorf("the dial ended with %v", err)
		}
	})
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  *rest.Config
		says string
	}{
		"a transport": {&rest.Config{Transport: http.DefaultTransport}, "WrapTransport"},
		"no address":  {&rest.Config{Host: "a/b"}, `"a/b"`},
		"odd scheme":  {&rest.Config{Host: "ftp://a"}, "https"},
		"no such CA":  {&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "absent.pem"}}, "absent.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(tc.cfg, Options{}); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("New: %v, want an error that says %s", err, tc.says)
			}
		})
	}
}

// TestALiveConnectionServesARequestThatWantsOne: another handshake would only be load. A
// request under way on another connection goes on.
func TestALiveConnectionServesARequestThatWantsOne(t *testing.T) {
	arrived := make(chan struct{})
	s := serve(t, true, 0, hanging(arrived))
	tr := mustNew(t, s.config(), calm())
	first := mustGet(t, t.Context(), tr, s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 1)
	go func() {
		_, err := get(ctx, tr, s.URL+"/hang") // on the first connection
		hung <- err
	}()
	<-arrived
	began := time.Now()
	second := mustGet(t, live.Since(t.Context(), began), tr, s.URL)
	if third := mustGet(t, live.Since(t.Context(), began), tr, s.URL); third != second || second == first {
		t.Errorf("the requests came from %s, %s and %s", first, second, third)
	}
	select {
	case err := <-hung:
		t.Errorf("the slow request ended with %v", err)
	default:
	}
	cancel()
	<-hung
}

// deadline is a context whose deadline passes as it is canceled.
type deadline struct{ context.Context }

func (d deadline) Err() error {
	if d.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// TestARequestThatTimesOutLeavesTheIdleConnections: each of them that is dead too would cost
// another request's time.
func TestARequestThatTimesOutLeavesTheIdleConnections(t *testing.T) {
	const open = mostIdle
	var dead sync.Map
	var all sync.WaitGroup
	all.Add(open)
	onDead := make(chan struct{}, 1)
	s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/together" {
			dead.Store(r.RemoteAddr, true)
			all.Done()
			all.Wait()
		} else if _, is := dead.Load(r.RemoteAddr); is {
			select {
			case onDead <- struct{}{}:
			default:
			}
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		peer(w, r)
	})
	tr := mustNew(t, s.config(), calm())
	var asked sync.WaitGroup
	for range open {
		asked.Go(func() {
			if _, err := get(t.Context(), tr, s.URL+"/together"); err != nil {
				t.Error(err)
			}
		})
	}
	asked.Wait()

	ctx, expire := context.WithCancel(t.Context())
	go func() { <-onDead; expire() }()
	if _, err := get(deadline{ctx}, tr, s.URL); err == nil {
		t.Fatal("a dead connection gave an answer")
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	answered := make(chan error, 1)
	go func() {
		_, err := get(ctx, tr, s.URL)
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("the second request: %v", err)
		}
	case <-onDead:
		t.Error("the second request went by another dead connection")
	}
}

// TestARequestAsideTakesNoConnectionFromOthers: not while it is under way, nor when it gets no answer.
// A later one may use its own again.
func TestARequestAsideTakesNoConnectionFromOthers(t *testing.T) {
	arrived := make(chan struct{})
	hangs := hanging(arrived)
	s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		hangs(w, r)
	})
	tr := mustNew(t, s.config(), calm())
	renewals := mustGet(t, t.Context(), tr, s.URL)
	aside := mustGet(t, live.Aside(t.Context()), tr, s.URL)
	if again := mustGet(t, live.Aside(t.Context()), tr, s.URL); aside == renewals || again != aside {
		t.Errorf("renewals go by %s, and what is aside by %s and %s", renewals, aside, again)
	}
	mustGet(t, live.Aside(t.Context()), tr, s.URL+"/refused")
	if got := mustGet(t, t.Context(), tr, s.URL); got != renewals {
		t.Errorf("after a refusal of another request a renewal goes by %s, want %s", got, renewals)
	}
	if again := mustGet(t, live.Aside(t.Context()), tr, s.URL); again == aside || again == renewals {
		t.Errorf("after its refusal a request aside goes by %s again", again)
	}
	ctx, expire := context.WithCancel(live.Aside(t.Context()))
	meanwhile := make(chan string, 1)
	go func() {
		<-arrived
		meanwhile <- mustGet(t, t.Context(), tr, s.URL)
		expire()
	}()
	if _, err := get(deadline{ctx}, tr, s.URL+"/hang"); err == nil {
		t.Fatal("what hangs gave an answer")
	}
	if during, after := <-meanwhile, mustGet(t, t.Context(), tr, s.URL); during != renewals || after != renewals {
		t.Errorf("renewals go by %s meanwhile, and by %s afterwards, want %s", during, after, renewals)
	}
}
