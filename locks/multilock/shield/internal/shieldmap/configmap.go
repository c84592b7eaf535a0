// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shieldmap writes the shield: the ConfigMap in the place of a leader-for-life lock,
// owned by the presence objects of candidates. It puts the shield up, changes it and removes
// it. Package ownerref reads the ConfigMap, and says what it is.
//
// The package decides nothing about leadership: package locks/multilock/shield does.
package shieldmap

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// ConfigMap is the ConfigMap, for those who keep the shield. It keeps no copy of what it read:
// the caller passes versions back in a record. All methods are safe for concurrent use; each
// makes at most one request, without retries.
type ConfigMap struct {
	*ownerref.ConfigMap
	object rawapi.Object[corev1.ConfigMap, *corev1.ConfigMap]
	labels map[string]string
	log    logr.Logger
}

// New returns the ConfigMap that c describes, or an error that lists what is wrong with c. The labels
// are set on each shield that is written; its other labels are kept. The logger gets a message about
// every change that was made. New does no I/O.
func New(c ownerref.Config, labels map[string]string, log logr.Logger) (*ConfigMap, error) {
	read, err := ownerref.New(c)
	if err != nil {
		return nil, err
	}
	name := apierror.Object{Resource: apierror.ConfigMaps, Namespace: c.Namespace, Name: c.Name}
	object := rawapi.New[corev1.ConfigMap](c.Core, name)
	return &ConfigMap{read, object, labels, log.WithValues("configMap", read.Name())}, nil
}

// PutUp creates the shield and returns it. It fails with an error that wraps
// locks.ErrConflict if the ConfigMap exists. It refuses an armed state: only a shield
// that is up can be armed.
func (m *ConfigMap) PutUp(ctx context.Context, s State) (ownerref.Record, error) {
	err := s.check()
	if s.Armed {
		err = errors.New("a shield that is not up yet cannot be armed")
	}
	if err != nil {
		return ownerref.Record{}, m.object.Name().Explain(apierror.Create, err)
	}
	cm, err := m.object.Create(ctx, s.written(&corev1.ConfigMap{}, m.labels))
	if err != nil {
		return ownerref.Record{}, err
	}
	m.log.Info("the shield is up: leader-for-life programs wait at it", "phase", s.Stage.Phase)
	return ownerref.Recognize(cm), nil
}

// Change replaces the state in base with s, and returns the new record. It keeps
// everything else on the ConfigMap. It fails with an error that wraps locks.ErrConflict
// if the ConfigMap is no longer at the version of base.
//
// Change sends nothing if base is neither a Shield nor Sealed; if s has no presences but
// is not sealed; or if s removes the last presence from a base that is not armed (M9).
func (m *ConfigMap) Change(ctx context.Context, base ownerref.Record, s State) (ownerref.Record, error) {
	if err := s.checkChange(base); err != nil {
		return ownerref.Record{}, m.object.Name().Explain(apierror.Update, err)
	}
	cm, err := m.object.Update(ctx, s.written(base.Object, m.labels))
	if err != nil {
		return ownerref.Record{}, err
	}
	m.log.V(1).Info("the shield was changed", "phase", s.Stage.Phase, "armed", s.Armed, "presences", len(s.Presences))
	return ownerref.Recognize(cm), nil
}

func (s State) checkChange(base ownerref.Record) error {
	switch {
	case base.Kind != ownerref.Shield && base.Kind != ownerref.Sealed:
		return fmt.Errorf("the ConfigMap to change is not a shield: %w", what(base))
	case base.Object == nil:
		return errors.New("the version to replace was not read from this ConfigMap")
	case base.Kind == ownerref.Shield && len(s.Presences) == 0 && !base.Armed:
		return errors.New("only an armed shield can be sealed")
	default:
		return s.check()
	}
}

// Remove deletes the ConfigMap if it is still at the version of base, which must be
// Legacy, a Shield, Sealed or Bare. It fails with an error that wraps locks.ErrConflict if the
// ConfigMap was changed or deleted meanwhile. A ConfigMap that [ownerref.Record.Stays] is still
// there afterwards.
func (m *ConfigMap) Remove(ctx context.Context, base ownerref.Record) error {
	if base.Kind == ownerref.Absent || base.Kind == ownerref.Foreign && !base.Bare || base.Object == nil {
		return m.object.Name().Explain(apierror.Delete, fmt.Errorf("the ConfigMap to remove is not ours: %w", what(base)))
	}
	if err := m.object.Delete(ctx, base.UID, base.Object.ResourceVersion); err != nil {
		return err
	}
	if base.Stays() {
		base.Condemned = true
		m.log.Info(base.Lingering(), "was", base.Kind, "owner", base.Owner.Name)
		return nil
	}
	m.log.Info("the ConfigMap was removed", "was", base.Kind, "owner", base.Owner.Name)
	return nil
}

// what describes a record, for errors.
func what(r ownerref.Record) error {
	if r.Why != "" {
		return fmt.Errorf("it is %s: %s", r.Kind, r.Why)
	}
	return fmt.Errorf("it is %s", r.Kind)
}
