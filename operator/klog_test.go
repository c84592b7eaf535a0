// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
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
