// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// participant is any candidate that takes part in a migration.
type participant struct {
	lease     lease.Config
	core      rest.Interface
	mode      Mode
	candidate election.Candidate
	pod       ownerref.Owner
	version   string
	timing    election.Timing
}

// presence is what the presence object says.
func (p participant) presence(waiting string) presence.Object {
	return presence.Object{
		Lock: p.lease.Name, Pod: presence.Pod{Name: p.pod.Name, UID: p.pod.UID},
		Identity: p.candidate.Identity, Zone: p.candidate.Zone, Node: p.candidate.Node,
		Version: p.version, Mode: string(p.mode), Waiting: waiting,
	}
}

// attendance keeps the own presence object, in a goroutine of its own.
type attendance struct {
	participant
	news   chan struct{}       // gets a word when there is a problem
	exists chan ownerref.Owner // gets the presence whenever it was made sure of
	gone   chan error          // gets ErrPodGone
	again  chan struct{}       // what it says has changed

	mu      sync.Mutex
	waiting string
	err     error
}

func newAttendance(p participant, news chan struct{}) *attendance {
	return &attendance{participant: p, news: news, exists: make(chan ownerref.Owner), gone: make(chan error, 1), again: make(chan struct{}, 1)}
}

// say has the presence say what this candidate waits for.
func (a *attendance) say(waiting string) {
	a.mu.Lock()
	a.waiting = waiting
	a.mu.Unlock()
	signal(a.again)
}

// problem is why there is no presence yet; nil if there is one.
func (a *attendance) problem() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// keep keeps the presence until ctx ends or the own pod is gone.
func (a *attendance) keep(ctx context.Context) {
	interval := a.timing.RenewInterval
	delays := retries(interval/10, 5*interval)
	for ctx.Err() == nil {
		err := a.attend(ctx)
		if errors.Is(err, ErrPodGone) {
			a.gone <- err
			return
		}
		a.note(err)
		if err == nil {
			delays.Reset()
			continue
		}
		select {
		case <-time.After(delays.NextBackOff()):
		case <-ctx.Done():
		}
	}
}

// note records why there is no presence, or that there is one.
func (a *attendance) note(err error) {
	a.mu.Lock()
	before := a.err
	a.err = err
	a.mu.Unlock()
	if err != nil && (before == nil || err.Error() != before.Error()) {
		a.lease.Logger.Error(err, "cannot keep the own presence object")
		signal(a.news)
	}
}

// attend makes sure of the presence and watches it. It returns nil when that
// is to be done again.
func (a *attendance) attend(ctx context.Context) error {
	a.mu.Lock()
	waiting := a.waiting
	a.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, 2*a.timing.AttemptTimeout)
	o, err := presence.Ensure(limited, a.lease.Client, a.lease.Namespace, a.presence(waiting))
	cancel()
	if err != nil {
		return fmt.Errorf("keep the own presence object: %w", err)
	}
	a.note(nil)
	select {
	case a.exists <- ownerOf(o):
	case <-ctx.Done():
		return nil
	}
	deleted, err := a.watch(ctx, o)
	if err == nil && deleted {
		if err = a.checkPod(ctx); err == nil {
			a.lease.Logger.Info("the own presence object was deleted: making it anew", "name", o.Name)
		}
	}
	return err
}

var errDeleted = errors.New("the presence object was deleted")

// watch watches the presence until it is deleted or is to say something else,
// or the watch ends.
func (a *attendance) watch(ctx context.Context, o presence.Object) (deleted bool, err error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-a.again:
			cancel()
		case <-watching.Done():
		}
	}()
	object := rawapi.New[coordinationv1.Lease](a.lease.Client, apierror.Object{
		Resource: apierror.Leases, Namespace: a.lease.Namespace, Name: o.Name,
	})
	err = object.Watch(watching, 0, func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
		if e.Type == kubewatch.Deleted {
			return errDeleted
		}
		return nil
	})
	switch {
	case errors.Is(err, errDeleted):
		return true, nil
	case watching.Err() != nil:
		return false, nil
	}
	return false, err
}

// checkPod returns ErrPodGone if the own pod does not exist any more.
func (a *attendance) checkPod(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.timing.AttemptTimeout)
	defer cancel()
	object := rawapi.New[corev1.Pod](a.core, apierror.Object{
		Resource: apierror.Pods, Namespace: a.lease.Namespace, Name: a.pod.Name,
	})
	pod, err := object.Get(ctx)
	switch {
	case object.Name().Absent(err):
		return fmt.Errorf("%w: %s", ErrPodGone, a.pod)
	case err != nil:
		return fmt.Errorf("look whether the own pod still exists: %w", err)
	case pod.UID != a.pod.UID:
		return fmt.Errorf("%w: another pod has the name of %s now", ErrPodGone, a.pod)
	}
	return nil
}

// list returns the presences of all candidates.
func (a *attendance) list(ctx context.Context) ([]ownerref.Owner, error) {
	all, err := presence.List(ctx, a.lease.Client, a.lease.Namespace, a.lease.Name)
	var owners []ownerref.Owner
	for _, o := range all {
		owners = append(owners, ownerOf(o))
	}
	return owners, err
}

func ownerOf(o presence.Object) ownerref.Owner {
	return ownerref.Owner{Kind: ownerref.Lease, Name: o.Name, UID: o.UID}
}
