// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rawapi reads, writes and watches one object of the Kubernetes API, with one request
// for each operation. client-go neither delays nor repeats a request: that is up to the
// caller, who knows how long it may take. [Ask] and [Limit] bound requests that are not the elector's own.
//
// Every error is one of package apierror.
package rawapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
)

// Type is a pointer to a type of the API, such as *corev1.ConfigMap.
type Type[T any] interface {
	*T
	metav1.Object
	runtime.Object
}

// Object is one object of the API, by its name. It keeps nothing that it read. Its methods
// are safe for concurrent use. Make one with [New].
type Object[T any, P Type[T]] struct {
	client rest.Interface
	name   apierror.Object
	// For a list or a watch, instead of a name.
	selector string
}

// New returns the object with that name; client must be one for its group and version. Call
// [Check] first.
func New[T any, P Type[T]](client rest.Interface, name apierror.Object) Object[T, P] {
	return Object[T, P]{client: client, name: name}
}

// Check lists what is wrong with a client and the name of an object that must
// have a namespace. It does no I/O.
func Check(client rest.Interface, name apierror.Object) error {
	return errors.Join(
		CheckClient(client, name.Resource),
		checkName("namespace", name.Namespace, validation.IsDNS1123Label),
		checkName("name", name.Name, validation.IsDNS1123Subdomain),
	)
}

// CheckClient says what is wrong with a client for a resource.
func CheckClient(c rest.Interface, resource apierror.Resource) error {
	if concrete, ok := c.(*rest.RESTClient); c == nil || ok && concrete == nil {
		return fmt.Errorf("the client is nil: use a REST client for %s", resource.GroupVersion())
	}
	return nil
}

func checkName(what, name string, check func(string) []string) error {
	if name == "" {
		return fmt.Errorf("the %s is empty", what)
	}
	if faults := check(name); len(faults) > 0 {
		return fmt.Errorf("the %s %q is not valid: %s", what, name, strings.Join(faults, "; "))
	}
	return nil
}

// Request begins a request that client-go neither delays nor repeats: its rate limiter (by
// default 5 requests a second) would make a renewal wait for other requests. An empty
// namespace means a resource that has none, or all namespaces.
func Request(client rest.Interface, method string, resource apierror.Resource, namespace string) *rest.Request {
	return client.Verb(method).
		NamespaceIfScoped(namespace, namespace != "").
		Resource(resource.Name).
		MaxRetries(0).
		Throttle(nil).
		BackOffWithContext(&rest.NoBackoff{})
}

func (o Object[T, P]) request(method string) *rest.Request {
	return Request(o.client, method, o.name.Resource, o.name.Namespace)
}

// Name names the object, for errors.
func (o Object[T, P]) Name() apierror.Object { return o.name }

// Get reads the object with one linearizable request. A missing object is an error, which
// Name().Absent recognizes.
func (o Object[T, P]) Get(ctx context.Context) (P, error) {
	return o.send(ctx, apierror.Get, o.request(http.MethodGet).Name(o.name.Name))
}

// Create creates object, whose name and namespace it sets, and returns the stored object.
func (o Object[T, P]) Create(ctx context.Context, object P) (P, error) {
	object.SetNamespace(o.name.Namespace)
	object.SetName(o.name.Name)
	return o.send(ctx, apierror.Create, o.request(http.MethodPost).Body(object))
}

// Update replaces the object that has the same UID and resourceVersion, and returns the
// stored object, which has a newer version: object must differ from what is stored. If object
// lacks UID or resourceVersion, it sends nothing.
func (o Object[T, P]) Update(ctx context.Context, object P) (P, error) {
	if err := o.checkBase(object); err != nil {
		return nil, o.name.Explain(apierror.Update, err)
	}
	stored, err := o.send(ctx, apierror.Update, o.request(http.MethodPut).Name(o.name.Name).Body(object))
	switch {
	case err != nil:
		return nil, err
	case stored.GetUID() != object.GetUID():
		err = fmt.Errorf("the answer is another %s: its UID is %q, not %q", o.name.Kind, stored.GetUID(), object.GetUID())
	case record.Number(stored.GetResourceVersion()) <= record.Number(object.GetResourceVersion()):
		err = fmt.Errorf("%w: version %s is not newer than %s", record.ErrNotShown, stored.GetResourceVersion(), object.GetResourceVersion())
	default:
		return stored, nil
	}
	return nil, o.name.Explain(apierror.Update, err)
}

func (o Object[T, P]) checkBase(object P) error {
	if object == nil || object.GetNamespace() != o.name.Namespace || object.GetName() != o.name.Name {
		return fmt.Errorf("the version to replace was not read from this %s", o.name.Kind)
	}
	if object.GetUID() == "" || object.GetResourceVersion() == "" {
		return fmt.Errorf("the version to replace has UID %q and resourceVersion %q: a compare-and-swap needs both",
			object.GetUID(), object.GetResourceVersion())
	}
	return nil
}

// Delete deletes the object if it still has that UID and resourceVersion. An empty
// resourceVersion means any version of it; without a UID nothing is sent.
func (o Object[T, P]) Delete(ctx context.Context, uid types.UID, resourceVersion string) error {
	if uid == "" {
		return o.name.Explain(apierror.Delete, errors.New("no UID is given: the object might not be the one that was checked"))
	}
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if resourceVersion != "" {
		options.Preconditions.ResourceVersion = &resourceVersion
	}
	err := o.request(http.MethodDelete).Name(o.name.Name).Body(options).Do(ctx).Error()
	return o.name.Explain(apierror.Delete, err)
}

// send makes a request whose answer is the object.
func (o Object[T, P]) send(ctx context.Context, verb string, req *rest.Request) (P, error) {
	object := P(new(T))
	err := req.Do(ctx).Into(object)
	if err == nil {
		err = checkVersion(o.name.Kind, object.GetResourceVersion())
	}
	if err != nil {
		return nil, o.name.Explain(verb, err)
	}
	return object, nil
}

// checkVersion refuses an answer whose version is not a number: no real API server sends one.
func checkVersion(what, version string) error {
	if record.Number(version) == 0 {
		return fmt.Errorf("the answer is no %s, because its resourceVersion is %q: is this a Kubernetes API server?", what, version)
	}
	return nil
}
