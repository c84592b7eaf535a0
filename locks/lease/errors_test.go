// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

// row is one answer of a server and the error that must result.
type row struct {
	answer object // nil for a text
	kind   error  // the only one of package locks that it is
	says   string
}

// rows hold for every verb.
func rows(verb string) map[string]row {
	forbidden := `leases.coordination.k8s.io "lock" is forbidden: User "jane" cannot ` + verb +
		` resource "leases" in API group "coordination.k8s.io" in the namespace "ns"`
	is := func(code int, reason, message string, causes ...string) object {
		return apitest.Status(code, reason, message, "leases", "lock", causes...)
	}
	table := map[string]row{
		"no permission":         {is(403, "Forbidden", forbidden), locks.ErrForbidden, forbidden},
		"namespace terminating": {is(403, "Forbidden", "unable to create", "NamespaceTerminating"), nil, "is being deleted"},
		"no API":                {nil, locks.ErrNoAPI, "coordination.k8s.io/v1"},
		"no namespace": {
			apitest.Status(404, "NotFound", `namespaces "ns" not found`, "namespaces", "ns"), nil, `namespace "ns" does not exist`,
		},
		"who are you":       {is(401, "Unauthorized", "Unauthorized"), nil, "credentials"},
		"too many requests": {is(429, "TooManyRequests", "try later"), nil, "try later"},
		"server timeout":    {is(504, "Timeout", "request did not complete"), nil, "did not complete"},
		"server error":      {is(500, "InternalError", "etcdserver: leader changed"), nil, "leader changed"},
	}
	switch verb {
	case "create":
		table["taken"] = row{is(409, "AlreadyExists", "already exists"), locks.ErrConflict, ""}
	case "update":
		table["changed"] = row{is(409, "Conflict", "has been modified"), locks.ErrConflict, ""}
		table["deleted"] = row{apitest.NotFound(path), locks.ErrConflict, "does not exist"}
	case "watch":
		table["expired"] = row{is(410, "Expired", "too old resource version"), locks.ErrVersionExpired, ""}
		table["gone"] = row{is(410, "Gone", "too old resource version"), locks.ErrVersionExpired, ""}
		table["from the future"] = row{
			is(504, "Timeout", "Too large resource version: 9, current: 5", "ResourceVersionTooLarge"), locks.ErrVersionExpired, "backup",
		}
	}
	return table
}

func (r row) code() int {
	if r.answer == nil {
		return http.StatusNotFound
	}
	return r.answer["code"].(int)
}

func (r row) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if r.answer == nil {
		http.Error(w, "404 page not found", r.code())
		return
	}
	w.Header().Set("Retry-After", "1")
	apitest.Reply(w, r.code(), r.answer)
}

func (r row) check(t *testing.T, verb string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), r.says) || !strings.Contains(err.Error(), "lease ns/lock: "+verb) {
		t.Fatalf("%v\ndoes not say %q", err, r.says)
	}
	for _, kind := range []error{locks.ErrForbidden, locks.ErrNoAPI, locks.ErrConflict, locks.ErrVersionExpired} {
		if errors.Is(err, kind) != errors.Is(r.kind, kind) {
			t.Errorf("%v: want %v, and no %v", err, r.kind, kind)
		}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || int(status.Status().Code) != r.code() {
		t.Errorf("%v: status %v, want %d", err, status, r.code())
	}
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || timeout.Timeout() != (r.code() == http.StatusGatewayTimeout) {
		t.Errorf("%v: timeout %v", err, timeout.Timeout())
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name, lease.UID, lease.ResourceVersion = "ns", "lock", "u", "5"
	exists := locks.Version{Number: 5, UID: "u", Opaque: lease}
	write := func(ctx context.Context, l *Lock, base locks.Version) error {
		_, err := l.Write(ctx, base, recordOf("a", 1))
		return err
	}
	for verb, call := range map[string]func(context.Context, *Lock) error{
		"get":    func(ctx context.Context, l *Lock) error { _, err := l.Read(ctx); return err },
		"create": func(ctx context.Context, l *Lock) error { return write(ctx, l, locks.Version{}) },
		"update": func(ctx context.Context, l *Lock) error { return write(ctx, l, exists) },
		"watch":  func(ctx context.Context, l *Lock) error { return l.Watch(ctx, exists, nil) },
	} {
		for name, r := range rows(verb) {
			t.Run(verb+"/"+name, func(t *testing.T) {
				r.check(t, verb, call(t.Context(), mustNew(t, clientOf(t, r))))
			})
		}
	}
}

func TestADeadlineIsATimeoutWithoutStatus(t *testing.T) {
	l := mustNew(t, clientOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })))
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := l.Read(ctx)
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: want a timeout", err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		t.Errorf("%v: has a status though nobody answered", err)
	}
}
