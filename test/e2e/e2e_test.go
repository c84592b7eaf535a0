// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/testbed"
	"github.com/zonelect/zonelect/test/trial"
)

// lease is the LeaseDuration of all trials.
const lease = election.LeaseDurationDefault

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

func TestTheLeaseLockHoldsTheLawsOnARealAPIServer(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	client, err := kubernetes.NewForConfig(b.RESTConfig("za"))
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	electiontest.RunSuite(t, electiontest.Suite{
		New: func(t *testing.T) election.Lock {
			names++
			lock, err := operator.LeaseLock(b.RESTConfig("za"), election.Timing{}, "default", fmt.Sprint("lock-", names), operator.LockOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(lock.CloseConnections)
			return lock
		},
		Delete: func(t *testing.T, l election.Lock) {
			if err := client.CoordinationV1().Leases("default").Delete(t.Context(), l.Describe().Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitRenewal waits for two renewals, so that the next is not near.
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
