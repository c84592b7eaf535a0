// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apierror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/locks"
)

// The verbs of the API, as RBAC calls them.
const (
	Get    = "get"
	List   = "list"
	Create = "create"
	Update = "update"
	Delete = "delete"
	Watch  = "watch"
)

// requestError describes the failure of one request.
type requestError struct {
	what string // the object and the verb
	hint string // what to do; may be empty
	kind error  // a sentinel of package election; may be nil
	err  error

	lacks Missing // the zero value if no permission is missing
}

// Missing is a permission that the API server says is missing.
type Missing struct {
	Verb      string
	Namespace string // empty if it is missing for the cluster
	Resource
}

// MissingIn returns the permission whose absence made a request fail.
func MissingIn(err error) (Missing, bool) {
	var e *requestError
	if !errors.As(err, &e) {
		return Missing{}, false
	}
	return e.lacks, e.lacks != Missing{}
}

func (e *requestError) Error() string { return join(e.what, ": ", e.hint) + ": " + e.err.Error() }

func (e *requestError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// Timeout reports whether time ran out, here or at the server.
func (e *requestError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.Is(e.err, context.DeadlineExceeded) ||
		apierrors.IsTimeout(e.err) || apierrors.IsServerTimeout(e.err) ||
		errors.As(e.err, &t) && t.Timeout()
}

// Explain wraps the error of a request with what was tried and what to do.
// It returns nil for nil.
func (o Object) Explain(verb string, err error) error {
	if err == nil {
		return nil
	}
	e := &requestError{what: fmt.Sprintf("%s: %s", o, verb), err: err}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		e.judge(o, verb, answer.Status())
	}
	return e
}

// judge interprets an answer: what to do, which sentinel fits, and which permission is missing.
func (e *requestError) judge(o Object, verb string, status metav1.Status) {
	switch status.Code {
	case http.StatusUnauthorized:
		e.hint = "the server does not accept this client's credentials: is the token expired, or the kubeconfig that of another cluster?"
	case http.StatusForbidden:
		e.judgeForbidden(o, verb, status)
	case http.StatusNotFound:
		e.judgeNotFound(o, status)
	case http.StatusConflict:
		// The details of a deletion's precondition name the kind, those of all others the resource. A
		// conflict about a quota, which many requests use at a time, names that; a webhook's names nothing.
		if about := status.Details; about != nil && (about.Kind == o.Resource.Name || about.Kind == o.Kind) {
			e.kind = locks.ErrConflict
		}
	default:
		if verb == Watch {
			e.judgeWatch(status)
		}
	}
}

// judgeWatch tells a watch that cannot start from its version from others that fail.
func (e *requestError) judgeWatch(status metav1.Status) {
	switch {
	case apierrors.IsGone(e.err), apierrors.IsResourceExpired(e.err):
		e.kind = locks.ErrVersionExpired
	case hasCause(status, metav1.CauseTypeResourceVersionTooLarge), strings.Contains(status.Message, "Too large resource version"):
		e.kind = locks.ErrVersionExpired
		e.hint = "the server does not know that version: it lags behind, or was restored from a backup"
	}
}

// ownerRefs is the beginning of the message of the admission plugin
// OwnerReferencesPermissionEnforcement.
const ownerRefs = "cannot set an ownerRef on a resource you can't delete"

// judgeForbidden tells a missing permission from a refusal by admission: RBAC says "cannot", the verb and
// the resource.
func (e *requestError) judgeForbidden(o Object, verb string, status metav1.Status) {
	says := func(text string) bool { return strings.Contains(status.Message, text) }
	e.kind = locks.ErrForbidden
	switch {
	case hasCause(status, corev1.NamespaceTerminatingCause):
		e.hint, e.kind = fmt.Sprintf("namespace %q is being deleted", o.Namespace), nil
	case says(" cannot impersonate "):
		e.hint = "the client's configuration says to impersonate somebody"
	case says(ownerRefs):
		e.lacks = Missing{Delete, o.Namespace, o.Resource}
		e.hint = "the server demands the permission to delete what gets owner references " +
			"(admission plugin OwnerReferencesPermissionEnforcement): " + e.lacks.grant()
	case says(" cannot " + verb + " resource"), hasCause(status, metav1.CauseTypeUnexpectedServerResponse):
		e.lacks = Missing{verb, o.Namespace, o.Resource}
		e.hint = e.lacks.grant()
	} // else an admission rule refuses: its message names the rule
}

// grant says how to get the permission.
func (m Missing) grant() string {
	what, role := m.String(), "ClusterRole"
	if m.Namespace != "" {
		what, role = fmt.Sprintf("%s in namespace %q", what, m.Namespace), "Role"
	}
	return fmt.Sprintf("needs verb %q on %s (grant it in a %s and bind that to this user or service account)", m.Verb, what, role)
}

// judgeNotFound says what the server did not find. A server that does not know the API
// answers without naming the object.
func (e *requestError) judgeNotFound(o Object, status metav1.Status) {
	switch {
	case o.Namespace != "" && isAbout(status, "namespaces", o.Namespace):
		e.hint = fmt.Sprintf("namespace %q does not exist: create it, or set another", o.Namespace)
	case isAbout(status, o.Resource.Name, o.Name):
		e.hint, e.kind = fmt.Sprintf("the %s does not exist", o.Kind), locks.ErrConflict
	default:
		e.kind = locks.ErrNoAPI
		e.hint = fmt.Sprintf("the server does not serve %s of %s: is it a Kubernetes API server, and is its address right?",
			o.Resource.Name, o.GroupVersion())
	}
}

// Absent reports whether err says that the object itself, and nothing else, was not found. It
// recognizes both client-go's error and the explained one.
func (o Object) Absent(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == http.StatusNotFound && isAbout(answer.Status(), o.Resource.Name, o.Name)
}

// isAbout reports whether the server itself named this object. If the server sent no status,
// client-go fills one in from the request, and marks it.
func isAbout(status metav1.Status, resource, name string) bool {
	return status.Details != nil && status.Details.Kind == resource && status.Details.Name == name &&
		!hasCause(status, metav1.CauseTypeUnexpectedServerResponse)
}

func hasCause(status metav1.Status, cause metav1.CauseType) bool {
	is := func(c metav1.StatusCause) bool { return c.Type == cause }
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, is)
}
