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

	"github.com/zonelect/zonelect/locks"
)

// row is one answer of a server and the error that must result.
type row struct {
	code    int
	body    any // a string is sent as text
	kind    error
	says    []string
	timeout bool
	not     []error
}

const user = `leases.coordination.k8s.io "lock" is forbidden: User "jane" cannot VERB resource "leases" in API group "coordination.k8s.io" in the namespace "ns"`

// rows hold for every verb, except for those that a test changes.
func rows(verb string) map[string]row {
	forbidden := strings.Replace(user, "VERB", verb, 1)
	return map[string]row{
		"no permission":         {403, status(403, "Forbidden", forbidden, "leases", "lock"), locks.ErrForbidden, []string{`needs verb "` + verb + `" on leases.coordination.k8s.io in namespace "ns"`, "Role", forbidden}, false, nil},
		"namespace terminating": {403, status(403, "Forbidden", "unable to create new content", "leases", "lock", "NamespaceTerminating"), nil, []string{"is being deleted"}, false, []error{locks.ErrForbidden}},
		"no API":                {404, "404 page not found\n", locks.ErrNoAPI, []string{"1.14", "coordination.k8s.io/v1"}, false, []error{locks.ErrConflict}},
		"no namespace":          {404, status(404, "NotFound", `namespaces "ns" not found`, "namespaces", "ns"), nil, []string{`namespace "ns" does not exist`}, false, []error{locks.ErrNoAPI, locks.ErrConflict}},
		"who are you":           {401, status(401, "Unauthorized", "Unauthorized", "", ""), nil, []string{"credentials"}, false, []error{locks.ErrForbidden}},
		"too many requests":     {429, status(429, "TooManyRequests", "try later", "", ""), nil, []string{"try later"}, false, nil},
		"server timeout":        {504, status(504, "Timeout", "request did not complete", "", ""), nil, []string{"did not complete"}, true, nil},
		"server error":          {500, status(500, "InternalError", "etcdserver: leader changed", "", ""), nil, []string{"leader changed"}, false, nil},
	}
}

func answering(r row) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if text, ok := r.body.(string); ok {
			http.Error(w, text, r.code)
			return
		}
		w.Header().Set("Retry-After", "1")
		reply(w, r.code, r.body)
	}
}

func (r row) check(t *testing.T, verb string, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, s := range append(r.says, "lease ns/lock: "+verb) {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%v\ndoes not say %q", err, s)
		}
	}
	if r.kind != nil && !errors.Is(err, r.kind) {
		t.Errorf("%v: want %v", err, r.kind)
	}
	for _, not := range r.not {
		if errors.Is(err, not) {
			t.Errorf("%v: must not be %v", err, not)
		}
	}
	var status interface{ StatusCode() int }
	if !errors.As(err, &status) || status.StatusCode() != r.code {
		t.Errorf("%v: status %v, want %d", err, status, r.code)
	}
	var timeout interface{ Timeout() bool }
	if !errors.As(err, &timeout) || timeout.Timeout() != r.timeout {
		t.Errorf("%v: timeout %v, want %v", err, timeout.Timeout(), r.timeout)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	conflict := []error{locks.ErrNoAPI, locks.ErrForbidden}
	exists := locks.Version{Number: 5, UID: "u", Opaque: existing()}
	for verb, call := range map[string]func(context.Context, *Lock) error{
		"get": func(ctx context.Context, l *Lock) error { _, err := l.Read(ctx); return err },
		"create": func(ctx context.Context, l *Lock) error {
			_, err := l.Write(ctx, locks.Version{}, recordOf("a", 1))
			return err
		},
		"update": func(ctx context.Context, l *Lock) error { _, err := l.Write(ctx, exists, recordOf("a", 1)); return err },
		"watch":  func(ctx context.Context, l *Lock) error { return l.Watch(ctx, exists, nil) },
	} {
		table := rows(verb)
		switch verb {
		case "create":
			table["taken"] = row{409, status(409, "AlreadyExists", "already exists", "leases", "lock"), locks.ErrConflict, nil, false, conflict}
		case "update":
			table["changed"] = row{409, status(409, "Conflict", "has been modified", "leases", "lock"), locks.ErrConflict, nil, false, conflict}
			table["deleted"] = row{404, notFound(path), locks.ErrConflict, []string{"does not exist"}, false, conflict}
		case "watch":
			table["expired"] = row{410, status(410, "Expired", "too old resource version", "", ""), locks.ErrVersionExpired, nil, false, nil}
			table["gone"] = row{410, status(410, "Gone", "too old resource version", "", ""), locks.ErrVersionExpired, nil, false, nil}
			table["from the future"] = row{504, status(504, "Timeout", "Too large resource version: 9, current: 5", "", "", "ResourceVersionTooLarge"), locks.ErrVersionExpired, []string{"backup"}, true, nil}
		}
		for name, r := range table {
			t.Run(verb+"/"+name, func(t *testing.T) {
				r.check(t, verb, call(t.Context(), mustNew(t, clientOf(t, answering(r)))))
			})
		}
	}
}

func existing() *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name, lease.UID, lease.ResourceVersion = "ns", "lock", "u", "5"
	return lease
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
	var status interface{ StatusCode() int }
	if errors.As(err, &status) {
		t.Errorf("%v: has a status though nobody answered", err)
	}
}
