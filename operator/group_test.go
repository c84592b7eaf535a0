// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
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
func runAll(t *testing.T, s *Group, n int) (end func()) {
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

func TestAGroupReleasesAllItsLocks(t *testing.T) {
	server, o := inPod(t)
	s, err := NewGroup(t.Context(), "my-operator", o)
	must(t, err)
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
	if leases != 20 {
		t.Errorf("%d leases, want 20", leases)
	}
}

// TestAGroupGoesOnForTheOthersWhenTheElectionThatBeganFirstEnds.
func TestAGroupGoesOnForTheOthersWhenTheElectionThatBeganFirstEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, server *apitest.Server, o Options) {
		g, err := NewGroup(t.Context(), "op", o)
		must(t, err)
		first, stop := context.WithCancel(t.Context())
		leave := g.enter(first)
		defer g.enter(t.Context())()
		stop()
		leave()
		g.keeper.SetUnhealthy("ill")
		time.Sleep(time.Minute)
		if says := saidOn(server, leasePath+".", "zonelect.dev/health"); !slices.Equal(says, []string{"ill"}) {
			t.Errorf("its presence says %q", says)
		}
	})
}

// TestNoElectionOfAGroupClosesTheConnections, because the others are on them, too.
func TestNoElectionOfAGroupClosesTheConnections(t *testing.T) {
	_, o := inPod(t)
	g, err := NewGroup(t.Context(), "op", o)
	must(t, err)
	lock, err := g.lock("a")
	must(t, err)
	if lock.Capabilities().CloseConnections != nil {
		t.Error("its elector may close them")
	}
}

// TestM12NoGroupTakesALockInAPhaseThatForbidsIt of a migration.
func TestM12NoGroupTakesALockInAPhaseThatForbidsIt(t *testing.T) {
	for phase, leads := range map[record.Phase]bool{record.PhaseDual: false, record.PhaseLegacy: false, record.PhaseSealed: true} {
		server, o := inPod(t)
		server.Put(leasePath, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: "op", Namespace: "ns", UID: "1", Annotations: record.WriteStage(nil, record.Stage{Phase: phase, Step: 1}),
		}})
		g, err := NewGroup(t.Context(), "my-operator", o)
		must(t, err)
		e, err := g.New("op")
		must(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		transitions, led := e.Subscribe(ctx), false
		go func() {
			for t := range transitions {
				if t.Status.Waiting != "" {
					stop()
				}
			}
		}()
		err = e.Run(ctx, func(context.Context, election.Term) error { led = true; return nil })
		if stop(); err != nil || led != leads {
			t.Errorf("in phase %s it leads: %v, with %v", phase, led, err)
		}
	}
}

func TestToolsKnowTheCandidatesOfAGroupsLocks(t *testing.T) {
	server, o := inPod(t)
	s, err := NewGroup(t.Context(), "my-operator", o)
	must(t, err)
	end := runAll(t, s, 3)
	reader := inspect.Reader{Coordination: apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)}
	found, err := reader.Elections(t.Context(), "ns")
	alone := func(e inspect.Election) bool { return len(e.Status(time.Now()).Candidates) != 1 }
	// Until the Group has announced itself.
	for late := time.Now().Add(time.Minute); err == nil && slices.ContainsFunc(found, alone) && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
		found, err = reader.Elections(t.Context(), "ns")
	}
	if err != nil || len(found) != 3 {
		t.Fatalf("%d locks: %v", len(found), err)
	}
	for _, e := range found {
		status := e.Status(time.Now())
		l := status.Leader
		if status.State != inspect.Held || l.LeaseDurationSeconds != 15 {
			t.Errorf("%s is %s, with leader %+v", e.Name, status.State, l)
		}
		if len(status.Candidates) != 1 || status.Candidates[0].Identity != l.Identity {
			t.Errorf("%s has the candidates %+v", e.Name, status.Candidates)
		}
	}
	end()
}
