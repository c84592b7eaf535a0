// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apierror

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/zonelect/zonelect/locks"
)

// TestARefusalIsNoOtherWriter: testdata/answers.json has what a real API server answered.
func TestARefusalIsNoOtherWriter(t *testing.T) {
	text, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		What, Verb, Kind string
		Status           metav1.Status
	}
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, a := range answers {
		kinds[a.Kind]++
		got := Object{Leases, "ns", "lock"}.Explain(a.Verb, &apierrors.StatusError{ErrStatus: a.Status})
		_, lacks := MissingIn(got)
		if is := errors.Is(got, locks.ErrConflict); is != (a.Kind == "conflict") {
			t.Errorf("%s, %s: %d %q is a conflict: %v", a.What, a.Verb, a.Status.Code, a.Status.Message, is)
		}
		if lacks != (a.Kind == "missing") || a.Status.Code == 403 && !errors.Is(got, locks.ErrForbidden) {
			t.Errorf("%s, %s: %d %q lacks a permission: %v, %v", a.What, a.Verb, a.Status.Code, a.Status.Message, lacks, got)
		}
	}
	if kinds["refused"] < 28 || kinds["conflict"] < 5 || kinds["unanswered"] == 0 || kinds["missing"] == 0 || kinds["other"] == 0 {
		t.Errorf("the answers are %v", kinds)
	}
}

// TestAConflictAboutAnotherObjectIsNoOtherWriter, such as that of a quota that many requests
// change at a time.
func TestAConflictAboutAnotherObjectIsNoOtherWriter(t *testing.T) {
	quota := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "few", errors.New("the object has been modified"))
	if err := (Object{Leases, "ns", "lock"}).Explain(Create, quota); errors.Is(err, locks.ErrConflict) {
		t.Errorf("%v is a conflict", err)
	}
}
