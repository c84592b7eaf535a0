// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// TestNoRequestOfAnElectionFollowsARedirect: neither one for the lock, nor an Event, nor any
// other takes the token to another host.
func TestNoRequestOfAnElectionFollowsARedirect(t *testing.T) {
	astray := make(chan string, 1000)
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { astray <- r.Method + " " + r.URL.Path }))
	defer plain.Close()
	for name, redirects := range map[string]func(path string) bool{
		"of Events":  func(path string) bool { return strings.HasSuffix(path, "/events") },
		"of Leases":  func(path string) bool { return strings.Contains(path, "/leases") },
		"everything": func(string) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			_, o := inPod(t)
			server := apitest.NewServer()
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if redirects(r.URL.Path) {
					http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusTemporaryRedirect)
					return
				}
				server.ServeHTTP(w, r)
			}))
			defer func() { s.CloseClientConnections(); s.Close() }()
			told := make(chan struct{}, 1000)
			o.Logger = funcr.New(func(_, line string) {
				if strings.Contains(line, "redirects to") {
					told <- struct{}{}
				}
			}, funcr.Options{})
			o.Config = &rest.Config{Host: s.URL, BearerToken: "s3cr3t.token"}
			o.Config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			o.NoEvents = false
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = Run(ctx, "op", func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil }, o) // it leads, or not
			}()
			select {
			case <-told:
			case request := <-astray:
				t.Errorf("%s went astray", request)
			case <-ctx.Done():
				t.Error("nothing is said of the redirect")
			}
			stop()
			<-over
		})
	}
	if len(astray) > 0 {
		t.Errorf("%d requests went astray, the first was %s", len(astray), <-astray)
	}
}
