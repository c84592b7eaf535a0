// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// lease is the LeaseDuration of all trials.
const lease = timing.DefaultLeaseDuration

func start(t *testing.T, b *testbed.Testbed, zone, lock, identity string, args ...string) *trial.Seat {
	t.Helper()
	s, err := trial.Start(t.Context(), b, trial.Zonelect, zone, lock, identity, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
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

// ownGround is a control plane for one test.
func ownGround(t *testing.T, config testbed.Config) *ground {
	t.Helper()
	b := trial.Bed(t, config)
	zones := b.Zones()
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig(zones[len(zones)-1]))
	must(t, err)
	return &ground{b, "default", client}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// phase changes the phase on the Lease by hand, for the change-th time.
func (m *migration) phase(t *testing.T, change int, phase string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"zonelect.dev/phase":%q,"zonelect.dev/phase-step":%q}}}`, phase, strconv.Itoa(change+1))
	_, err := m.client.CoordinationV1().Leases(m.namespace).Patch(t.Context(), m.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

// others returns all except one.
func others[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool { return o == one })
}
