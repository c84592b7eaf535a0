// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// lease is the LeaseDuration of all trials.
const lease = timing.DefaultLeaseDuration

func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, b *testbed.Testbed, zone, lock, identity string, args ...string) *trial.Seat {
	t.Helper()
	s, err := trial.Start(t.Context(), b, trial.Zonelect, zone, lock, identity, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRenewal waits for two renewals, so that the next one is not near.
func awaitRenewal(t *testing.T, ctx context.Context, o *trial.Observer) {
	t.Helper()
	nextRenewal(t, ctx, o, nextRenewal(t, ctx, o, o.Last()))
}

func nextRenewal(t *testing.T, ctx context.Context, o *trial.Observer, last trial.Renewal) trial.Renewal {
	t.Helper()
	for {
		if now := o.Last(); now.Seen.After(last.Seen) {
			return now
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no renewal after %v", last.Seen)
		}
	}
}

// fromEnv returns a number that an environment variable may set.
func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	value, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	must(t, err)
	return n
}

// freePort is a port that had no listener a moment ago, on any address. The
// kernel does not give it to outgoing connections.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(20000 + rand.IntN(10000))
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			must(t, l.Close())
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// plain is one apiserver, for trials that need processes and no networks.
var plain = testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true}

// warnings collects the warnings of the API server.
type warnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, text)
}

func (w *warnings) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.seen, text)
}

// deleter deletes an object by its bare name.
type deleter func(ctx context.Context, name string, options metav1.DeleteOptions) error

// collect gathers the objects that a watch shows. The returned function returns those so far.
func collect[T any](revisions watch.Interface) func() []T {
	var mu sync.Mutex
	var all []T
	go func() {
		for e := range revisions.ResultChan() {
			if object, ok := e.Object.(T); ok {
				mu.Lock()
				all = append(all, object)
				mu.Unlock()
			}
		}
	}()
	return func() []T {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// awaitLog waits until a program has logged a line with that text.
func awaitLog(t *testing.T, ctx context.Context, p *testbed.Process, text string) {
	t.Helper()
	for {
		logged, err := os.ReadFile(p.Log())
		must(t, err)
		if strings.Contains(string(logged), text) {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%q was never logged:\n%s", text, logged)
		}
	}
}
