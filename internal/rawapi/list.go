// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
)

// Listing is what a list showed. All of it is of one moment.
type Listing[T any] struct {
	ResourceVersion string
	Items           []T
}

// Query says what a list or a watch is about. Empty texts mean all.
type Query struct {
	Resource  apierror.Resource
	Namespace string
	Selector  string // of labels
	Fields    string // a selector of fields, such as "metadata.namespace!=kube-node-lease"
	// Metadata asks for nothing but the metadata of the objects: use it with
	// metav1.PartialObjectMetadata.
	Metadata bool
	// Cached lists from the API server's cache, which may be behind, but is not older than
	// NotOlder. That costs the server little, however many objects the selector does not match.
	// A watch from the list's version brings it up to date.
	Cached   bool
	NotOlder uint64
	// Long says whether an object that is longer than 64 KiB is wanted. Others are not decoded:
	// only their names, namespaces, UIDs and versions are passed on. Nil means that all are
	// wanted.
	Long func(name string) bool
}

// How many objects a page may have. The next page is smaller if one is longer than pageBytes.
const (
	mostPage  = 2000
	pageBytes = 8 << 20
)

// How long a page and a list may take. An API server gives a request a minute, and forgets the state
// of a list after five to ten.
const (
	pageMost = 70 * time.Second
	listMost = 10 * time.Minute
)

// listAgain is how often a list begins again because the server does not know any more how the
// objects were when it began.
const listAgain = 3

// errPageGone says that the server does not know any more how the objects were.
var errPageGone = errors.New("the list took so long that the server has forgotten its state")

// List reads all objects of a resource in a namespace that a label selector matches, as they
// are at some moment after the call; empty ones mean all. It asks for them in pages, each with
// one linearizable request, all of the moment of the first.
func List[T any, P Type[T]](ctx context.Context, client rest.Interface, resource apierror.Resource, namespace, selector string) (Listing[T], error) {
	return Collect[T, P](ctx, client, Query{Resource: resource, Namespace: namespace, Selector: selector}, func(e Event[P]) P { return e.Object })
}

// Collect lists objects, and keeps what keep returns of each, unless that is nil.
func Collect[T any, P Type[T]](ctx context.Context, client rest.Interface, q Query, keep func(Event[P]) P) (Listing[T], error) {
	var all Listing[T]
	version, err := ListEach(ctx, client, q, func() { all.Items = nil }, func(e Event[P]) {
		if o := keep(e); o != nil {
			all.Items = append(all.Items, *o)
		}
	})
	if err != nil {
		return Listing[T]{}, err
	}
	all.ResourceVersion = strconv.FormatUint(version, 10)
	return all, nil
}

// ListEach lists objects, and passes on each when it is read, so that no more of them is in
// memory than the caller keeps. It calls begin first, and again if the list has to begin again:
// what was passed on before then counts for nothing. It returns the version of the list. After an
// error, nothing counts. A page that goes on for more than a minute is an error.
func ListEach[T any, P Type[T]](ctx context.Context, client rest.Interface, q Query, begin func(), each func(Event[P])) (version uint64, err error) {
	o := listed[T, P](client, q)
	for tries := 1; ; tries++ {
		begin()
		version, err = o.list(ctx, q, each)
		if !errors.Is(err, errPageGone) || tries == listAgain {
			return version, o.name.Explain(apierror.List, err)
		}
	}
}

// listed is all objects that a query describes.
func listed[T any, P Type[T]](client rest.Interface, q Query) Object[T, P] {
	return Object[T, P]{client: client, name: apierror.Object{Resource: q.Resource, Namespace: q.Namespace}, selector: q.Selector, fields: q.Fields, long: q.Long}
}

