// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

// lookup looks up the zone of a node, with a server that answers so.
func lookup(t *testing.T, h http.HandlerFunc) (string, error) {
	t.Helper()
	return Lookup(t.Context(), apitest.Wire(t, h, corev1.SchemeGroupVersion), "n1")
}

func answering(code int, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { apitest.Reply(w, code, body) }
}

func node(labels apitest.Object) http.HandlerFunc {
	meta := apitest.Object{"name": "n1", "resourceVersion": "7", "labels": labels}
	return answering(200, apitest.Object{"kind": "Node", "apiVersion": "v1", "metadata": meta})
}

func TestTheZoneIsANodesLabel(t *testing.T) {
	if got, err := lookup(t, node(apitest.Object{corev1.LabelTopologyZone: "z1"})); err != nil || got != "z1" {
		t.Errorf("zone %q, %v", got, err)
	}
}

func TestAZoneThatCannotBeToldIsAnErrorThatSaysWhy(t *testing.T) {
	wraps := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	failure := func(code int, reason string) http.HandlerFunc {
		return answering(code, apitest.Status(code, reason, "in words", "nodes", "n1"))
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		is      func(error) bool
		says    string
	}{
		"no label":      {node(apitest.Object{"a": "b"}), wraps(ErrNoZone), `node "n1"`},
		"empty label":   {node(apitest.Object{corev1.LabelTopologyZone: ""}), wraps(ErrNoZone), "topology.kubernetes.io/zone"},
		"no permission": {answering(apitest.Forbidden("get", "/api/v1/nodes/n1")), wraps(locks.ErrForbidden), `verb "get" on nodes`},
		"no node":       {failure(404, "NotFound"), apierrors.IsNotFound, "in words"},
		"server error":  {failure(500, "InternalError"), apierrors.IsInternalError, "in words"},
		"no object":     {answering(200, 7), nil, `node "n1"`},
	} {
		zone, err := lookup(t, tc.handler)
		if err == nil || zone != "" || !strings.Contains(err.Error(), tc.says) || tc.is != nil && !tc.is(err) {
			t.Errorf("%s: zone %q, error %v", name, zone, err)
		}
	}
}

func TestTheLookupIsOneRequestForOneNode(t *testing.T) {
	var seen []string
	if _, err := lookup(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	}); err == nil {
		t.Error("no error")
	}
	if want := "GET /api/v1/nodes/n1"; len(seen) != 1 || seen[0] != want {
		t.Errorf("requests %q, want one %q", seen, want)
	}
}
