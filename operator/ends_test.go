// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// inBubble runs do in virtual time, in a pod of namespace ns on an API server in memory.
func inBubble(t *testing.T, do func(t *testing.T, server *apitest.Server, o Options)) {
	t.Helper()
	_, o := inPod(t)
	synctest.Test(t, func(t *testing.T) {
		server, pipes := apitest.NewServer(), apitest.NewPipes()
		server.Put(podPath, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "op-1", Namespace: "ns", UID: "uid-of-op-1"}})
		s := &http.Server{Handler: server, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
		go func() { _ = s.Serve(pipes) }() // it ends by Close
		defer func() { pipes.Cut(); _ = s.Close(); time.Sleep(time.Minute) }()
		o.Config = pipes.Config()
		do(t, server, o)
	})
}

// TestALegacyLockMayHaveANameOfItsOwn, whatever its kind.
func TestALegacyLockMayHaveANameOfItsOwn(t *testing.T) {
	for _, legacy := range []Legacy{
		{Name: "old", Mode: ModeAuto, PodSelector: "app=op"},
		{Name: "old", ResourceLock: "configmapsleases"}, {Name: "old", ResourceLock: "endpointsleases"},
	} {
		path := "/api/v1/namespaces/ns/configmaps/old"
		if legacy.ResourceLock == "endpointsleases" {
			path = "/api/v1/namespaces/ns/endpoints/old"
		}
		inBubble(t, func(t *testing.T, server *apitest.Server, o Options) {
			o.Legacy = legacy
			must(t, Run(t.Context(), "op", func(context.Context, election.Term) error {
				server.Mu.Lock()
				defer server.Mu.Unlock()
				if server.Objects[path] == nil {
					t.Errorf("%+v: there is no %s", legacy, path)
				}
				return nil
			}, o))
		})
	}
}

// TestAnEndAtAnyMomentIsNoError: a process may be told to end before the first answer, while it
// waits for something, while it follows and while it leads. Here that is when its n-th request
// arrives, for each n.
func TestAnEndAtAnyMomentIsNoError(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"lease":  func(*Options) {},
		"auto":   func(o *Options) { o.Legacy = Legacy{Mode: ModeAuto, PodSelector: "app=op"} },
		"twin":   func(o *Options) { o.Legacy.ResourceLock = "configmapsleases" },
		"events": func(o *Options) { o.NoEvents = false },
		"zone":   func(o *Options) { o.Self.Node = "node-1" },
	} {
		for _, follows := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s follows=%v", name, follows), func(t *testing.T) {
				for n := int64(1); n < 100; n++ {
					if !endAtRequest(t, n, follows, change) || t.Failed() {
						return
					}
				}
			})
		}
	}
}

// endAtRequest runs an election that is told to end when its n-th request arrives, and reports
// whether there was one within a moment.
func endAtRequest(t *testing.T, n int64, follows bool, change func(*Options)) (arrived bool) {
	inBubble(t, func(t *testing.T, server *apitest.Server, o Options) {
		if change(&o); o.Self.Node != "" {
			t.Setenv("NODE_ZONE", "")
		}
		var over atomic.Bool
		o.Logger = funcr.NewJSON(func(line string) {
			if !over.Load() && strings.Contains(line, `"error"`) {
				t.Errorf("told to end at request %d: %s", n, line)
			}
		}, funcr.Options{})
		if follows {
			now, holder, seconds := metav1.NowMicro(), "another", int32(60)
			server.Put(leasePath, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "op", Namespace: "ns"}, Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
			}})
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		idle := time.AfterFunc(time.Second, end)
		defer idle.Stop()
		var requests atomic.Int64
		server.Before = func(string, string) (int, apitest.Object) {
			if idle.Reset(time.Second); requests.Add(1) == n {
				end()
			}
			return 0, nil
		}
		if err := Run(ctx, "op", func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil }, o); err != nil {
			t.Errorf("told to end at request %d: Run: %v", n, err)
		}
		over.Store(true)
		arrived = requests.Load() >= n
	})
	return arrived
}
