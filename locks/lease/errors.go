// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
)

// requestError is what went wrong with one request.
type requestError struct {
	what string // the lease and the verb
	hint string // what to do; may be empty
	kind error  // a sentinel of package election; may be nil
	err  error
}

func (e *requestError) Error() string {
	if e.hint == "" {
		return e.what + ": " + e.err.Error()
	}
	return e.what + ": " + e.hint + ": " + e.err.Error()
}

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

// statusError is a requestError that the server answered with.
type statusError struct {
	requestError
	code int
}

// StatusCode returns the HTTP status that the server sent.
func (e *statusError) StatusCode() int { return e.code }

// explain wraps the error of a request with what was tried and what to do.
func (l *Lock) explain(verb string, err error) error {
	e := requestError{what: fmt.Sprintf("lease %s/%s: %s", l.config.Namespace, l.config.Name, verb), err: err}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return &e
	}
	status := answer.Status()
	e.hint, e.kind = l.judge(verb, status, err)
	if status.Code == 0 {
		return &e
	}
	return &statusError{e, int(status.Code)}
}

// judge says what an answer means: what to do, and which sentinel fits.
func (l *Lock) judge(verb string, status metav1.Status, err error) (hint string, kind error) {
	switch status.Code {
	case http.StatusUnauthorized:
		return "the server does not accept this client's credentials: is the token expired, or the kubeconfig that of another cluster?", nil
	case http.StatusForbidden:
		return l.judgeForbidden(verb, status)
	case http.StatusNotFound:
		return l.judgeNotFound(status)
	case http.StatusConflict:
		return "", election.ErrConflict
	case http.StatusTooManyRequests:
		return "the server sheds load: a FlowSchema of its own keeps this Lease out of that", nil
	}
	if verb == verbWatch && (apierrors.IsGone(err) || apierrors.IsResourceExpired(err)) {
		return "", election.ErrVersionExpired
	}
	if verb == verbWatch && tooLarge(status) {
		return "the server does not know that version: it lags behind, or was restored from a backup", election.ErrVersionExpired
	}
	return "", nil
}

// judgeForbidden tells a missing permission, which comes with the words
// "cannot" and the resource, from what admission refuses.
func (l *Lock) judgeForbidden(verb string, status metav1.Status) (hint string, kind error) {
	switch {
	case hasCause(status, corev1.NamespaceTerminatingCause):
		return fmt.Sprintf("namespace %q is being deleted", l.config.Namespace), nil
	case strings.Contains(status.Message, " cannot impersonate "):
		return "the client's configuration says to impersonate somebody", election.ErrForbidden
	case strings.Contains(status.Message, " cannot ") || hasCause(status, metav1.CauseTypeUnexpectedServerResponse):
		return fmt.Sprintf("needs verb %q on leases.coordination.k8s.io in namespace %q (grant it in a Role and bind that to the service account)", verb, l.config.Namespace), election.ErrForbidden
	default:
		return "refused by an admission rule (a quota, a policy, a webhook)", election.ErrForbidden
	}
}

// judgeNotFound tells what it is that the server did not find. One that does
// not know the API answers without saying which object is meant.
func (l *Lock) judgeNotFound(status metav1.Status) (hint string, kind error) {
	switch {
	case isAbout(status, "namespaces", l.config.Namespace):
		return fmt.Sprintf("namespace %q does not exist: create it, or set another", l.config.Namespace), nil
	case isAbout(status, resource, l.config.Name):
		return "the Lease does not exist", election.ErrConflict
	default:
		return "the server does not serve leases of coordination.k8s.io/v1: it is older than Kubernetes 1.14, has that API switched off, or is at another address", election.ErrNoAPI
	}
}

// absent reports whether err says that the Lease itself, and nothing else, was
// not found.
func (l *Lock) absent(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == http.StatusNotFound && isAbout(answer.Status(), resource, l.config.Name)
}

// isAbout reports whether the server itself named this object. Where it sent
// no status, client-go fills one in from the request, and marks it.
func isAbout(status metav1.Status, kind, name string) bool {
	return status.Details != nil && status.Details.Kind == kind && status.Details.Name == name &&
		!hasCause(status, metav1.CauseTypeUnexpectedServerResponse)
}

// tooLarge recognizes a resourceVersion from the future.
func tooLarge(status metav1.Status) bool {
	return hasCause(status, metav1.CauseTypeResourceVersionTooLarge) || strings.Contains(status.Message, "Too large resource version")
}

func hasCause(status metav1.Status, cause metav1.CauseType) bool {
	if status.Details == nil {
		return false
	}
	for _, c := range status.Details.Causes {
		if c.Type == cause {
			return true
		}
	}
	return false
}
