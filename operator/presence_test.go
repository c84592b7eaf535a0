// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// eachWay runs an election of its own, and one in a Group.
var eachWay = map[string]func(ctx context.Context, o Options, lead func(context.Context, election.Term) error) error{
	"alone": func(ctx context.Context, o Options, lead func(context.Context, election.Term) error) error {
		return Run(ctx, "op", lead, o)
	},
	"group": func(ctx context.Context, o Options, lead func(context.Context, election.Term) error) error {
		g, err := NewGroup(ctx, "op", o)
		if err != nil {
			return err
		}
		return g.Run(ctx, "op", lead)
	},
}

// TestWhoIsUnhealthySaysSoOnItsPresence, so that no other hands over to it, and when it is well again.
func TestWhoIsUnhealthySaysSoOnItsPresence(t *testing.T) {
	for name, run := range eachWay {
		inBubble(t, func(t *testing.T, server *apitest.Server, o Options) {
			var ill atomic.Bool
			o.Health.After = time.Hour
			o.Health.Check = func(context.Context) error {
				if ill.Load() {
					return errors.New("ill")
				}
				return nil
			}
			must(t, run(t.Context(), o, func(context.Context, election.Term) error {
				for _, want := range []string{"ill", ""} {
					ill.Store(want != "")
					time.Sleep(time.Minute)
					if says := saidOn(server, leasePath+".", "zonelect.dev/health"); !slices.Equal(says, []string{want}) {
						t.Errorf("%s: its presence says %q, want %q", name, says, want)
					}
				}
				return nil
			}))
		})
	}
}

// TestAZoneThatBecomesKnownIsSeenByAll: on the record of the lock and on the presence, of an election
// of its own and of each of a Group.
func TestAZoneThatBecomesKnownIsSeenByAll(t *testing.T) {
	for name, run := range eachWay {
		t.Run(name, func(t *testing.T) {
			server, o := inPod(t)
			t.Setenv("NODE_ZONE", "")
			t.Setenv("NODE_NAME", "n1")
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			server.Put("/api/v1/nodes/n1", node)
			must(t, run(t.Context(), o, func(ctx context.Context, term election.Term) error {
				if term.Zone != "" {
					t.Errorf("the zone is %q at first", term.Zone)
				}
				node.Labels = map[string]string{corev1.LabelTopologyZone: "za"}
				server.Put("/api/v1/nodes/n1", node)
				var seen []string
				for late := time.Now().Add(time.Minute); !slices.Equal(seen, []string{"za", "za"}) && time.Now().Before(late) && ctx.Err() == nil; {
					time.Sleep(time.Millisecond)
					seen = saidOn(server, leasePath, "zonelect.dev/zone")
				}
				if !slices.Equal(seen, []string{"za", "za"}) {
					t.Errorf("presence and record say %q", seen)
				}
				return nil
			}))
		})
	}
}

// presences are the zones of the presences in a namespace.
func presences(server *apitest.Server, namespace string) []string {
	return saidOn(server, "/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/op.", "zonelect.dev/zone")
}

// saidOn is what all objects whose paths begin so say in an annotation.
func saidOn(server *apitest.Server, beginning, key string) (texts []string) {
	server.Mu.Lock()
	defer server.Mu.Unlock()
	for path, object := range server.Objects {
		if strings.HasPrefix(path, beginning) {
			annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
			text, _ := annotations[key].(string)
			texts = append(texts, text)
		}
	}
	return texts
}

// TestAPodIsSeenInItsOwnNamespaceAlone: the garbage collector would at once delete what it
// owned in another namespace.
func TestAPodIsSeenInItsOwnNamespaceAlone(t *testing.T) {
	for namespace, want := range map[string][]string{"": {"za"}, "ns": {"za"}, "locks": nil} {
		server, o := inPod(t)
		o.Namespace = namespace
		must(t, Run(t.Context(), "op", func(ctx context.Context, _ election.Term) error {
			for late := time.Now().Add(time.Minute); len(want) != len(presences(server, "ns")) && time.Now().Before(late); {
				time.Sleep(time.Millisecond)
			}
			return nil
		}, o))
		if got := append(presences(server, "ns"), presences(server, "locks")...); !slices.Equal(got, want) {
			t.Errorf("with the lock in namespace %q there are presences of zones %q, want %q", namespace, got, want)
		}
	}
}
