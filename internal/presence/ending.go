// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// Why a candidate that is about to end comes last, in the words of its presence.
const (
	podEnds   = "its pod is being deleted"
	runsEnded = "it no longer campaigns"
)

var errPodEnds = errors.New(podEnds)

// watchPod has the presence say that this candidate is about to end, once its pod is being deleted. A
// candidate learns of that before the process gets its signal, if it may watch its pod, and otherwise
// only by the signal.
func (k *Keeper) watchPod(ctx context.Context) {
	pod := k.config.Says.Pod.object(k.config.Core, k.config.Namespace)
	for ctx.Err() == nil {
		err := pod.Watch(ctx, 0, func(_ context.Context, e rawapi.Event[*corev1.Pod]) error {
			if e.Type != watch.Bookmark && e.Object.UID == k.config.Says.Pod.UID && e.Object.DeletionTimestamp != nil {
				return errPodEnds
			}
			return nil
		})
		switch {
		case errors.Is(err, errPodEnds):
			k.set(func(o *Object) { o.Unhealthy, k.ends = podEnds, true })
			return
		case errors.Is(err, locks.ErrForbidden):
			return
		}
		_ = sleep.For(ctx, spread(10*time.Second))
	}
}

// leave ends this candidate's presence when its candidacy ends in good order. One that no pod owns is
// removed, and that of a pod says that its candidate has ended. That is worth one short try.
func (k *Keeper) leave(ctx context.Context) {
	k.mu.Lock()
	own, kept := k.own, k.err == nil
	k.mu.Unlock()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.config.Timing.AttemptTimeout)
	defer cancel()
	switch {
	case !kept || own.UID == "":
	case own.Pod == (Pod{}):
		k.remove(limited, own, "")
	default:
		own.Unhealthy = runsEnded
		_, _ = Ensure(limited, k.config.Client, k.config.Namespace, own, k.config.Labels, func(context.Context) error { return ErrPodGone })
	}
}
