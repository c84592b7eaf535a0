// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	guarding "github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"

// onLease are candidates for a Lease, through client-go.
var onLease = &population{
	name: "lease", seats: 3, steps: 100, mixes: ourMixes, faults: append(append([]fault{garble}, onCaches...), inMemory.faults...),
	cluster: func(w *world) cluster { return newAPI(w) },
}

// mixed are candidates for a Lease and client-go's own.
var mixed = &population{
	name: "mixed", seats: 4, steps: 100, mixes: sharedMixes, faults: onLease.faults,
	cluster: func(w *world) cluster { return &withPeers{newAPI(w)} },
	margin:  30 * time.Second, // client-go's polls, and its leases that nobody released
}

// api is a cluster with an API server.
type api struct {
	world  *world
	server *apitest.Server // the store
	step   int             // of the phase
}

func newAPI(w *world) *api {
	a := &api{world: w, server: apitest.NewServer(), step: 1}
	w.fronts = newFronts(w, a.server)
	a.server.Stored = func(r *http.Request, path string, _, after apitest.Object) {
		if path == leasePath {
			w.judge.wrote(senderOf(r), recordOf(after))
		}
	}
	return a
}

// recordOf is the record on a Lease.
func recordOf(o apitest.Object) *locks.Record {
	if o == nil {
		return nil
	}
	r := record.Read(leaseOf(o))
	return &r
}

func leaseOf(o apitest.Object) *coordinationv1.Lease {
	l := &coordinationv1.Lease{}
	must(json.Unmarshal(apitest.Marshal(o), l))
	return l
}

// withRecord is a Lease with another record on it.
func withRecord(o apitest.Object, r locks.Record) (changed apitest.Object) {
	must(json.Unmarshal(apitest.Marshal(record.Write(leaseOf(o), r)), &changed))
	return changed
}

func (a *api) wire(p *process) *wire {
	w := newWire(p)
	p.link = w
	return w
}

func (a *api) join(p *process) {
	w := a.wire(p)
	coordination, core, t := w.client(coordinationv1.SchemeGroupVersion), w.client(corev1.SchemeGroupVersion), p.timing.WithDefaults()
	keeper := presence.NewKeeper(presence.KeeperConfig{
		Client: coordination, Core: core, Namespace: "ns", Timing: t,
		Says: presence.Object{Lock: "lock", Identity: p.name, Mode: presence.Alone},
	})
	lock, err := guarding.NewLease(lease.Config{Client: coordination, Namespace: "ns", Name: "lock"}, core, t, keeper)
	must(err)
	p.elect(lock)
}

// harm does a step to the Lease.
func (a *api) harm(s step) {
	switch s.fault {
	case remove, hide:
		a.server.Delete(leasePath)
	case ask:
		to := a.world.successor(s)
		a.change(leasePath, func(o apitest.Object) {
			holder, _ := spec(o)["holderIdentity"].(string)
			annotate(o, record.AnnotationRequest, requests.FormatHandover(requests.Handover{Holder: holder, Successor: to}))
		})
	case empties:
		a.change(leasePath, func(o apitest.Object) { annotate(o, record.AnnotationEvacuated, zoneOf(s)) })
	case empty:
		a.change(leasePath, func(o apitest.Object) {
			if spec(o)["holderIdentity"] = ""; a.world.replaces(s) {
				replaced(o)
			}
		})
	case forge:
		a.change(leasePath, func(o apitest.Object) {
			spec(o)["holderIdentity"], spec(o)["leaseDurationSeconds"] = "", 1
			spec(o)["renewTime"] = metav1.NowMicro()
		})
	case bare:
		a.change(leasePath, func(o apitest.Object) {
			for _, field := range []string{"leaseDurationSeconds", "renewTime", "acquireTime"} {
				delete(spec(o), field)
			}
		})
	case garble:
		a.change(leasePath, func(o apitest.Object) {
			for _, field := range []string{"renewTime", "acquireTime", "leaseTransitions"} {
				delete(spec(o), field)
			}
			// A process that finds no duration on an emptied record, and never saw
			// one, goes by its own.
			if lasts, _ := spec(o)["leaseDurationSeconds"].(float64); time.Duration(lasts)*time.Second <= a.world.mix.least() {
				delete(spec(o), "leaseDurationSeconds")
			}
		})
	case putBack:
		if earlier := a.world.earlier(); earlier != nil {
			a.change(leasePath, func(o apitest.Object) { maps.Copy(o, withRecord(o, *earlier)) })
		}
	case compact:
		a.server.Compact()
	}
}

