// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// lines are the lines of a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.NewJSON(func(line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, line)
	}, funcr.Options{})
}

// with returns the lines that contain a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// klogged returns a function that returns what client-go has logged since.
func klogged(t *testing.T) func() string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	was := os.Stderr
	os.Stderr = f
	t.Cleanup(func() {
		os.Stderr = was
		_ = f.Close() // nothing is written any more
	})
	return func() string {
		all, err := os.ReadFile(f.Name())
		if err != nil {
			t.Error(err)
		}
		return string(all)
	}
}

// TestNothingOfAnElectionGoesToClientGosLog: neither the API server's warnings nor what becomes of
// Events, also of those that come at the end.
func TestNothingOfAnElectionGoesToClientGosLog(t *testing.T) {
	server, o := inPod(t)
	var own lines
	raw := klogged(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "this version is old"`)
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no Events"}`))
			return
		}
		server.ServeHTTP(w, r)
	}))
	defer refusing.Close()
	defer refusing.CloseClientConnections()
	o.Config, o.NoEvents, o.Logger = &rest.Config{Host: refusing.URL}, false, own.logger()
	for range 20 {
		must(t, Run(t.Context(), "op", func(context.Context, election.Term) error { return nil }, o))
	}
	if got := raw(); got != "" {
		t.Errorf("client-go has logged:\n%s", got)
	}
}

// TestAnOutageIsHeardOfNowAndThen, and only as long as it lasts.
func TestAnOutageIsHeardOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		ctx, cancel := context.WithCancel(t.Context())
		link := lockstest.NewFaulty(memory.New("lock"))
		link.Set(lockstest.Fault{Err: errors.New("503")})
		e, err := election.New(election.Config{Lock: link, Candidate: locks.Candidate{Identity: "a"}})
		must(t, err)
		transitions, done, over := e.Subscribe(ctx), make(chan struct{}), make(chan error)
		go func() {
			defer close(done)
			remind(log.logger(), transitions)
		}()
		go func() {
			over <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
		}()
		began := 0
		for _, step := range []struct {
			lasts time.Duration
			lines int
		}{{reminder - time.Second, 0}, {2 * time.Second, 1}, {12 * reminder, 12}} {
			time.Sleep(step.lasts)
			synctest.Wait()
			got := log.with("")
			if len(got)-began != step.lines {
				t.Errorf("%d lines in %v, want %d:\n%s", len(got)-began, step.lasts, step.lines, strings.Join(got, "\n"))
			}
			began = len(got)
		}
		if got := log.with(""); !strings.Contains(got[0], "503") {
			t.Errorf("it does not say why: %q", got[0])
		}
		link.Set(lockstest.Fault{})
		time.Sleep(time.Hour)
		if got := log.with(""); len(got) > began+1 {
			t.Errorf("the outage is over, and heard of: %q", got[began:])
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		<-done
	})
}
