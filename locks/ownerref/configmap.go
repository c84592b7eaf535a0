// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// Config says which ConfigMap is the legacy lock and how to reach it.
type Config struct {
	// Core talks to the core group, v1, such as
	// clientset.CoreV1().RESTClient(). Required.
	Core rest.Interface
	// Namespace and Name of the ConfigMap. Required. It need not exist; the
	// namespace must.
	Namespace, Name string
}

// ConfigMap is the object in the legacy lock's place. It keeps no copy of what it read. All
// methods are safe for concurrent use; each makes at most one request, without retries.
type ConfigMap struct {
	object rawapi.Object[corev1.ConfigMap, *corev1.ConfigMap]
}

// New returns the ConfigMap that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*ConfigMap, error) {
	name := apierror.Object{Resource: apierror.ConfigMaps, Namespace: c.Namespace, Name: c.Name}
	if err := rawapi.Check(c.Core, name); err != nil {
		return nil, fmt.Errorf("leader-for-life lock %q in namespace %q: %w", c.Name, c.Namespace, err)
	}
	return &ConfigMap{rawapi.New[corev1.ConfigMap](c.Core, name)}, nil
}

// Name returns the ConfigMap's namespace and name, as "namespace/name".
func (m *ConfigMap) Name() string { return m.object.Name().Namespace + "/" + m.object.Name().Name }

// Read returns the current ConfigMap. It is linearizable. If there is no ConfigMap, it
// returns an Absent record and no error.
func (m *ConfigMap) Read(ctx context.Context) (Record, error) {
	cm, err := m.object.Get(ctx)
	if m.object.Name().Absent(err) {
		return Recognize(nil), nil
	}
	if err != nil {
		return Record{}, err
	}
	return Recognize(cm), nil
}

// Watch passes every change of the ConfigMap after version from to each, in order and
// without gaps, and blocks. From zero it begins with the current ConfigMap, if there is
// one. In a bookmark only the record's Number is set. Watch returns nil when it ends by
// itself, which it does after five to ten minutes. If each returns an error, Watch
// returns that error. An error that wraps locks.ErrVersionExpired says that the history
// since from is gone. Before the first event it calls opened, once the server has
// accepted the watch.
func (m *ConfigMap) Watch(
	ctx context.Context, from uint64, opened func(), each func(ctx context.Context, r Record, bookmark bool) error,
) error {
	return m.object.WatchOpen(ctx, from, opened, func(ctx context.Context, e rawapi.Event[*corev1.ConfigMap]) error {
		switch number := record.Number(e.Object.ResourceVersion); e.Type {
		case watch.Deleted:
			return each(ctx, Record{Kind: Absent, Number: number}, false)
		case watch.Bookmark:
			return each(ctx, Record{Number: number}, true)
		default:
			return each(ctx, Recognize(e.Object), false)
		}
	})
}
