// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/operator"
)

const podPath = "/api/v1/namespaces/ns/pods/op-1"

// inPod is a pod of namespace ns on an API server in memory, whose locks a heartbeat may keep.
func inPod(t *testing.T) (*apitest.Server, operator.Options) {
	t.Helper()
	server := apitest.NewServer()
	server.Put(podPath, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "op-1", Namespace: "ns", UID: "uid-of-op-1"}})
	s := httptest.NewServer(server)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	o := operator.Options{Config: &rest.Config{Host: s.URL}, NoEvents: true}
	o.Self = operator.SelfOptions{PodName: "op-1", PodUID: "uid-of-op-1", Namespace: "ns", Zone: "za"}
	o.Timing.Exclusive = true
	return server, o
}

// runAll runs n elections of a group, and returns once all lead, and how to end them.
func runAll(t *testing.T, g *operator.Group, n int) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var leading, running sync.WaitGroup
	leading.Add(n)
	for i := range n {
		running.Go(func() {
			err := g.Run(ctx, fmt.Sprintf("lock-%d", i), func(ctx context.Context, _ election.Term) error {
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

func newGroup(t *testing.T, o operator.Options) *operator.Group {
	t.Helper()
	g, err := NewGroup(t.Context(), "my-operator", o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAGroupReleasesAllItsLocksAndDeletesItsHeartbeat(t *testing.T) {
	server, o := inPod(t)
	g := newGroup(t, o)
	for range 2 {
		runAll(t, g, 20)()
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

func TestToolsKnowTheHeartbeatOfALock(t *testing.T) {
	compose := inspect.Compose
	defer func() { inspect.Compose = compose }()
	inspect.Compose = Compose
	server, o := inPod(t)
	defer runAll(t, newGroup(t, o), 3)()
	reader := inspect.Reader{Coordination: apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)}
	found, err := reader.Elections(t.Context(), "ns")
	alone := func(e inspect.Election) bool { return len(e.Status(time.Now()).Candidates) != 1 }
	for late := time.Now().Add(time.Minute); err == nil && slices.ContainsFunc(found, alone) && time.Now().Before(late); { // until the Group has announced itself
		time.Sleep(time.Millisecond)
		found, err = reader.Elections(t.Context(), "ns")
	}
	if err != nil || len(found) != 3 {
		t.Fatalf("%d locks: %v", len(found), err)
	}
	for _, e := range found {
		status := e.Status(time.Now())
		l := status.Leader
		if status.State != inspect.Held || l.LeaseDurationSeconds != 15 || l.Heartbeat == "" {
			t.Errorf("%s is %s, with leader %+v", e.Name, status.State, l)
		}
		if len(status.Candidates) != 1 || status.Candidates[0].Identity != l.Identity {
			t.Errorf("%s has the candidates %+v", e.Name, status.Candidates)
		}
	}
}

func TestAHeartbeatIsRefusedUnlessTheLocksAreExclusive(t *testing.T) {
	_, o := inPod(t)
	o.Timing.Exclusive = false
	_, err := NewGroup(t.Context(), "my-operator", o)
	if !errors.Is(err, operator.ErrOptions) || !strings.Contains(err.Error(), "set Timing.Exclusive") {
		t.Errorf("%v", err)
	}
}

func TestAUserChoosesByFlagOrVariable(t *testing.T) {
	t.Setenv("LEADER_ELECT_HEARTBEAT", "true")
	var on bool
	if err := FromEnvironment(&on); err != nil || !on {
		t.Errorf("by the variable %v, %v", on, err)
	}
	if err := new(operator.Options).FromEnvironment(); err != nil {
		t.Errorf("package operator says %v", err)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlag(fs, &on)
	if err := fs.Parse([]string{"--leader-elect-heartbeat=false"}); err != nil || on {
		t.Errorf("by the flag %v, %v", on, err)
	}
}

// TestNoHeartbeatWaitsBehindARequestOfALock: one late heartbeat would lose all locks.
func TestNoHeartbeatWaitsBehindARequestOfALock(t *testing.T) {
	server, o := inPod(t)
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
	runAll(t, newGroup(t, o), 20)()
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

// TestWorkThatMayOutliveItsProcessNotesNothingThatProvesItsEnd, neither on locks nor on the
// heartbeat's Lease.
func TestWorkThatMayOutliveItsProcessNotesNothingThatProvesItsEnd(t *testing.T) {
	server, o := inPod(t)
	o.WorkOutlivesProcess = true
	defer runAll(t, newGroup(t, o), 2)()
	server.Mu.Lock()
	defer server.Mu.Unlock()
	for path, object := range server.Objects {
		noted, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		if noted[record.AnnotationProcessLock] != nil || noted[record.AnnotationContainerID] != nil {
			t.Errorf("%s says %v", path, noted)
		}
	}
}

// collects deletes, as the garbage collector does, what belongs to a pod that does not exist by that
// UID. It returns how many Leases of heartbeats were made, and how many of those had an owner.
func collects(t *testing.T, server *apitest.Server) (hearts func() (made, owned int)) {
	var made, owned int
	var orphans sync.Map
	server.Stored = func(_ *http.Request, path string, before, after apitest.Object) {
		if after == nil || !strings.Contains(path, "/leases/") {
			return
		}
		refs, _ := after["metadata"].(apitest.Object)["ownerReferences"].([]any)
		if before == nil && strings.Contains(path, ".heartbeat-") {
			if made++; len(refs) > 0 {
				owned++
			}
		}
		for _, ref := range refs {
			ref := ref.(apitest.Object)
			pod := server.Objects["/api/v1/namespaces/ns/pods/"+ref["name"].(string)]
			if pod == nil || pod["metadata"].(apitest.Object)["uid"] != ref["uid"] {
				orphans.Store(path, true)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var collecting sync.WaitGroup
	t.Cleanup(func() { cancel(); collecting.Wait() })
	collecting.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			orphans.Range(func(path, _ any) bool { server.Delete(path.(string)); orphans.Delete(path); return true })
		}
	})
	return func() (int, int) {
		server.Mu.Lock()
		defer server.Mu.Unlock()
		return made, owned
	}
}

// TestAPodThatTheServerDoesNotKnowOwnsNoHeartbeat: the garbage collector would delete the
// heartbeat's Lease, and all terms of the process would end with it.
func TestAPodThatTheServerDoesNotKnowOwnsNoHeartbeat(t *testing.T) {
	for what, of := range map[string]struct {
		change func(*apitest.Server)
		says   string
		owned  int
	}{
		"its pod": {func(*apitest.Server) {}, "", 1},
		"another UID": {func(s *apitest.Server) {
			s.Change(podPath, func(o apitest.Object) { o["metadata"].(apitest.Object)["uid"] = "x" })
		}, "set POD_UID", 0},
		"no pod": {func(s *apitest.Server) { s.Delete(podPath) }, "this pod is gone", 0},
		"may not read pods": {func(s *apitest.Server) {
			s.Before = func(verb, path string) (int, apitest.Object) {
				if path == podPath {
					return apitest.Forbidden(verb, path)
				}
				return 0, nil
			}
		}, `needs verb \"get\" on pods`, 0},
	} {
		t.Run(what, func(t *testing.T) {
			server, o := inPod(t)
			var mu sync.Mutex
			var said []string
			o.Logger = funcr.New(func(_, line string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(line, "has no owner") {
					said = append(said, line)
				}
			}, funcr.Options{})
			of.change(server)
			hearts := collects(t, server)
			g := newGroup(t, o)
			runAll(t, g, 3)()
			terms := make(chan election.Term, 100)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := g.Run(ctx, "lock-0", func(ctx context.Context, term election.Term) error {
				terms <- term
				time.AfterFunc(300*time.Millisecond, stop) // for the collector
				<-ctx.Done()
				return nil
			}); err != nil {
				t.Error(err)
			}
			made, owned := hearts()
			if made != 2 || owned != 2*of.owned || len(terms) != 1 {
				t.Errorf("in two lives the heartbeat's Lease was made %d times, %d times with an owner; the second had %d terms", made, owned, len(terms))
			}
			mu.Lock()
			defer mu.Unlock()
			if want := min(1, len(of.says)); len(said) != want || want == 1 && !strings.Contains(said[0], of.says) {
				t.Errorf("it says %q", said)
			}
		})
	}
}
