// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Kind is the kind of object that has the annotation, in client-go's words.
type Kind string

// The kinds of objects.
const (
	ConfigMaps Kind = "configmaps"
	Endpoints  Kind = "endpoints"
)

// Config says which object a Lock uses and how to reach it.
type Config struct {
	// Client talks to the core API in version v1, such as
	// clientset.CoreV1().RESTClient(). Required. An election should have
	// connections of its own.
	Client rest.Interface
	// Kind of the object. Required.
	Kind Kind
	// Namespace and Name of the object. Required. It need not exist; the
	// namespace must.
	Namespace, Name string
	// Labels are set on each object that is written. Its other labels are kept.
	Labels map[string]string
	// Logger gets warnings about records that are odd but valid. The zero Logger drops
	// them.
	Logger logr.Logger
}

// Lock is a [locks.Lock] on the annotation of one object. It keeps no copy of what it
// read. All methods are safe for concurrent use.
type Lock struct {
	config Config
	name   apierror.Object
	long   record.LongWarning
	object target
}

// New returns the Lock that c describes, or an error that lists everything that is
// wrong with c. It does no I/O.
func New(c Config) (*Lock, error) {
	l := &Lock{config: c, name: apierror.Object{Resource: apierror.ConfigMaps, Namespace: c.Namespace, Name: c.Name}}
	var err error
	switch c.Kind {
	case ConfigMaps:
		l.object = targetOf[corev1.ConfigMap](c.Client, l.name)
	case Endpoints:
		l.name.Resource = apierror.Endpoints
		l.object = targetOf[corev1.Endpoints](c.Client, l.name) //nolint:staticcheck // deprecated, but what the old lock stands on
	default:
		err = fmt.Errorf("the kind is %q: set %q or %q", c.Kind, ConfigMaps, Endpoints)
	}
	if err := errors.Join(err, rawapi.Check(c.Client, l.name)); err != nil {
		return nil, fmt.Errorf("annotation lock %q in namespace %q: %w", c.Name, c.Namespace, err)
	}
	return l, nil
}

// Describe returns the object's name. It does no I/O.
func (l *Lock) Describe() locks.Description {
	return locks.Description{Kind: l.name.Kind, Namespace: l.name.Namespace, Name: l.name.Name}
}

// Capabilities returns none. It does no I/O.
func (*Lock) Capabilities() locks.Capabilities { return locks.Capabilities{} }

// Read gets the object with one linearizable request. If there is no object, it returns
// the zero Snapshot and no error. An object without the annotation is a record without
// a holder. See [ErrNoRecord] and [ErrOtherLock] for objects that cannot be a lock.
func (l *Lock) Read(ctx context.Context) (locks.Snapshot, error) {
	object, err := l.object.get(ctx)
	if l.name.Absent(err) {
		return locks.Snapshot{}, nil
	}
	if err != nil {
		return locks.Snapshot{}, err
	}
	s, err := l.snapshot(object)
	return s, l.name.Explain(apierror.Get, err)
}

// Write puts r on the object if the object is still at base (UID and resourceVersion), or
// creates the object if base does not exist. base must come from a Lock on the same
// object. If the annotations cannot hold the record without loss, Write refuses it and
// sends nothing. See [locks.Lock] for the other errors.
func (l *Lock) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	object, err := l.object.put(ctx, base.Opaque, func(object metav1.Object) error {
		record.SetLabels(object, l.config.Labels)
		return write(object, r)
	})
	if err != nil {
		return locks.Snapshot{}, err
	}
	s, err := l.snapshot(object)
	if err == nil {
		err = record.Shows(s, base, r)
	}
	return s, l.name.Explain(apierror.Update, err)
}

// Clear removes the record from the object permanently, if the object is still at base,
// which must exist. The object stays, with everything else on it.
func (l *Lock) Clear(ctx context.Context, base locks.Version) error {
	if !base.Exists() {
		return l.name.Explain(apierror.Update, errors.New("it does not exist"))
	}
	_, err := l.object.put(ctx, base.Opaque, func(object metav1.Object) error { strip(object); return nil })
	return err
}

// Watch sends the changes of the object after version from, see [locks.Lock]. It is one
// request, which ends by itself after five to ten minutes, even if the server has fallen
// silent. It returns an error as soon as Read would. It starts no goroutine.
func (l *Lock) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	return l.object.watch(ctx, from.Number, func(ctx context.Context, kind watch.EventType, object metav1.Object) error {
		event := locks.Event{Snapshot: record.Gone(object.GetResourceVersion()), Bookmark: kind == watch.Bookmark}
		if kind != watch.Deleted && kind != watch.Bookmark {
			var err error
			if event.Snapshot, err = l.snapshot(object); err != nil {
				return err
			}
		}
		select {
		case events <- event:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// snapshot returns the record on object.
func (l *Lock) snapshot(object metav1.Object) (locks.Snapshot, error) {
	r, err := read(object)
	if err != nil {
		return locks.Snapshot{}, err
	}
	l.long.See(l.config.Logger, l.Describe(), r)
	return locks.Snapshot{
		Version: locks.Version{
			Number: record.Number(object.GetResourceVersion()),
			UID:    string(object.GetUID()),
			Opaque: object,
		},
		Record: r,
	}, nil
}

// target is one object of any kind.
type target struct {
	get func(ctx context.Context) (metav1.Object, error)
	// put writes base, or a new object if base is nil, with a change.
	put   func(ctx context.Context, base any, change func(metav1.Object) error) (metav1.Object, error)
	watch func(ctx context.Context, from uint64, each eachEvent) error
}

type eachEvent func(context.Context, watch.EventType, metav1.Object) error

func targetOf[T any, P rawapi.Type[T]](client rest.Interface, name apierror.Object) target {
	o := rawapi.New[T, P](client, name)
	return target{
		get: func(ctx context.Context) (metav1.Object, error) { return o.Get(ctx) },
		put: func(ctx context.Context, base any, change func(metav1.Object) error) (metav1.Object, error) {
			verb, send, to := apierror.Create, o.Create, P(new(T))
			if base != nil {
				old, ok := base.(P)
				if !ok || old == nil {
					err := fmt.Errorf("the version to replace (%T) was not read from this %s", base, name.Kind)
					return nil, name.Explain(apierror.Update, err)
				}
				verb, send, to = apierror.Update, o.Update, old.DeepCopyObject().(P)
			}
			if err := change(to); err != nil {
				return nil, name.Explain(verb, err)
			}
			return send(ctx, to)
		},
		watch: func(ctx context.Context, from uint64, each eachEvent) error {
			return o.Watch(ctx, from, func(ctx context.Context, e rawapi.Event[P]) error {
				return each(ctx, e.Type, e.Object)
			})
		},
	}
}
