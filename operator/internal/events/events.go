// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events posts Kubernetes Events on the Leases of elections.
package events

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/environment"
)

// Post posts Kubernetes Events on the Leases of elections, with a client of its own, until
// transitions is closed, in a goroutine of posting. What client-go logs of that goes to log.
func Post(cfg *rest.Config, log logr.Logger, transitions <-chan election.Transition, posting *sync.WaitGroup) error {
	cfg = environment.Named(cfg)
	client, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("preparing to post Events: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(logr.NewContext(context.Background(), log)))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "zonelect"}).WithLogger(log)
	posting.Go(func() {
		Record(recorder, transitions)
		broadcaster.Shutdown()
	})
	return nil
}

// Record posts a Kubernetes Event on the Lease for each transition of an elector whose
// lock is on a Lease, until transitions is closed: give it the channel of
// Elector.Subscribe. The end of a lost term is of type Warning, an end in good order of type
// Normal. The recorder's client must not be the election's: an Event must never delay a
// renewal. Posting needs the verbs create and patch on events, and is best effort.
func Record(recorder record.EventRecorder, transitions <-chan election.Transition) {
	for t := range transitions {
		kind, reason, text := wording(t)
		if reason == "" {
			continue
		}
		lock := t.Status.Lock
		recorder.Eventf(&corev1.ObjectReference{
			APIVersion: "coordination.k8s.io/v1",
			Kind:       "Lease",
			Namespace:  lock.Namespace,
			Name:       lock.Name,
			UID:        types.UID(t.Status.LockUID),
		}, kind, reason, "%s %s", t.Status.Identity, text)
	}
}

// wording returns a transition as the words of an Event. Without a reason there is no Event.
func wording(t election.Transition) (kind, reason, text string) {
	switch t.Change {
	case status.ChangeLeading:
		text = "became leader (" + string(t.Status.Term.Cause) + ")"
		if t.Status.Term.Previous != "" {
			text += " after " + t.Status.Term.Previous
		}
		return corev1.EventTypeNormal, "LeaderElection", text
	case status.ChangeStopping:
		kind = corev1.EventTypeNormal
		if errors.Is(t.Cause, election.ErrLost) { // only that is a reason to look: the others end in good order
			kind = corev1.EventTypeWarning
		}
		return kind, "LeaderStopping", "stops leading: " + t.Cause.Error()
	case status.ChangeReleased:
		return corev1.EventTypeNormal, "LeaderReleased", "released the lock"
	case status.ChangeHealth:
		switch s := t.Status; {
		case s.State == status.StateFollower || s.State == status.StateIdle: // nothing to say about the lock
		case s.Unhealthy == nil:
			return corev1.EventTypeNormal, "LeaderHealthy", "is healthy again"
		default:
			return corev1.EventTypeWarning, "LeaderUnhealthy", "is unhealthy: " + s.Unhealthy.Error()
		}
	case status.ChangeRefused:
		return corev1.EventTypeWarning, "LeaderHandoverRefused", "goes on leading: " + t.Cause.Error()
	case status.ChangeStaying:
		if t.Status.Staying != "" {
			return corev1.EventTypeWarning, "LeaderStays", "goes on leading: " + t.Status.Staying
		}
	case status.ChangeOverrun:
		if errors.Is(t.Cause, election.ErrUnfinished) {
			return corev1.EventTypeWarning, "LeaderOverrun", "has stopped, and part of its work may go on: the lease runs out"
		}
		return corev1.EventTypeWarning, "LeaderOverrun", "has not stopped in time: the lease runs out"
	}
	return "", "", ""
}
