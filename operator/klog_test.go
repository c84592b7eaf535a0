// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// TestNothingOfAnElectionGoesToClientGosLog: neither the API server's warnings nor what becomes of
// Events, also of those that come at the end.
func TestNothingOfAnElectionGoesToClientGosLog(t *testing.T) {
	server, o := inPod(t)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	was := os.Stderr
	os.Stderr = stderr
	defer func() {
		os.Stderr = was
		_ = stderr.Close() // nothing is written any more
	}()
	server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.HasSuffix(path, "/events") {
			return apitest.Forbidden(verb, path)
		}
		return 0, nil
	}
	warning := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", `299 - "this version is old"`)
		server.ServeHTTP(w, r)
	}))
	defer warning.Close()
	defer warning.CloseClientConnections()
	o.Config, o.NoEvents, o.Logger = &rest.Config{Host: warning.URL}, false, logr.FromSlogHandler(slog.DiscardHandler)
	for range 20 {
		must(t, Run(t.Context(), "op", func(context.Context, election.Term) error { return nil }, o))
	}
	logged, err := os.ReadFile(stderr.Name())
	if err != nil || len(logged) > 0 {
		t.Errorf("client-go has logged, %v:\n%s", err, logged)
	}
}
