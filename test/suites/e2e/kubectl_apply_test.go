// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// kubectl applies objects as kubectl apply --server-side --validate=strict does.
type kubectl struct {
	client  *dynamic.DynamicClient
	mapping *restmapper.DeferredDiscoveryRESTMapper
}

func newKubectl(t *testing.T, cfg *rest.Config) *kubectl {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	must(t, err)
	found, err := discovery.NewDiscoveryClientForConfig(cfg)
	must(t, err)
	return &kubectl{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
}

func (k *kubectl) apply(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	kind := o.GroupVersionKind()
	m, err := k.mapping.RESTMapping(kind.GroupKind(), kind.Version)
	must(t, err)
	raw, err := o.MarshalJSON()
	must(t, err)
	now, err := k.client.Resource(m.Resource).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.ApplyPatchType, raw,
		metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return now
}
