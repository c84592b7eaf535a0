// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// Config says which ConfigMap is the legacy lock and how to reach it.
type Config struct {
	// Core talks to the core group, v1. Required.
	Core rest.Interface
	// Namespace and Name of the ConfigMap. Required. It need not exist.
	Namespace, Name string
	// Logger gets warnings. The zero value drops them.
	Logger logr.Logger
}

// ConfigMap is the object in the legacy lock's place. It keeps nothing of what
// it read. All methods are safe for concurrent use.
type ConfigMap struct {
	config Config
}

var errUnwritten = errors.New("not written yet")

// New returns the ConfigMap that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*ConfigMap, error) { return &ConfigMap{c}, nil }

// Read returns what stands there now. It is linearizable. That there is none
// is no error but an Absent record.
func (m *ConfigMap) Read(ctx context.Context) (Record, error) { return Record{}, errUnwritten }

// Watch passes what happens to the ConfigMap after the version from to each,
// in order, and blocks. Of a bookmark only the record's Number is set.
func (m *ConfigMap) Watch(ctx context.Context, from uint64, each func(ctx context.Context, r Record, bookmark bool) error) error {
	return errUnwritten
}

// PutUp creates the shield, unarmed.
func (m *ConfigMap) PutUp(ctx context.Context, s ShieldState) (Record, error) {
	return Record{}, errUnwritten
}

// Change puts s in the place of what a Shield or Sealed one says, if it still
// is at the version of base.
func (m *ConfigMap) Change(ctx context.Context, base Record, s ShieldState) (Record, error) {
	return Record{}, errUnwritten
}

// Remove deletes the ConfigMap if it still is at the version of base.
func (m *ConfigMap) Remove(ctx context.Context, base Record) error { return errUnwritten }
