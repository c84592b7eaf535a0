// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"net/http"
	"net/http/httptest"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
)

type object = apitest.Object

func newAPIServer(t *testing.T) (*apitest.Server, *rest.RESTClient) {
	a := apitest.NewServer()
	return a, clientOf(t, a)
}

// clientOf returns a client of a server that ends with the test, over real connections.
func clientOf(t *testing.T, h http.Handler) *rest.RESTClient {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	cfg := &rest.Config{Host: s.URL, APIPath: "/apis"}
	cfg.GroupVersion, cfg.NegotiatedSerializer = &coordinationv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(cfg, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return client
}
