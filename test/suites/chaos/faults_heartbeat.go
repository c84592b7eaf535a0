// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/zonelect/zonelect/election"
	leases "github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
)

// heartbeatFaults are what people and programs do to the Leases of processes that keep
// many locks by one heartbeat.
var heartbeatFaults = []fault{
	{
		name: "heartbeat-deleted", about: "heartbeat's Lease deleted", only: onLocks,
		lasts: aMoment, asks: true, inject: heartbeatDeleted, early: true, hands: true, promise: anotherEpoch,
	},
	{
		name: "heartbeat-garbled", about: "heartbeat's Lease edited by hand", only: onLocks,
		lasts: aTakeover, asks: true, inject: heartbeatGarbled, early: true, hands: true, promise: anotherEpoch, chosen: byHeartbeatEdit,
	},
	{
		name: "heartbeat-put-back", about: "heartbeat's Lease emptied or deleted, and put back", only: onLocks,
		lasts: aTakeover, asks: true, inject: heartbeatPutBack, early: true, hands: true, promise: takeover,
	},
	{
		name: "attachment-garbled", about: "a lock's note of its heartbeat edited by hand", only: onLocks,
		lasts: aTakeover, asks: true, inject: attachmentGarbled, early: true, hands: true, promise: anotherEpoch,
	},
}

// anotherEpoch: the leader loses all its terms (L5), begins another epoch, and takes
// its own locks back, as after an outage. What is put back is waited for as the record
// of somebody else (L4).
func anotherEpoch(t election.Timing, _ time.Duration) promise {
	return promise{gap: recovery(t) + slack}
}

// byHeartbeatEdit is what holds for one of the edits. Where the Lease names another
// holder, there is no heartbeat until that one's lease has run out. Each lock is renewed
// by itself, which may be more than a slow server can do.
func byHeartbeatEdit(dice *rand.Rand) pledge {
	if _, edit := heartbeatEdit(dice); edit == namesAnother {
		return takeover
	}
	return anotherEpoch
}

// heartbeatEdit draws whether the Leases of all processes are edited, and how.
func heartbeatEdit(dice *rand.Rand) (everybodys bool, edit int) {
	return ofAll(dice), dice.IntN(len(leaseEdits) + len(heartbeatEdits))
}

// ofAll draws whether the Leases of all heartbeats are hit, and not the leader's alone.
func ofAll(dice *rand.Rand) bool { return dice.IntN(3) == 0 }

// some draws which locks a fault hits: one of them, a few, or all.
func (g *group) some(dice *rand.Rand) []string {
	all := g.parts()
	if g.locks == 0 {
		return all
	}
	n := []int{1, min(7, len(all)), len(all)}[dice.IntN(3)]
	var some []string
	for _, i := range dice.Perm(len(all))[:n] {
		some = append(some, all[i])
	}
	return some
}

// someOf is the same for each group, by its name.
func (s *stage) someOf(dice *rand.Rand) map[string][]string {
	all := map[string][]string{}
	for _, g := range s.groups {
		all[g.name] = g.some(dice)
	}
	return all
}

// eachLease does something to some Leases, a few at a time.
func (s *stage) eachLease(ctx context.Context, names []string, do func(context.Context, kubernetes.Interface, string) error) error {
	var all errgroup.Group
	all.SetLimit(4)
	for _, name := range names {
		all.Go(func() error {
			return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error { return do(ctx, c, name) })
		})
	}
	return all.Wait()
}

// editLease edits a Lease, as somebody does who does not look whether it has changed.
func (s *stage) editLease(edit func(*coordinationv1.Lease)) func(context.Context, kubernetes.Interface, string) error {
	return func(ctx context.Context, c kubernetes.Interface, name string) error {
		return retry.RetryOnConflict(eagerly, func() error {
			l, err := c.CoordinationV1().Leases(s.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			edit(l)
			_, err = c.CoordinationV1().Leases(s.namespace).Update(ctx, l, metav1.UpdateOptions{})
			return err
		})
	}
}

// deleteLease deletes a Lease.
func (s *stage) deleteLease(ctx context.Context, c kubernetes.Interface, name string) error {
	return c.CoordinationV1().Leases(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// hearts are the Leases of heartbeats that go on: the leader's, or everybody's.
func (s *stage) hearts(ctx context.Context, everybodys bool) (some []coordinationv1.Lease, err error) {
	leader, err := s.groups[0].leader()
	if err != nil {
		return nil, err
	}
	err = s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		all, err := c.CoordinationV1().Leases(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: leases.LabelRole + "=" + leases.RoleHeartbeat})
		if err == nil {
			some = slices.DeleteFunc(all.Items, func(l coordinationv1.Lease) bool {
				holder := leases.Read(&l).Holder
				return holder == "" || holder != leader.Identity && !everybodys
			})
		}
		return err
	})
	if err == nil && len(some) == 0 {
		err = fmt.Errorf("%w: %s has no heartbeat", errMissed, leader.Identity)
	}
	return some, err
}

