// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
)

// Query says what a list or a watch is about. Empty texts mean all.
type Query struct {
	Resource  apierror.Resource
	Namespace string
	Selector  string // of labels
	// Metadata asks for nothing but the metadata of the objects: use it with
	// metav1.PartialObjectMetadata.
	Metadata bool
	// Cached lists from the API server's cache, which may be behind, but is not older than
	// NotOlder. That costs the server little, however many objects the selector does not match.
	// A watch from the list's version brings it up to date.
	Cached   bool
	NotOlder uint64
}

// pageItems is how many objects a page may have, as in client-go.
const pageItems = 500

// pageMost is how long a page may take. An API server gives a request a minute.
const pageMost = 70 * time.Second

// List reads all objects of a resource in a namespace that a label selector matches, as they
// are at some moment after the call; empty ones mean all. It asks for them in pages, each with
// one linearizable request, all of the moment of the first.
func List[T any, P Type[T]](
	ctx context.Context, client rest.Interface, resource apierror.Resource, namespace, selector string,
) (all []T, err error) {
	q := Query{Resource: resource, Namespace: namespace, Selector: selector}
	_, err = ListEach(ctx, client, q, func(e Event[P]) { all = append(all, *e.Object) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ListEach lists objects, and passes on those of a page when it is read, so that no more than a page of
// them is in memory than the caller keeps. It returns the version of the list. After an error, what was
// passed on counts for nothing.
func ListEach[T any, P Type[T]](ctx context.Context, client rest.Interface, q Query, each func(Event[P])) (version uint64, err error) {
	o := listed[T, P](client, q)
	version, err = o.list(ctx, q, each)
	return version, o.name.Explain(apierror.List, err)
}

// listed is all objects that a query describes.
func listed[T any, P Type[T]](client rest.Interface, q Query) Object[T, P] {
	all := apierror.Object{Resource: q.Resource, Namespace: q.Namespace}
	return Object[T, P]{client: client, name: all, selector: q.Selector}
}

// asMetadata asks for the metadata of a list's objects. A server that does not know it sends all of them.
const asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// list reads all pages of a list.
func (o Object[T, P]) list(ctx context.Context, q Query, each func(Event[P])) (version uint64, err error) {
	for token := ""; ; {
		req := o.request(http.MethodGet).SetHeader("Accept", "application/json")
		if q.Metadata {
			req.SetHeader("Accept", asMetadata)
		}
		if q.Selector != "" {
			req.Param("labelSelector", q.Selector)
		}
		switch {
		case q.Cached: // the server answers from its memory, in one page
			req.Param("resourceVersion", strconv.FormatUint(q.NotOlder, 10))
		case token != "":
			req.Param("continue", token)
			fallthrough
		default:
			req.Param("limit", strconv.Itoa(pageItems))
		}
		page, err := o.page(ctx, req, each)
		if err != nil {
			return 0, err
		}
		of := record.Number(page.ResourceVersion)
		switch {
		case version == 0:
			version = of
		case version != of:
			return 0, fmt.Errorf("the pages of the list are of versions %d and %d: is this a Kubernetes API server?", version, of)
		}
		if token = page.Continue; token == "" {
			return version, nil
		}
	}
}

// page reads one page.
func (o Object[T, P]) page(ctx context.Context, req *rest.Request, each func(Event[P])) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, pageMost)
	defer cancel()
	var page struct {
		Metadata metav1.ListMeta
		Items    []T
	}
	answer := req.Do(ctx)
	err := answer.Error()
	if err == nil {
		raw, _ := answer.Raw() // there is no error
		err = json.Unmarshal(raw, &page)
	}
	if err == nil { // an answer that is not a list would read as an empty one
		err = checkVersion("list of "+o.name.Resource.Name, page.Metadata.ResourceVersion)
	}
	for i := 0; err == nil && i < len(page.Items); i++ {
		object := P(&page.Items[i])
		if err = checkVersion(o.name.Kind, object.GetResourceVersion()); err == nil {
			each(Event[P]{Type: watch.Added, Object: object})
		}
	}
	return page.Metadata, err
}
