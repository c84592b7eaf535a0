// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/locks"
)

func clientOf(t *testing.T, h http.HandlerFunc) rest.Interface {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	cfg := &rest.Config{Host: s.URL, APIPath: "/api"}
	cfg.GroupVersion = &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientForConfigAndClient(cfg, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answering(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

const (
	jsonType = "application/json"
	partial  = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n1","labels":{%s}}}`
	whole    = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","labels":{%s}},"spec":{},"status":{"images":[]}}`
	failure  = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"%s","reason":"%s","code":%d}`
)

func TestTheZoneIsANodesLabel(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"labels only": {fmt.Sprintf(partial, `"topology.kubernetes.io/zone":"z1"`), "z1"},
		"whole node":  {fmt.Sprintf(whole, `"topology.kubernetes.io/zone":"z1"`), "z1"},
		"old label":   {fmt.Sprintf(whole, `"failure-domain.beta.kubernetes.io/zone":"z2"`), "z2"},
		"both":        {fmt.Sprintf(whole, `"failure-domain.beta.kubernetes.io/zone":"old","topology.kubernetes.io/zone":"new"`), "new"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Lookup(t.Context(), clientOf(t, answering(200, jsonType, tc.body)), "n1")
			if err != nil || got != tc.want {
				t.Errorf("zone %q, %v: want %q", got, err, tc.want)
			}
		})
	}
}

func TestAZoneThatCannotBeToldIsAnErrorThatSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		is      func(error) bool
		says    string
	}{
		"no label":      {answering(200, jsonType, fmt.Sprintf(partial, `"a":"b"`)), wraps(ErrNoZone), `node "n1"`},
		"empty label":   {answering(200, jsonType, fmt.Sprintf(partial, `"topology.kubernetes.io/zone":""`)), wraps(ErrNoZone), "topology.kubernetes.io/zone"},
		"no permission": {answering(403, jsonType, fmt.Sprintf(failure, `User jane cannot get nodes`, "Forbidden", 403)), wraps(locks.ErrForbidden), `verb "get" on node "n1"`},
		"no node":       {answering(404, jsonType, fmt.Sprintf(failure, `nodes n1 not found`, "NotFound", 404)), apierrors.IsNotFound, "not found"},
		"server error":  {answering(500, jsonType, fmt.Sprintf(failure, `etcd is gone`, "InternalError", 500)), apierrors.IsInternalError, "etcd is gone"},
		"no JSON":       {answering(200, jsonType, "<html>"), nil, "reading the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := Lookup(t.Context(), clientOf(t, tc.handler), "n1")
			if err == nil || zone != "" || !strings.Contains(err.Error(), tc.says) || tc.is != nil && !tc.is(err) {
				t.Errorf("zone %q, error %v", zone, err)
			}
		})
	}
}

func wraps(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func TestTheLookupIsOneRequestForTheLabelsOfOneNode(t *testing.T) {
	var seen []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Accept"))
		w.Header().Set("Retry-After", "1")
		answering(503, "text/plain", "overloaded")(w, r)
	})
	if _, err := Lookup(t.Context(), c, "n1"); err == nil {
		t.Error("no error")
	}
	if want := "GET /api/v1/nodes/n1 " + metadataOnly; len(seen) != 1 || seen[0] != want {
		t.Errorf("requests %q, want one %q", seen, want)
	}
}

func TestTheLookupEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := clientOf(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := Lookup(ctx, c, "n1"); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
