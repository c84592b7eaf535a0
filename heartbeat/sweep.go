// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// kept is a lock that names this process's heartbeat.
type kept struct {
	asks      int       // renewals and writes under way
	asked     time.Time // when the last one ended, or the lock was first seen
	detaching bool
}

// keep returns what is known of a lock that the heartbeat keeps. The caller holds mu.
func (h *heart) keep(name string) *kept {
	k := h.kept[name]
	if k == nil {
		k = &kept{asked: time.Now()}
		h.kept[name] = k
	}
	return k
}

// writing notes that an elector of this process writes a lock, until done is called. As long
// as the write waits for its answer, nobody asks for a heartbeat.
func (h *heart) writing(name string) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.keep(name)
	k.asks++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		k.asks--
		k.asked = time.Now()
	}
}

// wrote notes that an elector of this process wrote a lock, which names the heartbeat to.
func (h *heart) wrote(name string, to attachment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to == (attachment{}) {
		if k := h.kept[name]; k != nil && k.asks <= 1 { // that one is the write
			delete(h.kept, name)
		}
		return
	}
	h.keep(name).asked = time.Now()
}

// idle is how long a lock may name the heartbeat without an elector that renews it: longer
// than any elector pauses that leads.
func (h *heart) idle() time.Duration { return 3 * h.config.timing.RenewInterval }

// sweep detaches the locks that name this heartbeat although no elector of this process
// renews them (L6): locks that an elector gave up, has not won, or has forgotten. They would
// never run out. A lock without a holder runs out anyway, and writing it might look like a
// release. The caller holds mu.
func (h *heart) sweep(heart *coordinationv1.Lease) {
	e, seen := epochOf(heart), map[string]bool{}
	for _, lease := range h.config.view.Leases() {
		a, attached := attachmentOf(lease)
		if !attached || a.name != heart.Name || a.uid != heart.UID || a.epoch != e || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			continue
		}
		if _, is := releasedAt(heart, e, lease.Name, record.Number(lease.ResourceVersion)); is {
			continue
		}
		seen[lease.Name] = true
		k := h.keep(lease.Name)
		if k.asks == 0 && !k.detaching && time.Since(k.asked) > h.idle() {
			k.detaching = true
			h.task(func(ctx context.Context) { h.detach(ctx, lease, a, k) })
		}
	}
	for name, k := range h.kept {
		if !seen[name] && k.asks == 0 && !k.detaching && time.Since(k.asked) > h.idle() {
			delete(h.kept, name)
		}
	}
}

// detach writes a lock as it is, without the heartbeat, so that its lease runs out. If that
// fails, the next sweep tries again.
func (h *heart) detach(ctx context.Context, lease *coordinationv1.Lease, a attachment, k *kept) {
	ctx, cancel := context.WithTimeout(ctx, h.config.timing.RenewDeadline)
	defer cancel()
	leave, err := h.config.writes.enter(ctx)
	if err == nil {
		_, err = h.object(lease).Update(ctx, detached(lease, a, time.Now()))
		leave()
	}
	h.mu.Lock()
	k.detaching = false
	k.asked = time.Now()
	h.mu.Unlock()
	log := h.logOf(lease)
	if err != nil {
		log.Info("no elector of this process renews a lock that its heartbeat keeps, and it cannot be detached yet", "cause", err.Error())
		return
	}
	log.Info("no elector of this process renews a lock that its heartbeat kept: its lease runs out now")
}

// object is the Lease of a lock.
func (h *heart) object(lease *coordinationv1.Lease) rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease] {
	return rawapi.New[coordinationv1.Lease](h.config.lease.Client, apierror.Object{Resource: apierror.Leases, Namespace: lease.Namespace, Name: lease.Name})
}

func (h *heart) logOf(lease *coordinationv1.Lease) logr.Logger {
	return h.config.lease.Logger.WithValues("lock", types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}.String())
}