// asMetadata asks for the metadata of a list's objects. A server that does not know it sends all of them.
const asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// list reads all pages of a list.
func (o Object[T, P]) list(ctx context.Context, q Query, each func(Event[P])) (version uint64, err error) {
	ctx, cancel := within(ctx, listMost)
	defer cancel()
	for limit, token := mostPage, ""; ; {
		req := o.request(http.MethodGet).SetHeader("Accept", "application/json")
		if q.Metadata {
			req.SetHeader("Accept", asMetadata)
		}
		if q.Selector != "" {
			req.Param("labelSelector", q.Selector)
		}
		if q.Fields != "" {
			req.Param("fieldSelector", q.Fields)
		}
		switch {
		case q.Cached: // the server answers from its memory, in one page
			req.Param("resourceVersion", strconv.FormatUint(q.NotOlder, 10))
		case token != "":
			req.Param("continue", token)
			fallthrough
		default:
			req.Param("limit", strconv.Itoa(limit))
		}
		page, err := o.page(ctx, req, each)
		if token != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
			return 0, fmt.Errorf("%w: %w", errPageGone, err)
		}
		if err != nil {
			return 0, err
		}
		switch {
		case version == 0:
			version = page.version
		case version != page.version:
			return 0, fmt.Errorf("the pages of the list are of versions %d and %d: is this a Kubernetes API server?", version, page.version)
		}
		if token = page.token; token == "" {
			return version, nil
		}
		limit = max(1, min(mostPage, int(int64(page.items)*pageBytes/max(1, page.bytes))))
	}
}

// page is one page of a list.
type page struct {
	version uint64
	token   string // of the next page; empty if it is the last
	items   int
	bytes   int64
}

// page reads one page, item by item.
func (o Object[T, P]) page(ctx context.Context, req *rest.Request, each func(Event[P])) (page, error) {
	var got page
	ctx, cancel := within(ctx, pageMost)
	defer cancel()
	stream, err := req.Stream(ctx)
	if err != nil {
		return got, ended(ctx, err)
	}
	defer stream.Close()
	all := newParts(stream)
	var meta metav1.ListMeta
	err = all.object(func(key string) error {
		switch key {
		case "metadata":
			raw, _, err := all.value(nil)
			if err == nil {
				err = json.Unmarshal(raw, &meta)
			}
			return err
		case "items":
			return all.array(func() error {
				got.items++
				object, whole, size, err := o.part(all)
				if err == nil {
					err = o.checkAsked(object)
				}
				if err == nil {
					each(Event[P]{Type: watch.Added, Object: object, Cut: !whole, Size: size})
				}
				return err
			})
		default:
			_, _, err := all.value(nil)
			return err
		}
	})
	got.version, got.token, got.bytes = record.Number(meta.ResourceVersion), meta.Continue, all.read
	if err == nil && got.version == 0 {
		// An answer that is not a list would read as an empty one.
		err = fmt.Errorf("the answer is not a list of %s: its resourceVersion is %q, not a number above zero: is this a Kubernetes API server?", o.name.Resource.Name, meta.ResourceVersion)
	}
	return got, ended(ctx, err)
}

// ended returns the error of a request, or why its context ended it.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// within bounds how long a part of a list may take.
func within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, most, fmt.Errorf("the list goes on after %v: is this a Kubernetes API server? %w", most, context.DeadlineExceeded))
}

// part reads the next object of a list.
func (o Object[T, P]) part(all *parts) (object P, whole bool, size int, err error) {
	var id identity
	raw, whole, err := all.value(func(head []byte) (int, error) {
		id = identify(head, false)
		return o.most(id), nil
	})
	if err != nil {
		return nil, false, 0, unexpected(err)
	}
	object = P(new(T))
	if !whole {
		return object, false, len(raw), o.cut(object, id)
	}
	if err := decode(raw, object); err != nil {
		return nil, false, 0, fmt.Errorf("reading an object of the list: %w", err)
	}
	return object, true, len(raw), nil
}

// most is how much is read of a long object. Only one that is known by its name may be cut.
func (o Object[T, P]) most(id identity) int {
	if o.long != nil && id.known() && !o.long(id.name) {
		return mostShort
	}
	return mostPart
}

// cut sets what is known of an object that was not read whole.
func (o Object[T, P]) cut(object P, id identity) error {
	if o.long == nil || !id.known() {
		return errTooLong
	}
	object.SetName(id.name)
	object.SetNamespace(id.namespace)
	object.SetUID(types.UID(id.uid))
	object.SetResourceVersion(id.resourceVersion)
	return nil
}
