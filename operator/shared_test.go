// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
)

// runAll runs n elections of s, and returns once all lead, and how to end them.
func runAll(t *testing.T, s *Shared, n int) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var leading, running sync.WaitGroup
	leading.Add(n)
	for i := range n {
		running.Go(func() {
			err := s.Run(ctx, fmt.Sprintf("lock-%d", i), func(ctx context.Context, _ election.Term) error {
				leading.Done()
				<-ctx.Done()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	leading.Wait()
	return func() { stop(); running.Wait() }
}

func TestASharedReleasesAllItsLocksAndItsHeartbeat(t *testing.T) {
	for _, heartbeat := range []bool{false, true} {
		t.Run(fmt.Sprint("heartbeat=", heartbeat), func(t *testing.T) {
			server, o := inPod(t)
			o.Heartbeat, o.Timing.Exclusive = heartbeat, true
			s, err := NewShared(t.Context(), "my-operator", o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				runAll(t, s, 20)()
			}
			server.Mu.Lock()
			defer server.Mu.Unlock()
			leases := 0
			for path, o := range server.Objects {
				if !strings.Contains(path, "/leases/") || strings.Contains(path, "my-operator.op-") {
					continue
				}
				leases++
				if holder := o["spec"].(apitest.Object)["holderIdentity"]; holder != "" {
					t.Errorf("%s is still held by %v", path, holder)
				}
			}
			if leases != 20 { // the heartbeat's is deleted
				t.Errorf("%d leases, want 20", leases)
			}
		})
	}
}

// TestM12NoSharedTakesALockAtAVersionThatForbidsIt, because of the phase of a migration.
func TestM12NoSharedTakesALockAtAVersionThatForbidsIt(t *testing.T) {
	server, o := inPod(t)
	s, err := NewShared(t.Context(), "my-operator", o)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := s.lock("op")
	if err != nil {
		t.Fatal(err)
	}
	defer runAll(t, s, 1)() // so that the Leases are followed
	for step, phase := range []record.Phase{record.PhaseDual, record.PhaseLegacy, record.PhaseSealed} {
		server.Put(leasePath, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: "op", Namespace: "ns", UID: "1", Annotations: record.WriteStage(nil, record.Stage{Phase: phase, Step: uint64(step + 1)}),
		}})
		now, err := lock.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now.Record.Holder, now.Record.LeaseDuration = "b", 15*time.Second
		if _, err := lock.Write(t.Context(), now.Version, now.Record); (err == nil) != (phase == record.PhaseSealed) {
			t.Errorf("in phase %s it writes, with %v", phase, err)
		}
	}
}

// TestToolsKnowTheCandidatesOfASharedsLocks, and do not take its heartbeat for a lock.
func TestToolsKnowTheCandidatesOfASharedsLocks(t *testing.T) {
	for _, heartbeat := range []bool{false, true} {
		server, o := inPod(t)
		o.Heartbeat, o.Timing.Exclusive = heartbeat, true
		s, err := NewShared(t.Context(), "my-operator", o)
		if err != nil {
			t.Fatal(err)
		}
		end := runAll(t, s, 3)
		reader := inspect.Reader{Coordination: apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)}
		found, err := reader.Elections(t.Context(), "ns")
		if err != nil || len(found) != 3 {
			t.Fatalf("%d locks: %v", len(found), err)
		}
		for _, e := range found {
			status := e.Status(time.Now())
			l := status.Leader
			if status.State != inspect.Held || l.LeaseDurationSeconds != 15 || (l.Heartbeat != "") != heartbeat {
				t.Errorf("%s is %s, with leader %+v", e.Name, status.State, l)
			}
			if len(status.Candidates) != 1 || status.Candidates[0].Identity != l.Identity {
				t.Errorf("%s has the candidates %+v", e.Name, status.Candidates)
			}
		}
		end()
	}
}

func TestAHeartbeatIsRefusedUnlessTheLocksAreExclusive(t *testing.T) {
	_, o := inPod(t)
	o.Heartbeat = true
	if _, err := NewShared(t.Context(), "my-operator", o); err == nil || !strings.Contains(err.Error(), "set Timing.Exclusive") {
		t.Errorf("NewShared: %v", err)
	}
	if _, err := New(t.Context(), "my-operator", o); err == nil || !strings.Contains(err.Error(), "set Timing.Exclusive") {
		t.Errorf("New: %v", err)
	}
}

func TestOneElectionMayHaveAHeartbeat(t *testing.T) {
	_, o := inPod(t)
	o.Heartbeat, o.Timing.Exclusive = true, true
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err := Run(ctx, "my-operator", func(context.Context, election.Term) error { stop(); return nil }, o)
	if err != nil {
		t.Error(err)
	}
}

// TestNoHeartbeatWaitsBehindARequestOfALock: one late heartbeat would lose all locks.
func TestNoHeartbeatWaitsBehindARequestOfALock(t *testing.T) {
	server, o := inPod(t)
	o.Heartbeat, o.Timing.Exclusive = true, true
	beats, others := map[string]bool{}, map[string]bool{} // by the connection's address
	server.Stored = func(r *http.Request, path string, _, _ apitest.Object) {
		if r == nil {
			return
		}
		if strings.Contains(path, ".heartbeat-") {
			beats[r.RemoteAddr] = true
		} else {
			others[r.RemoteAddr] = true
		}
	}
	s, err := NewShared(t.Context(), "my-operator", o)
	if err != nil {
		t.Fatal(err)
	}
	runAll(t, s, 20)()
	server.Mu.Lock()
	defer server.Mu.Unlock()
	if len(beats) == 0 || len(others) == 0 {
		t.Fatalf("heartbeats came on the connections %v, and other writes on %v", beats, others)
	}
	for connection := range beats {
		if others[connection] {
			t.Errorf("heartbeats and other writes share the connection %s", connection)
		}
	}
}