// setPhase sets a phase, as the kubectl plugin does, on the Lease or on one made anew.
func (a *api) setPhase(to string, anew bool) {
	a.step++
	a.world.judge.inPhase(to, a.step)
	step := strconv.Itoa(a.step)
	note := func(o apitest.Object) {
		annotate(o, "zonelect.dev/phase", to)
		annotate(o, "zonelect.dev/phase-step", step)
	}
	if !a.change(leasePath, note) && anew {
		meta := apitest.Object{"name": "lock", "namespace": "ns", "uid": "uid-anew"}
		o := apitest.Object{"metadata": meta, "spec": apitest.Object{}}
		note(o)
		a.server.Put(leasePath, o)
	}
}

// dual sets that phase for good, and ends watches that are silent where nothing
// happens. It makes the Lease if there is none, because in phase legacy nobody else does.
func (a *api) dual() {
	a.setPhase("dual", false)
	time.AfterFunc(time.Second, a.reset)
	time.AfterFunc(a.world.mix.lease(), func() { a.setPhase("dual", true) })
}

// reset breaks all watches.
func (a *api) reset() {
	for _, p := range a.world.current() {
		if w, is := p.link.(*wire); is {
			w.reset()
		}
	}
}

func (a *api) exists(path string) bool {
	a.server.Mu.Lock()
	defer a.server.Mu.Unlock()
	return a.server.Objects[path] != nil
}

// change changes an object, if it exists.
func (a *api) change(path string, do func(apitest.Object)) (exists bool) {
	if exists = a.exists(path); exists {
		a.server.Change(path, do)
	}
	return exists
}

func annotate(o apitest.Object, key, value string) {
	meta := o["metadata"].(apitest.Object)
	a, _ := meta["annotations"].(apitest.Object)
	if a == nil {
		a = apitest.Object{}
		meta["annotations"] = a
	}
	a[key] = value
}

// replaced removes from a Lease what a manifest without a spec lacks, except what belongs to a
// migration.
func replaced(o apitest.Object) {
	o["spec"] = apitest.Object{}
	a, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	maps.DeleteFunc(a, func(key string, _ any) bool {
		return key != record.AnnotationPhase && key != record.AnnotationPhaseStep && key != record.AnnotationLegacy
	})
}

func spec(o apitest.Object) apitest.Object { return o["spec"].(apitest.Object) }

func (a *api) mend() { a.endless() }

// endless gives a duration to each Lease that has or had a holder and does not say how long it leads, and again
// to those that nobody holds, because candidates may have been blind to that they were emptied before, as
// a person does: no candidate that never saw a duration takes it.
func (a *api) endless() {
	if a.world.over {
		return
	}
	var all []string
	unsaid := a.world.judge.isUnsaid()
	a.server.Mu.Lock()
	for path, o := range a.server.Objects {
		spec, is := o["spec"].(apitest.Object)
		holder, _ := spec["holderIdentity"].(string)
		lasts, _ := spec["leaseDurationSeconds"].(float64)
		noted, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		if is && (holder != "" || noted[record.AnnotationToken] != nil || unsaid) && lasts == 0 {
			all = append(all, path)
		}
	}
	a.server.Mu.Unlock()
	slices.Sort(all)
	say := func(holders bool) {
		for _, path := range all {
			a.change(path, func(o apitest.Object) {
				if holder, _ := spec(o)["holderIdentity"].(string); holders || holder == "" {
					spec(o)["leaseDurationSeconds"], spec(o)["renewTime"] = a.world.mix.lease().Seconds(), metav1.NowMicro()
				}
			})
		}
	}
	say(true)
	if len(all) > 0 {
		time.AfterFunc(time.Second, a.reset) // a watch that is silent ends after ten minutes
		time.AfterFunc(2*time.Second, func() { say(false) })
	}
}

// withPeers has client-go's candidates in every second seat.
type withPeers struct{ *api }

func (c *withPeers) join(p *process) {
	if p.seat%2 == 0 {
		c.api.join(p)
		return
	}
	p.ours, p.kind = false, "client-go"
	p.keepTo(c.world.mix.others())
	client := c.wire(p).clientset(p.meant.RenewDeadline / 2) // as controller-runtime sets it
	p.run = func(ctx context.Context) {
		ctx = logr.NewContext(ctx, logr.Discard())
		var works sync.WaitGroup
		for ctx.Err() == nil {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "lock"},
					Client:     client.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: p.name},
				},
				LeaseDuration: p.meant.LeaseDuration, RenewDeadline: p.meant.RenewDeadline, RetryPeriod: p.meant.RenewInterval,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) { works.Go(func() { _ = p.work(ctx, election.Term{}) }) },
					OnStoppedLeading: func() {},
				},
			})
			works.Wait() // a real program exits, and is restarted
		}
	}
}

// refusals are how the API refuses requests.
var refusals = []error{
	refusal(http.StatusTooManyRequests), refusal(http.StatusServiceUnavailable), refusal(http.StatusInternalServerError),
	refusal(http.StatusGatewayTimeout), errors.New("connection refused"),
}
