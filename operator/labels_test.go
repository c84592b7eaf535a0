// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"net/http"
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// TestWhateverIsCreatedPassesAPolicyThatTheLeasePasses: policies often demand a label.
func TestWhateverIsCreatedPassesAPolicyThatTheLeasePasses(t *testing.T) {
	const twin = "configmapsleases"
	for name, tc := range map[string]struct {
		lock   string
		exists bool     // the ConfigMap, without labels
		writes []string // beginnings of the names of what is written, and labels of our own on it
	}{
		"a Lease":                 {"", false, []string{"leases/op ", "leases/op.op-1.", "zonelect.dev/lock:op"}},
		"a ConfigMap, too":        {twin, false, []string{"leases/op ", "leases/op.op-1.", "configmaps/op "}},
		"a ConfigMap that exists": {twin, true, []string{"configmaps/op "}},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := inPod(t)
			o.Labels, o.Legacy.ResourceLock = map[string]string{"team": "a"}, tc.lock
			if tc.exists {
				meta := metav1.ObjectMeta{Namespace: "ns", Name: "op", UID: "old"}
				server.Put("/api/v1/namespaces/ns/configmaps/op", &corev1.ConfigMap{ObjectMeta: meta})
			}
			seen := make(chan string, 100)
			server.Stored = func(_ *http.Request, where string, _, after apitest.Object) {
				labels, _ := after["metadata"].(apitest.Object)["labels"].(apitest.Object)
				if labels["team"] != "a" {
					t.Errorf("%s has the labels %v", where, labels)
				}
				text := path.Base(path.Dir(where)) + "/" + path.Base(where) + " "
				for key, value := range labels {
					text += key + ":" + value.(string) + " "
				}
				seen <- text
			}
			must(t, Run(t.Context(), "op", func(context.Context, election.Term) error {
				for all := ""; ; all += <-seen {
					missing := 0
					for _, one := range tc.writes {
						if !strings.Contains(all, one) {
							missing++
						}
					}
					if missing == 0 {
						return nil
					}
				}
			}, o))
		})
	}
}

// TestLabelsOfOursAreRefused: by them a lock would be taken for a candidate's presence.
func TestLabelsOfOursAreRefused(t *testing.T) {
	for _, key := range []string{"zonelect.dev/lock", "zonelect.dev/other"} {
		labels := map[string]string{"team": "a", key: "x"}
		_, err := New(t.Context(), "op", Options{Config: &rest.Config{Host: "https://apiserver.test"}, Labels: labels, Namespace: "ns"})
		if err == nil || !strings.Contains(err.Error(), "labels "+key+": ") {
			t.Errorf("the label %s: %v", key, err)
		}
	}
}
