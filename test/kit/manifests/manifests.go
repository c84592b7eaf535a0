// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests has what kustomize renders, as objects that a test can look at.
package manifests

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Objects are what was rendered, in its order.
type Objects []*unstructured.Unstructured

// Kustomize builds the kustomization of a directory, as kubectl kustomize does.
func Kustomize(t testing.TB, dir string) Objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	must(t, err)
	var all Objects
	for _, r := range built.Resources() {
		raw, err := r.MarshalJSON()
		must(t, err)
		o := &unstructured.Unstructured{}
		must(t, o.UnmarshalJSON(raw))
		all = append(all, o)
	}
	return all
}

// Pick returns the objects of one kind. The test fails if one has a field that T does not know.
func Pick[T any](t testing.TB, all Objects, kind string) []*T {
	t.Helper()
	var picked []*T
	for _, o := range all {
		if o.GetKind() == kind {
			typed := new(T)
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true))
			picked = append(picked, typed)
		}
	}
	return picked
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
