// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/test/kit/manifests"
)

// apply applies objects as kubectl apply --server-side --validate=strict does.
func apply(t *testing.T, cfg *rest.Config, all manifests.Objects) {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	must(t, err)
	for _, o := range all {
		raw, err := o.MarshalJSON()
		must(t, err)
		kind, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		_, err = client.Resource(kind).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(), types.ApplyPatchType, raw,
			metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
