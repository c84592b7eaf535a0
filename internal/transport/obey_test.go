// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// hangs is a round tripper that does not obey contexts: it returns when let is closed.
type hangs struct {
	let    chan struct{}
	asked  atomic.Int32
	closed atomic.Int32 // answers whose bodies were closed
}

func (h *hangs) RoundTrip(*http.Request) (*http.Response, error) {
	h.asked.Add(1)
	<-h.let
	return &http.Response{StatusCode: http.StatusOK, Body: h}, nil
}

func (h *hangs) Read([]byte) (int, error) { return 0, io.EOF }
func (h *hangs) Close() error             { h.closed.Add(1); return nil }

// roundTrip makes a request whose context ends after so long.
func roundTrip(t *testing.T, rt http.RoundTripper, limit time.Duration) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	resp, err := rt.RoundTrip((&http.Request{URL: &url.URL{Host: "api"}, Header: http.Header{}}).WithContext(ctx))
	if err == nil {
		_ = resp.Body.Close()
	}
	return time.Since(began), err
}

// unsettled returns the channel that tells when a request that was given up has come back, and nil if
// err is not of such a request.
func unsettled(err error) <-chan struct{} {
	var given interface{ Unsettled() <-chan struct{} } // as locks.Lock says
	if errors.As(err, &given) {
		return given.Unsettled()
	}
	return nil
}

func TestARequestIsGivenUpIfWhatIsBelowDoesNotObeyItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &hangs{let: make(chan struct{})}
		rt := obey(below, time.Second)
		took, err := roundTrip(t, rt, 20*time.Second)
		if took != 21*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
		var timeout interface{ Timeout() bool }
		if !errors.As(err, &timeout) || !timeout.Timeout() || !strings.Contains(err.Error(), "has not come back for 21s: a credential plugin") {
			t.Errorf("the error is %v", err)
		}
		over := unsettled(err)
		if over == nil {
			close(below.let)
			t.Fatal("the error does not say that the request goes on")
		}
		select {
		case <-over:
			t.Error("the request that goes on is settled")
		default:
		}
		close(below.let)
		synctest.Wait()
		<-over
		if below.closed.Load() != 1 {
			t.Error("nobody closed the answer that came too late")
		}
		if took, err := roundTrip(t, rt, time.Second); took != 0 || err != nil {
			t.Errorf("the next request: %v, %v", took, err)
		}
	})
}

// TestWhatObeysItsContextIsNotGivenUp, even if it takes a moment.
func TestWhatObeysItsContextIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := errors.New("the end of the context")
		rt := obey(stampFunc(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			time.Sleep(time.Second / 2)
			return nil, own
		}), time.Second)
		if took, err := roundTrip(t, rt, time.Minute); took != time.Minute+time.Second/2 || !errors.Is(err, own) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

type stampFunc func(*http.Request) (*http.Response, error)

func (f stampFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestFewRequestsHangAtATime: the next ones wait for those that were given up, and are not sent.
func TestFewRequestsHangAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &hangs{let: make(chan struct{})}
		rt := obey(below, time.Second)
		for range mostStrays {
			_, _ = roundTrip(t, rt, time.Second)
		}
		took, err := roundTrip(t, rt, time.Second)
		if took != time.Second || unsettled(err) != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "credential plugin") {
			t.Errorf("after %v: %v", took, err)
		}
		if n := below.asked.Load(); n != mostStrays {
			t.Errorf("%d requests were made", n)
		}
		time.AfterFunc(time.Second, func() { close(below.let) })
		if took, err := roundTrip(t, rt, time.Minute); took != time.Second || err != nil {
			t.Errorf("a request that waited for another: %v, %v", took, err)
		}
	})
}

// TestAWrapperThatHangsHoldsNoRequestUp of a Transport.
func TestAWrapperThatHangsHoldsNoRequestUp(t *testing.T) {
	let := make(chan struct{})
	cfg := serve(t, true, 0, peer).config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return stampFunc(func(req *http.Request) (*http.Response, error) {
			<-let
			return next.RoundTrip(req)
		})
	})
	tr := mustNew(t, cfg, Options{AttemptTimeout: 4 * time.Millisecond})
	err := roundTripTo(t, tr, cfg)
	over := unsettled(err)
	if over == nil {
		t.Fatalf("the error is %v", err)
	}
	close(let)
	<-over
	if n := len(tr.pool.open.all()); n != 0 { // its context has ended
		t.Errorf("the request was sent, on %d connections", n)
	}
}

// roundTripTo makes a request whose context has ended.
func roundTripTo(t *testing.T, tr *Transport, cfg *rest.Config) error {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}
