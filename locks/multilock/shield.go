// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Mode says how a candidate takes part in a migration.
type Mode string

// The modes of a candidate.
const (
	// Auto follows the phase on record: it holds both locks, until that says
	// that the Lease alone counts.
	Auto Mode = "auto"
	// Dual always holds both, and does not campaign beyond that phase.
	Dual Mode = "dual"
)

func (m Mode) check() error {
	if m != Auto && m != Dual {
		return fmt.Errorf("the mode %q is neither %s nor %s", m, Auto, Dual)
	}
	return nil
}

// SettleDefault is M7's wait where the garbage collector may delete objects
// without comparing resourceVersions.
const SettleDefault = 5 * time.Second

// ShieldConfig says what a [Shield] is made of.
type ShieldConfig struct {
	// Lease is the Lease that decides among candidates. Client and
	// CloseConnections serve this lock alone.
	Lease lease.Config
	// Core and Apps talk to those API groups, v1. Required, but for Apps if
	// Selector is set.
	Core, Apps rest.Interface
	// LegacyName is the name of the legacy ConfigMap, in the Lease's
	// namespace. Empty means that of the Lease.
	LegacyName string
	Mode       Mode // empty means Auto
	// Candidate and Pod are who campaigns; Pod is required with its UID.
	Candidate locks.Candidate
	Pod       ownerref.Owner
	// Version of the program, for people.
	Version string
	// Selector, LegacyGrace: see [ownerref.CensusConfig].
	Selector    string
	LegacyGrace time.Duration
	// Settle is M7's wait. Zero asks the API server for its version, and means
	// none from 1.35 on and SettleDefault below. Negative means none.
	Settle time.Duration
	// Timing is the election's: its AttemptTimeout bounds each request.
	Timing election.Timing
}

// Shield is an locks.Lock on a Lease that takes the place of a
// leader-for-life ConfigMap. While the phase is dual, the ConfigMap is kept as
// a shield: owned by the presence objects of the candidates, it makes every
// legacy pod wait. It is an [locks.Guardian]: an elector lets work begin
// only when no legacy pod may lead, and ends it when one does.
//
// A Shield serves one elector at a time. Its methods are safe for concurrent
// use.
type Shield struct {
	*phased
	*attendance
	config    ShieldConfig
	configMap *ownerref.ConfigMap
	census    *ownerref.Census
	tenures   chan *tenure
}

var _ locks.Guardian = (*Shield)(nil)

// NewShield returns the lock that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func NewShield(c ShieldConfig) (*Shield, error) {
	if c.LegacyName == "" {
		c.LegacyName = c.Lease.Name
	}
	if c.Mode == "" {
		c.Mode = Auto
	}
	c.Timing = c.Timing.WithDefaults()
	c.Pod.Kind = ownerref.Pod
	s := &Shield{config: c, tenures: make(chan *tenure)}
	errs := []error{s.check(), c.Timing.Validate()}
	var err error
	s.phased, err = newPhased(c.Lease, record.Legacy{Resource: record.ConfigMaps, Name: c.LegacyName})
	errs = append(errs, err)
	s.configMap, err = ownerref.New(ownerref.Config{Core: c.Core, Namespace: c.Lease.Namespace, Name: c.LegacyName, Logger: c.Lease.Logger})
	errs = append(errs, err)
	s.census, err = ownerref.NewCensus(ownerref.CensusConfig{
		Core: c.Core, Apps: c.Apps, Coordination: c.Lease.Client,
		Namespace: c.Lease.Namespace, Lock: c.Lease.Name, Self: c.Pod,
		Selector: c.Selector, LegacyGrace: c.LegacyGrace, Logger: c.Lease.Logger,
	})
	if s.phased != nil {
		s.attendance = newAttendance(c.participant(), s.news)
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("shield of the ConfigMap %s/%s: %w", c.Lease.Namespace, c.LegacyName, err)
	}
	return s, nil
}

func (s *Shield) check() error {
	var errs []error
	if s.config.Pod.Name == "" || s.config.Pod.UID == "" {
		errs = append(errs, fmt.Errorf("the own pod %q is not known by name and UID: set POD_NAME and POD_UID by the downward API", s.config.Pod))
	}
	return errors.Join(append(errs, s.config.Mode.check())...)
}

// Attend keeps the own presence, and the shield, as locks.Guardian says. It
// returns ErrPodGone when the own pod does not exist any more.
func (s *Shield) Attend(ctx context.Context, clear func(locks.Permission)) error {
	return newKeeper(s, clear).run(ctx)
}

// tenure is one term, as the keeper has to adopt it.
type tenure struct {
	ctx   context.Context
	term  locks.Term
	clear func(locks.Permission)
	done  chan error
}

// Adopt makes sure that no legacy pod may lead, and watches that none does.
func (s *Shield) Adopt(ctx context.Context, term locks.Term, clear func(locks.Permission)) error {
	t := &tenure{ctx: ctx, term: term, clear: clear, done: make(chan error, 1)}
	select {
	case s.tenures <- t:
		return <-t.done
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Shield) log() logr.Logger { return s.config.Lease.Logger }

func (c ShieldConfig) participant() participant {
	return participant{c.Lease, c.Core, c.Mode, c.Candidate, c.Pod, c.Version, c.Timing, true}
}
