// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// certificate returns the server's TLS configuration, and the CA that its
// clients trust.
func certificate(t *testing.T) (*tls.Config, []byte) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// slowly serves h with the delays of a server.
func slowly(h *apitest.Server, d delays) http.Handler {
	h.Admitting = func(r *http.Request) bool { return d.admission.Wait(r.Context()) }
	h.Landing = func(r *http.Request) bool { return d.landing.Wait(r.Context()) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" && !d.reads.Wait(r.Context()) {
			return
		}
		h.ServeHTTP(w, r)
	})
}

// in measures a kind of elector in virtual time.
func in(t *testing.T, kind string, w weather, timing election.Timing) (r row) {
	t.Helper()
	behind(t, w, func(_ *apitest.Server, cfg *rest.Config) {
		var err error
		if r, err = tryOut(by[kind], cfg, w, timing, "default", "lock", span); err != nil {
			t.Error(err)
		}
	})
	r.Kind = kind
	return r
}

// behind runs do in virtual time, with the configuration for an API server in that weather.
func behind(t *testing.T, w weather, do func(*apitest.Server, *rest.Config)) {
	t.Helper()
	config, ca := certificate(t)
	synctest.Test(t, func(t *testing.T) {
		l := apitest.NewPipes()
		api := apitest.NewServer()
		s := &http.Server{Handler: slowly(api, w.from(time.Now())), TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
		go func() { _ = s.ServeTLS(l, "", "") }()
		cfg := l.Config()
		cfg.Host, cfg.QPS, cfg.CAData = "https://"+l.Addr().String(), -1, ca
		do(api, cfg)
		l.Cut()
		_ = s.Close()
		time.Sleep(time.Minute) // until what client-go leaves behind has ended
	})
}

// span is how long each kind of elector is measured.
const span = 20 * time.Minute

var whole = flag.Bool("whole", false, "measure all weathers, and not only those that say most")

// TestLeadershipIsKeptBehindASlowServer, wherever that spends its time, in all weathers in
// which client-go's elector keeps it (README.md).
func TestLeadershipIsKeptBehindASlowServer(t *testing.T) {
	klog.SetLogger(logr.Discard())
	list := few()
	if *whole {
		list = all()
	}
	var rows []row
	for _, timing := range timings {
		for _, w := range list {
			if !*whole && !(row{weather: w, Timing: timing}).promised() {
				continue
			}
			ours := in(t, "zonelect", w, timing)
			theirs := []row{in(t, "client-go", w, timing), in(t, "client-go, no timeout", w, timing)}
			rows = append(append(rows, ours), theirs...)
			name := seconds3(timing) + ", " + w.String()
			if ours.Overlap > 0 {
				t.Errorf("%s: two lead for %v", name, ours.Overlap)
			}
			worse, what := ours.worse(theirs), ""
			switch {
			case !ours.promised():
				if len(worse) > 0 {
					t.Logf("%s, not promised: %s with client-go", name, strings.Join(worse, "; "))
				}
				continue
			case len(worse) > 0:
				what = "a leader " + strings.Join(worse, "; ") + " with client-go"
			case w.shape == constant && w.lost == 0 && (ours.Losses > 0 || ours.Connections > 2):
				what = fmt.Sprintf("%d terms lost, %.1f connections a minute", ours.Losses, ours.Connections)
			}
			switch {
			case what == "":
			case w.shape == jitter || w.lost > 0: // another run has other delays and losses
				t.Logf("%s, by chance: %s", name, what)
			default:
				t.Errorf("%s: %s", name, what)
			}
		}
	}
	if testing.Verbose() {
		print(rows)
	}
}
