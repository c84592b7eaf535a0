// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// answers gives every request the same answer.
type answers struct {
	code int
	body string
}

func (a answers) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	io.WriteString(w, a.body)
}

var leaseName = apierror.Object{Resource: apierror.Leases, Namespace: "ns", Name: "lock"}

func leaseFrom(t *testing.T, a answers) rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease] {
	t.Helper()
	return rawapi.New[coordinationv1.Lease](apitest.Wire(t, a, coordinationv1.SchemeGroupVersion), leaseName)
}

// FuzzGet reads any answer: nothing else is ever taken for a Lease, or for its absence, which
// only a server that names the Lease can report.
func FuzzGet(f *testing.F) {
	gone := string(apitest.Marshal(apitest.NotFound("/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock")))
	f.Add(200, strings.Replace(object("Lease", "u", "7"), "v1", "coordination.k8s.io/v1", 1))
	f.Add(404, gone)
	f.Add(404, `404 page not found`)
	f.Add(409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
	f.Add(200, gone)
	f.Add(500, `{"kind":"Status","apiVersion":"v1","code":404,"details":{"name":"lock","kind":"leases"}}`)
	f.Add(200, `{"metadata":{"resourceVersion":"0"}}`)
	f.Fuzz(func(t *testing.T, code int, body string) {
		if code < 200 || code > 599 || code/100 == 3 {
			t.Skip("no answer, or another address")
		}
		lease, err := leaseFrom(t, answers{code, body}).Get(t.Context())
		if err == nil {
			if n, bad := strconv.ParseUint(lease.ResourceVersion, 10, 64); bad != nil || n == 0 || code > 299 {
				t.Errorf("%d %q is read as the Lease %s/%s at %q", code, body, lease.Namespace, lease.Name, lease.ResourceVersion)
			}
			return
		}
		named := strings.Contains(body, "404") || code == http.StatusNotFound
		named = named && strings.Contains(body, "lock") && strings.Contains(body, "leases")
		if leaseName.Absent(err) && !named {
			t.Errorf("%d %q is read as the Lease's absence", code, body)
		}
		if errors.Is(err, locks.ErrConflict) && code/100 == 2 && !strings.Contains(body, "40") {
			t.Errorf("%d %q is read as a conflict", code, body)
		}
	})
}
