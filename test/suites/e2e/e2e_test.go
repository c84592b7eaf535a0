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
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// awaitLine waits until a program prints a line that begins like this.
func awaitLine(t *testing.T, p *testbed.Process, begins string) {
	t.Helper()
	until(t, p.Log()+" is that of a program that prints "+begins, func() bool {
		return slices.ContainsFunc(p.Output(), func(line string) bool { return strings.HasPrefix(line, begins) })
	})
}
