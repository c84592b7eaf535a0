// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// collects deletes, as the garbage collector does, each Lease whose owner is a pod that does not
// exist by that UID. It returns how many Leases of heartbeats were made, and how many of those had
// an owner.
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
		"no pod": {func(s *apitest.Server) { s.Delete(podPath) }, "the own pod is gone", 0},
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
			o.Heartbeat, o.Timing.Exclusive = true, true
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
			s, err := NewShared(t.Context(), "my-operator", o)
			if err != nil {
				t.Fatal(err)
			}
			runAll(t, s, 3)()
			terms := make(chan election.Term, 100)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := s.Run(ctx, "lock-0", func(ctx context.Context, term election.Term) error {
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
