// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// presences are the zones of the presences in a namespace.
func presences(server *apitest.Server, namespace string) []string {
	return onPresences(server, namespace, "zonelect.dev/zone")
}

// onPresences is what all presences of a namespace say in an annotation.
func onPresences(server *apitest.Server, namespace, key string) (texts []string) {
	server.Mu.Lock()
	defer server.Mu.Unlock()
	for path, object := range server.Objects {
		if strings.HasPrefix(path, "/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/op.") {
			text, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)[key].(string)
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
		err := Run(t.Context(), "op", func(ctx context.Context, _ election.Term) error {
			for late := time.Now().Add(time.Minute); len(want) != len(presences(server, "ns")) && time.Now().Before(late); {
				time.Sleep(time.Millisecond)
			}
			return nil
		}, o)
		if err != nil {
			t.Error(err)
		}
		if got := append(presences(server, "ns"), presences(server, "locks")...); !slices.Equal(got, want) {
			t.Errorf("with the lock in namespace %q there are presences of zones %q, want %q", namespace, got, want)
		}
	}
}