func namesOfLeases(all []coordinationv1.Lease) (names []string) {
	for _, l := range all {
		names = append(names, l.Name)
	}
	return names
}

func heartbeatDeleted(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	hearts, err := s.hearts(ctx, ofAll(dice))
	if err != nil {
		return nil, err
	}
	return nil, s.eachLease(ctx, namesOfLeases(hearts), s.deleteLease)
}

// heartbeatEdits are manual edits of a heartbeat's Lease besides leaseEdits.
var heartbeatEdits = []func(*coordinationv1.Lease){
	func(l *coordinationv1.Lease) { delete(l.Annotations, leases.AnnotationNonce) },
	func(l *coordinationv1.Lease) { l.Labels = nil },
	func(l *coordinationv1.Lease) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, leases.AnnotationWithdrawn, garbage)
	},
}

func heartbeatGarbled(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	everybodys, edit := heartbeatEdit(dice)
	hearts, err := s.hearts(ctx, everybodys)
	if err != nil {
		return nil, err
	}
	return nil, s.eachLease(ctx, namesOfLeases(hearts), s.editLease(slices.Concat(leaseEdits, heartbeatEdits)[edit]))
}

// heartbeatPutBack puts back what was there, as somebody does who noticed a mistake:
// soon, or only when all have noticed it.
func heartbeatPutBack(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	hearts, err := s.hearts(ctx, ofAll(dice))
	if err != nil {
		return nil, err
	}
	away, deleted := upTo(dice, 2*s.plan.Timing.RenewInterval), dice.IntN(2) == 0
	var all errgroup.Group
	for _, l := range hearts {
		all.Go(func() error { return s.putBack(ctx, &l, away, deleted) })
	}
	return nil, all.Wait()
}

// putBack empties or deletes a Lease, and makes it what it was.
func (s *stage) putBack(ctx context.Context, l *coordinationv1.Lease, away time.Duration, deleted bool) error {
	if deleted {
		if err := s.eachLease(ctx, []string{l.Name}, s.deleteLease); err != nil {
			return err
		}
		if err := sleep.For(ctx, away); err != nil {
			return err
		}
		back := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.Name, Labels: l.Labels, Annotations: l.Annotations, OwnerReferences: l.OwnerReferences}, Spec: l.Spec}
		return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoordinationV1().Leases(s.namespace).Create(ctx, back, metav1.CreateOptions{})
			return err // its process may have created it: nothing is put back then
		})
	}
	var was *coordinationv1.Lease
	empty := func(l *coordinationv1.Lease) { was, l.Spec.HolderIdentity = l.DeepCopy(), new("") }
	if err := s.eachLease(ctx, []string{l.Name}, s.editLease(empty)); err != nil {
		return err
	}
	if err := sleep.For(ctx, away); err != nil {
		return err
	}
	return s.eachLease(ctx, []string{l.Name}, s.editLease(func(l *coordinationv1.Lease) { l.Spec, l.Annotations = was.Spec, was.Annotations }))
}

// attachmentEdits are manual edits of what a lock's Lease says of its heartbeat. None
// shortens the lease.
var attachmentEdits = []func(words []string) string{
	func([]string) string { return garbage },
	func(w []string) string { w[0] += "x"; return strings.Join(w, " ") },   // of no Lease
	func(w []string) string { w[1] = "gone"; return strings.Join(w, " ") }, // of a Lease that was replaced
	func(w []string) string { w[2] += "0"; return strings.Join(w, " ") },   // of another epoch
	func(w []string) string { return strings.Join(w[:3], " ") },
	func([]string) string { return "" },
}

func attachmentGarbled(ctx context.Context, s *stage, dice *rand.Rand) (cure, error) {
	edit := attachmentEdits[dice.IntN(len(attachmentEdits))]
	return nil, s.eachLease(ctx, s.groups[0].some(dice), s.editLease(func(l *coordinationv1.Lease) {
		words := strings.Split(l.Annotations[leases.AnnotationHeartbeat], " ")
		if text := ""; len(words) == 4 {
			if text = edit(words); text == "" {
				delete(l.Annotations, leases.AnnotationHeartbeat)
				return
			}
			l.Annotations[leases.AnnotationHeartbeat] = text
		}
	}))
}
