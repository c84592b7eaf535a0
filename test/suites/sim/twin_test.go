// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
)

// twins are candidates that hold a Lease and client-go's old record on a
// ConfigMap, and electors of that time.
var twins = &population{
	name: "twin", seats: 4, steps: 100, mixes: pastMixes, faults: onLease.faults,
	cluster: newTwins,
	margin:  time.Minute, // electors that poll, leases on both sides, and half writes
	coarse:  true,
}

// annotated is a cluster with a record on a ConfigMap, too.
type annotated struct {
	*api
	kind legacyelectors.Kind
	all  bool // every seat has a candidate
}

func newTwins(w *world) cluster {
	c := &annotated{api: newAPI(w), kind: legacyelectors.ConfigMap}
	if w.seed%2 == 0 {
		c.kind = legacyelectors.MultiConfigMap
	}
	w.judge.log("the electors of the past are of kind %s", c.kind)
	leases := c.server.Stored
	c.server.Stored = func(r *http.Request, path string, before, after apitest.Object) {
		leases(r, path, before, after)
		if path == mapPath {
			w.judge.wroteLegacy(senderOf(r), annotationOf(after))
		}
	}
	return c
}

// annotationOf is the record on a ConfigMap.
func annotationOf(o apitest.Object) *locks.Record {
	if o == nil {
		return nil
	}
	a, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	text, _ := a[annotation.AnnotationRecord].(string)
	var r struct {
		HolderIdentity         string
		LeaseDurationSeconds   int
		AcquireTime, RenewTime time.Time
	}
	if text != "" {
		must(json.Unmarshal([]byte(text), &r))
	}
	if renewed, ok := a[annotation.AnnotationRenewed].(string); ok { // ours write it to the microsecond
		if t, err := time.Parse(time.RFC3339Nano, renewed); err == nil && t.Unix() == r.RenewTime.Unix() {
			r.RenewTime = t
		}
	}
	return &locks.Record{
		Holder: r.HolderIdentity, LeaseDuration: time.Duration(r.LeaseDurationSeconds) * time.Second,
		AcquireTime: r.AcquireTime, RenewTime: r.RenewTime,
	}
}

func (c *annotated) join(p *process) {
	wire := c.wire(p)
	if p.seat%2 == 1 && !c.all {
		c.past(p, wire)
		return
	}
	lock, err := twin.New(twin.Config{
		Config: multilock.Config{
			Lease:     lease.Config{Client: wire.client(coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
			Core:      wire.client(corev1.SchemeGroupVersion),
			Candidate: locks.Candidate{Identity: p.name},
			Timing:    p.timing,
		},
		Kind: annotation.ConfigMaps,
	})
	must(err)
	p.elect(lock)
}

func (c *annotated) past(p *process, wire *wire) {
	p.ours, p.kind = false, string(c.kind)
	p.keepTo(c.world.mix.others())
	timing := p.meant
	p.heeds = timing.LeaseDuration
	lock, err := legacyelectors.NewLock(wire.clientset(timing.RenewDeadline/2), c.kind, "ns", "lock", p.name)
	must(err)
	elector := &legacyelectors.Elector{
		Lock: lock, Lease: timing.LeaseDuration, Deadline: timing.RenewDeadline, Retry: timing.RenewInterval,
		Release: p.dice.IntN(2) == 0, Print: func(events.Event) {},
		Work: func(ctx context.Context, _ uint64) { _ = p.work(ctx, election.Term{}) },
	}
	p.run = elector.Run
}

func (c *annotated) harm(s step) {
	switch {
	case s.fault == remove && s.degree/time.Millisecond%2 == 0:
		c.server.Delete(mapPath)
		return
	case s.fault == phase:
		c.setPhase([]string{"clean", "dual", "clean", "dual", "legacy", "dual"}[int(s.degree/time.Millisecond)%6], false)
	}
	c.api.harm(s)
}

// inPhases are candidates that hold a Lease and a ConfigMap, or the Lease alone,
// depending on the phase, when all legacy electors are gone.
var inPhases = &population{
	name: "phases", seats: 3, steps: 100, mixes: ourMixes[:4], faults: append([]fault{phase, phase, phase, phase}, onLease.faults...),
	cluster: func(w *world) cluster {
		c := newTwins(w).(*annotated)
		c.all, w.judge.tidies = true, true
		return c
	},
	margin: time.Minute,
	coarse: true,
}

// mend sets the phase to dual, because in phase legacy nobody campaigns.
func (c *annotated) mend() {
	if c.world.over {
		return
	}
	c.endless()
	if c.all {
		c.dual()
	}
}
