// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// withService is a pod, and a Service without a selector.
func withService(t *testing.T) (*apitest.Server, Options) {
	t.Helper()
	server, o := inPod(t)
	t.Setenv("POD_IP", "10.0.0.1")
	server.Put("/api/v1/namespaces/ns/services/op", apitest.Object{"kind": "Service", "apiVersion": "v1",
		"metadata": apitest.Object{"name": "op", "namespace": "ns", "uid": "service-uid"},
		"spec":     apitest.Object{"ports": []any{apitest.Object{"port": 80}}}})
	o.LeaderService = "op"
	return server, o
}

func TestAServicePointsToTheLeaderWhileItLeads(t *testing.T) {
	server, o := withService(t)
	stored := make(chan *discoveryv1.EndpointSlice, 10)
	server.Stored = func(_ *http.Request, path string, _, after apitest.Object) {
		if strings.HasSuffix(path, "/endpointslices/op-zonelect") {
			var s discoveryv1.EndpointSlice
			if err := json.Unmarshal(apitest.Marshal(after), &s); err != nil {
				t.Error(err)
			}
			stored <- &s
		}
	}
	err := Run(t.Context(), "op", func(context.Context, election.Term) error {
		if s := <-stored; len(s.Endpoints) != 1 || s.Endpoints[0].Addresses[0] != "10.0.0.1" || s.Endpoints[0].TargetRef.Name != "op-1" {
			t.Errorf("while it leads: %+v", s)
		}
		return nil
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	if s := <-stored; len(s.Endpoints) != 0 {
		t.Errorf("after its term: %+v", s)
	}
}

func TestAServiceThatCannotPointToTheLeaderIsRefused(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"POD_IP":               func(o *Options) { o.Self.IP = "pod" },
		"unset one of the two": func(o *Options) { o.Disabled = true },
		"service \"Op_\"":      func(o *Options) { o.LeaderService = "Op_" },
		"election of its own":  func(*Options) {},
	} {
		t.Run(want, func(t *testing.T) {
			_, o := withService(t)
			change(&o)
			var err error
			if want == "election of its own" {
				_, err = NewGroup(t.Context(), "op", o)
			} else {
				_, err = New(t.Context(), "op", o)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
