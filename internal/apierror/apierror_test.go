// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apierror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/zonelect/zonelect/locks"
)

func TestErrorsNameTheObjectAndWhatToDo(t *testing.T) {
	about := schema.GroupResource{Resource: "configmaps"}
	configMap, leaseLock := Object{ConfigMaps, "ns", "lock"}, Object{Leases, "ns", "lock"}
	missing := apierrors.NewForbidden(about, "lock", errors.New(`User "jane" cannot update resource`))
	toOwn := apierrors.NewForbidden(about, "lock", errors.New("cannot set an ownerRef on a resource you can't delete: , <nil>"))
	noAPI := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404}}
	changed := apierrors.NewConflict(about, "lock", errors.New("changed"))
	for name, tc := range map[string]struct {
		object Object
		err    error
		kind   error
		says   string
	}{
		"a permission in a namespace": {configMap, missing, locks.ErrForbidden,
			`configmap ns/lock: update: needs verb "update" on configmaps in namespace "ns" (grant it in a Role `},
		"a permission without one": {Object{Nodes, "", "n1"}, missing, locks.ErrForbidden,
			`node n1: update: needs verb "update" on nodes (grant it in a ClusterRole `},
		"a permission for all": {Object{Pods, "ns", ""}, missing, locks.ErrForbidden, `pods in namespace ns: update: `},
		"a permission to own":  {leaseLock, toOwn, locks.ErrForbidden, `needs verb "delete" on leases`},
		"a group": {leaseLock, missing, locks.ErrForbidden,
			`lease ns/lock: update: needs verb "update" on leases.coordination.k8s.io`},
		"an object that is not there": {configMap, apierrors.NewNotFound(about, "lock"), locks.ErrConflict, "the ConfigMap does not exist"},
		"an API that is not there":    {Object{Endpoints, "ns", "lock"}, noAPI, locks.ErrNoAPI, "the server does not serve endpoints of v1"},
		"a conflict":                  {configMap, changed, locks.ErrConflict, "configmap ns/lock: update: "},
		"no answer":                   {configMap, io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, "configmap ns/lock: update: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.object.Explain(Update, tc.err)
			if !errors.Is(got, tc.kind) || !errors.Is(got, tc.err) || !strings.Contains(got.Error(), tc.says) {
				t.Errorf("%v\ndoes not say %q, or wrap %v and what it explains", got, tc.says, tc.kind)
			}
		})
	}
}

// TestAbsentIsTheObjectItself, not its namespace or its API.
func TestAbsentIsTheObjectItself(t *testing.T) {
	object := Object{ConfigMaps, "ns", "lock"}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "lock")
	if !object.Absent(gone) || !object.Absent(object.Explain(Get, gone)) {
		t.Error("the object's absence is not recognized")
	}
	for name, err := range map[string]error{
		"nothing":       nil,
		"a namespace":   apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns"),
		"another":       apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "other"),
		"no API":        &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404}},
		"out of time":   context.DeadlineExceeded,
		"another fault": apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "lock", nil),
	} {
		if object.Absent(err) {
			t.Errorf("%s counts as the object's absence", name)
		}
	}
}

// TestAMissingPermissionIsToldFromWhatAdmissionRefuses: a role fixes only a missing
// permission.
func TestAMissingPermissionIsToldFromWhatAdmissionRefuses(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "lock", errors.New(why))
	}
	for why, want := range map[string]Missing{
		`User "jane" cannot update resource "leases"`:                    {Update, "ns", Leases},
		"cannot set an ownerRef on a resource you can't delete: , <nil>": {Delete, "ns", Leases},
		`User "jane" cannot impersonate resource "users"`:                {},
		"exceeded quota": {},
		"unable to create new content in namespace ns because it is being terminated": {},
	} {
		err := Object{Leases, "ns", "lock"}.Explain(Update, forbidden(why))
		if got, is := MissingIn(fmt.Errorf("wrapped: %w", err)); got != want || is != (want != Missing{}) {
			t.Errorf("%v lacks %+v, %v", err, got, is)
		}
	}
	if got, is := MissingIn(io.ErrUnexpectedEOF); is {
		t.Errorf("no answer lacks %+v", got)
	}
}
