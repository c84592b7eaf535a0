// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// TestAZoneThatBecomesKnownIsSeenByAll: on the record of the lock and on the presence, of an election
// of its own and of each of a Group.
func TestAZoneThatBecomesKnownIsSeenByAll(t *testing.T) {
	for name, run := range map[string]func(o Options, lead func(context.Context, election.Term) error) error{
		"alone": func(o Options, lead func(context.Context, election.Term) error) error {
			return Run(t.Context(), "op", lead, o)
		},
		"group": func(o Options, lead func(context.Context, election.Term) error) error {
			g, err := NewGroup(t.Context(), "op", o)
			if err != nil {
				return err
			}
			return g.Run(t.Context(), "op", lead)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := inPod(t)
			t.Setenv("NODE_ZONE", "")
			t.Setenv("NODE_NAME", "n1")
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			server.Put("/api/v1/nodes/n1", node)
			err := run(o, func(ctx context.Context, term election.Term) error {
				if term.Zone != "" {
					t.Errorf("the zone is %q at first", term.Zone)
				}
				node.Labels = map[string]string{corev1.LabelTopologyZone: "za"}
				server.Put("/api/v1/nodes/n1", node)
				var seen []string
				for late := time.Now().Add(time.Minute); !slices.Equal(seen, []string{"za", "za"}) && time.Now().Before(late) && ctx.Err() == nil; {
					time.Sleep(time.Millisecond)
					seen = append(presences(server, "ns"), zoneOn(server, leasePath))
				}
				if !slices.Equal(seen, []string{"za", "za"}) {
					t.Errorf("presence and record say %q", seen)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// zoneOn is the zone on the record of a lock.
func zoneOn(server *apitest.Server, path string) string {
	server.Mu.Lock()
	defer server.Mu.Unlock()
	annotations, _ := server.Objects[path]["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	zone, _ := annotations["zonelect.dev/zone"].(string)
	return zone
}

// TestAHubTellsWhoComesLaterWhatIsKnown, and whoever has left nothing more.
func TestAHubTellsWhoComesLaterWhatIsKnown(t *testing.T) {
	var h hub[string]
	var early, late []string
	leave := h.add(func(s string) { early = append(early, s) })
	h.set("a")
	h.add(func(s string) { late = append(late, s) })
	leave()
	h.set("b")
	if !slices.Equal(early, []string{"a"}) || !slices.Equal(late, []string{"a", "b"}) {
		t.Errorf("told were %q and %q", early, late)
	}
}
