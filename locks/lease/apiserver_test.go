// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
)

type (
	object    = apitest.Object
	apiServer = apitest.Server
)

func newAPIServer(t *testing.T) (*apiServer, *rest.RESTClient) {
	a := apitest.NewServer()
	return a, clientOf(t, a)
}

// clientOf returns a client of a server that ends with the test.
func clientOf(t *testing.T, h http.Handler) *rest.RESTClient {
	t.Helper()
	return apitest.Client(t, h, coordinationv1.SchemeGroupVersion)
}

func status(code int, reason, message, kind, name string, causes ...string) object {
	return apitest.Status(code, reason, message, kind, name, causes...)
}

func notFound(path string) object { return apitest.NotFound(path) }

func reply(w http.ResponseWriter, code int, body any) { apitest.Reply(w, code, body) }

func clone(o object) object { return apitest.Clone(o) }

func mustMarshal(v any) []byte { return apitest.Marshal(v) }
