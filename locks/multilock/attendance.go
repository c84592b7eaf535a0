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

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// attendance keeps the own presence object, in a goroutine of its own.
type attendance struct {
	shield *Shield
	exists chan ownerref.Owner // gets the presence whenever it was made sure of
	gone   chan error          // gets ErrPodGone
	again  chan struct{}       // what it says has changed

	mu      sync.Mutex
	waiting string
	err     error
}

func newAttendance(s *Shield) *attendance {
	return &attendance{shield: s, exists: make(chan ownerref.Owner), gone: make(chan error, 1), again: make(chan struct{}, 1)}
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
	interval := a.shield.config.Timing.RenewInterval
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
		a.shield.log().Error(err, "cannot keep the own presence object")
		signal(a.shield.news)
	}
}

// attend makes sure of the presence and watches it. It returns nil when that
// is to be done again.
func (a *attendance) attend(ctx context.Context) error {
	a.mu.Lock()
	waiting := a.waiting
	a.mu.Unlock()
	c := a.shield.config
	limited, cancel := context.WithTimeout(ctx, 2*c.Timing.AttemptTimeout)
	o, err := presence.Ensure(limited, c.Lease.Client, c.Lease.Namespace, a.shield.presence(waiting))
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
			a.shield.log().Info("the own presence object was deleted: making it anew", "name", o.Name)
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
	c := a.shield.config
	object := rawapi.New[coordinationv1.Lease](c.Lease.Client, apierror.Object{
		Resource: apierror.Leases, Namespace: c.Lease.Namespace, Name: o.Name,
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
	c := a.shield.config
	ctx, cancel := context.WithTimeout(ctx, c.Timing.AttemptTimeout)
	defer cancel()
	object := rawapi.New[corev1.Pod](c.Core, apierror.Object{
		Resource: apierror.Pods, Namespace: c.Lease.Namespace, Name: c.Pod.Name,
	})
	pod, err := object.Get(ctx)
	switch {
	case object.Name().Absent(err):
		return fmt.Errorf("%w: %s", ErrPodGone, c.Pod)
	case err != nil:
		return fmt.Errorf("look whether the own pod still exists: %w", err)
	case pod.UID != c.Pod.UID:
		return fmt.Errorf("%w: another pod has the name of %s now", ErrPodGone, c.Pod)
	}
	return nil
}

// list returns the presences of all candidates.
func (a *attendance) list(ctx context.Context) ([]ownerref.Owner, error) {
	c := a.shield.config
	all, err := presence.List(ctx, c.Lease.Client, c.Lease.Namespace, c.Lease.Name)
	var owners []ownerref.Owner
	for _, o := range all {
		owners = append(owners, ownerOf(o))
	}
	return owners, err
}

func ownerOf(o presence.Object) ownerref.Owner {
	return ownerref.Owner{Kind: ownerref.Lease, Name: o.Name, UID: o.UID}
}
