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

type object = apitest.Object

func newAPIServer(t *testing.T) (*apitest.Server, *rest.RESTClient) {
	a := apitest.NewServer()
	return a, clientOf(t, a)
}

// clientOf returns a client of a server that ends with the test.
func clientOf(t *testing.T, h http.Handler) *rest.RESTClient {
	t.Helper()
	return apitest.Client(t, h, coordinationv1.SchemeGroupVersion)
}
