// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// Phase is how far a migration has come. Empty means that none is on record.
type Phase = record.Phase

// The phases, in the order in which a migration goes through them.
const (
	Legacy = record.PhaseLegacy // only the ConfigMap counts: candidates do not lead
	Dual   = record.PhaseDual   // the Lease counts, and a shield takes the ConfigMap's place
	Sealed = record.PhaseSealed // the same, but the shield has no owner: it stays when pods are deleted
	Clean  = record.PhaseClean  // the ConfigMap is gone permanently
)

// Config says which lock is migrated and how to reach it.
type Config struct {
	// Core, Coordination and Apps are clients of the core group, coordination.k8s.io and apps, all
	// v1, such as clientset.CoreV1().RESTClient(). Required.
	Core, Coordination, Apps rest.Interface
	// Namespace and Lock name the Lease. Required.
	Namespace, Lock string
	// LegacyName is the name of the ConfigMap. Empty means the name on the Lease, or else the
	// Lease's own.
	LegacyName string
	// Selector is a label selector for the operator's pods, old and new. Empty means the
	// selector of the Deployment of a candidate or of the legacy leader.
	Selector string
}

// Migration looks at the migration of one lock and takes its steps. It keeps nothing between
// calls; its methods are safe for concurrent use.
type Migration struct {
	config Config
	lease  rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease]
	lock   types.NamespacedName
	reader inspect.Reader
}

// New returns the migration that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*Migration, error) {
	m := &Migration{
		config: c, lock: types.NamespacedName{Namespace: c.Namespace, Name: c.Lock},
		reader: inspect.Reader{Core: c.Core, Coordination: c.Coordination, Explain: error.Error},
	}
	name := m.object(apierror.Leases, c.Lock)
	errs := []error{
		rawapi.Check(c.Coordination, name),
		rawapi.CheckClient(c.Core, apierror.ConfigMaps),
		rawapi.CheckClient(c.Apps, apierror.Deployments),
	}
	if c.LegacyName != "" {
		errs = append(errs, rawapi.Check(c.Core, m.object(apierror.ConfigMaps, c.LegacyName)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("migration of lock %q in namespace %q: %w", c.Lock, c.Namespace, err)
	}
	m.lease = rawapi.New[coordinationv1.Lease](c.Coordination, name)
	return m, nil
}

// object names an object in the lock's namespace.
func (m *Migration) object(resource apierror.Resource, name string) apierror.Object {
	return apierror.Object{Resource: resource, Namespace: m.config.Namespace, Name: name}
}
