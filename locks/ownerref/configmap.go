// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
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
	// Labels are set on each shield that is written. Its other labels are kept.
	Labels map[string]string
	// Logger gets a message about every change that was made. The zero value drops it.
	Logger logr.Logger
}

// ConfigMap is the object in the legacy lock's place. It keeps no copy of what it read:
// the caller passes versions back in a [Record]. All methods are safe for concurrent use;
// each makes at most one request, without retries.
type ConfigMap struct {
	object rawapi.Object[corev1.ConfigMap, *corev1.ConfigMap]
	labels map[string]string
	log    logr.Logger
}

// New returns the ConfigMap that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*ConfigMap, error) {
	name := apierror.Object{Resource: apierror.ConfigMaps, Namespace: c.Namespace, Name: c.Name}
	if err := rawapi.Check(c.Core, name); err != nil {
		return nil, fmt.Errorf("leader-for-life lock %q in namespace %q: %w", c.Name, c.Namespace, err)
	}
	return &ConfigMap{rawapi.New[corev1.ConfigMap](c.Core, name), c.Labels, c.Logger.WithValues("configMap", c.Namespace+"/"+c.Name)}, nil
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
func (m *ConfigMap) Watch(ctx context.Context, from uint64, opened func(), each func(ctx context.Context, r Record, bookmark bool) error) error {
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

// PutUp creates the shield and returns it. It fails with an error that wraps
// locks.ErrConflict if the ConfigMap exists. It refuses an armed state: only a shield
// that is up can be armed.
func (m *ConfigMap) PutUp(ctx context.Context, s ShieldState) (Record, error) {
	if err := s.checkNew(); err != nil {
		return Record{}, m.object.Name().Explain(apierror.Create, err)
	}
	cm, err := m.object.Create(ctx, m.labeled(s.written(&corev1.ConfigMap{})))
	if err != nil {
		return Record{}, err
	}
	m.log.Info("the shield is up: leader-for-life programs wait at it", "phase", s.Stage.Phase)
	return Recognize(cm), nil
}

// labeled sets the labels of the configuration on cm, and returns it.
func (m *ConfigMap) labeled(cm *corev1.ConfigMap) *corev1.ConfigMap {
	record.SetLabels(cm, m.labels)
	return cm
}

func (s ShieldState) checkNew() error {
	if s.Armed {
		return errors.New("a shield that is not up yet cannot be armed")
	}
	return s.check()
}

// Change replaces the state in base with s, and returns the new record. It keeps
// everything else on the ConfigMap. It fails with an error that wraps locks.ErrConflict
// if the ConfigMap is no longer at the version of base.
//
// Change sends nothing if base is neither a Shield nor Sealed; if s has no presences but
// is not sealed; or if s removes the last presence from a base that is not armed (M9).
func (m *ConfigMap) Change(ctx context.Context, base Record, s ShieldState) (Record, error) {
	if err := base.checkChange(s); err != nil {
		return Record{}, m.object.Name().Explain(apierror.Update, err)
	}
	cm, err := m.object.Update(ctx, m.labeled(s.written(base.object)))
	if err != nil {
		return Record{}, err
	}
	m.log.V(1).Info("the shield was changed", "phase", s.Stage.Phase, "armed", s.Armed, "presences", len(s.Presences))
	return Recognize(cm), nil
}

func (r Record) checkChange(s ShieldState) error {
	switch {
	case r.Kind != Shield && r.Kind != Sealed:
		return fmt.Errorf("what is to be changed is no shield: %w", r.is())
	case r.object == nil:
		return errors.New("the version to replace was not read from this ConfigMap")
	case r.Kind == Shield && len(s.Presences) == 0 && !r.Shield.Armed:
		return errors.New("only an armed shield can be sealed")
	default:
		return s.check()
	}
}

// Remove deletes the ConfigMap if it is still at the version of base, which must be
// Legacy, a Shield, Sealed or Bare. It fails with an error that wraps locks.ErrConflict if the
// ConfigMap was changed or deleted meanwhile. A ConfigMap that [Record.Stays] is still there
// afterwards.
func (m *ConfigMap) Remove(ctx context.Context, base Record) error {
	if base.Kind == Absent || base.Kind == Foreign && !base.Bare || base.object == nil {
		return m.object.Name().Explain(apierror.Delete, fmt.Errorf("what is to be removed is not ours: %w", base.is()))
	}
	if err := m.object.Delete(ctx, base.UID, base.object.ResourceVersion); err != nil {
		return err
	}
	if base.Stays() {
		m.log.Info(lingering(base.object.Finalizers), "was", base.Kind, "owner", base.Owner.Name)
		return nil
	}
	was := string(base.Kind)
	if base.Bare {
		was = "empty, without an owner"
	}
	m.log.Info("the ConfigMap was removed", "was", was, "owner", base.Owner.Name)
	return nil
}

// is describes a record, for errors.
func (r Record) is() error {
	if r.Why != "" {
		return fmt.Errorf("it is %s: %s", r.Kind, r.Why)
	}
	return fmt.Errorf("it is %s", r.Kind)
}
