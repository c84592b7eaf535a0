// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// mark is in every secret, so any output that contains it leaks one.
const mark = "s3cr3t"

// TestNothingSecretIsTold: whatever fails, no log, span, Event, annotation, status
// or error holds a credential.
func TestNothingSecretIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(mark+"-in-a-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]*rest.Config{
		"a token": {BearerToken: mark + "-token", Impersonate: rest.ImpersonationConfig{
			UserName: "jane", Extra: map[string][]string{"ticket": {mark + "-ticket"}},
		}},
		"a token in a file":     {BearerTokenFile: file},
		"a password":            {Username: "jane", Password: mark + `"<&>`},
		"a password in the URL": {Host: "http://jane:" + mark + "-in-url@api.test"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tells(t, cfg) })
		})
	}
}

// How a server fails, unless by the code of an answer.
const (
	healthy = 0
	closed  = -1 // it closes the connection
	silent  = -2 // nobody answers a dial
)

// failing is a server that fails in the chosen way.
type failing struct {
	*apitest.Server
	told  *log.Logger
	fault atomic.Int32
}

func (e *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch code := int(e.fault.Load()); {
	case code > healthy:
		apitest.Reply(w, code, apitest.Status(code, "", "no", "leases", "op", "no"))
	case code < healthy:
		panic(http.ErrAbortHandler)
	case r.Method == http.MethodPatch: // of an Event
		body, _ := io.ReadAll(r.Body)
		e.told.Printf("%s", body)
		apitest.Reply(w, http.StatusOK, apitest.Object{})
	default:
		e.Server.ServeHTTP(w, r)
	}
}

// tells runs an election through all faults, and reads everything that it
// reports.
func tells(t *testing.T, cfg *rest.Config) {
	t.Helper()
	var all bytes.Buffer // read it when all has ended
	told := log.New(&all, "", 0)
	server := &failing{Server: apitest.NewServer(), told: told}
	p := apitest.NewPipes()
	serving := &http.Server{Handler: server}
	go func() { _ = serving.Serve(p) }()

	cfg = rest.CopyConfig(cfg)
	if cfg.Host == "" {
		cfg.Host = "http://api.test"
	}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if server.fault.Load() == silent {
			return nil, errors.New("no way to " + address)
		}
		return p.Dial(ctx, network, address)
	}
	spans := tracetest.NewSpanRecorder()
	e, err := operator.New(t.Context(), "op", operator.Options{
		Config: cfg, Namespace: "ns", Self: operator.SelfOptions{PodName: "op-1", PodUID: "u1", Namespace: "ns", Node: "n1"},
		Logger:         funcr.New(func(_, line string) { told.Print(line) }, funcr.Options{Verbosity: 100}),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	terms := 0
	var ran sync.WaitGroup
	transitions := e.Subscribe(ctx)
	ran.Go(func() {
		for tr := range transitions {
			told.Printf("%+v %v", tr, tr.Cause)
		}
	})
	ran.Go(func() {
		told.Print(e.Run(ctx, func(ctx context.Context, _ election.Term) error {
			terms++
			<-ctx.Done()
			return nil
		}))
	})
	for _, fault := range []int32{closed, silent, 401, 403, 409, 429, 500} {
		time.Sleep(20 * time.Second)
		server.fault.Store(fault)
		time.Sleep(20 * time.Second)
		told.Printf("%+v %v", e.Status(), e.Alive(nil))
		server.fault.Store(healthy)
	}
	time.Sleep(time.Minute)
	cancel()
	ran.Wait()
	_ = serving.Close()
	synctest.Wait() // for requests that were given up
	for _, span := range spans.Ended() {
		told.Printf("%s %v %v %v", span.Name(), span.Attributes(), span.Status(), span.Events())
	}
	stored, err := json.Marshal(server.Objects)
	if err != nil {
		t.Fatal(err)
	}
	told.Printf("%s", stored)
	lines := strings.Split(all.String(), "\n")
	if terms < 5 || len(spans.Ended()) < 10 || !strings.Contains(string(stored), "/events/") || len(lines) < 100 {
		t.Errorf("this tests not much: %d terms, %d spans, %d lines, %.400s", terms, len(spans.Ended()), len(lines), stored)
	}
	basic := base64.RawStdEncoding.EncodeToString([]byte("jane:" + mark))[:9]
	for _, line := range lines {
		if strings.Contains(line, mark) || strings.Contains(line, basic) {
			t.Fatalf("a secret is told: %.2000s", line)
		}
	}
}
