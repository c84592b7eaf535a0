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

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

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

// makeNamespace makes a namespace.
func makeNamespace(t *testing.T, client kubernetes.Interface, meta metav1.ObjectMeta) *corev1.Namespace {
	t.Helper()
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	return made
}

// leaseOf reads a Lease. It is empty if it cannot be read.
func leaseOf(t *testing.T, client kubernetes.Interface, namespace, name string) *coordinationv1.Lease {
	l, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return &coordinationv1.Lease{}
	}
	return l
}

// presencesOf reads the presences of a lock's candidates, or of all if it has no name. There are none if they cannot
// be read.
func presencesOf(t *testing.T, client kubernetes.Interface, namespace, lock string) []coordinationv1.Lease {
	selector := "zonelect.dev/lock"
	if lock != "" {
		selector += "=" + lock
	}
	list, err := client.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil
	}
	return list.Items
}

// removePod deletes a pod at once.
func removePod(t *testing.T, client kubernetes.Interface, namespace, name string) {
	t.Helper()
	at := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	must(t, client.CoreV1().Pods(namespace).Delete(t.Context(), name, at))
}

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

// journal keeps what is logged inside the test process.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		fmt.Fprintln(&j.text, time.Now().Format("05.000"), strings.ReplaceAll(line, `\`, ""))
	}, funcr.Options{})
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// awaitLog waits until a program has logged a line with that text.
func awaitLog(t *testing.T, p *testbed.Process, text string) {
	t.Helper()
	var logged []byte
	defer func() {
		if t.Failed() {
			t.Logf("%s", logged)
		}
	}()
	until(t, fmt.Sprintf("%q is logged", text), func() bool {
		var err error
		logged, err = os.ReadFile(p.Log())
		must(t, err)
		return strings.Contains(string(logged), text)
	})
}

// awaitLine waits until a program prints a line that begins like this.
func awaitLine(t *testing.T, p *testbed.Process, begins string) {
	t.Helper()
	until(t, p.Log()+" is that of a program that prints "+begins, func() bool {
		return slices.ContainsFunc(p.Output(), func(line string) bool { return strings.HasPrefix(line, begins) })
	})
}
