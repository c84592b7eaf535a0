// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/operator"
)

// NewGroup is operator.NewGroup for elections whose locks one heartbeat of this process keeps. All
// candidates of these locks need one. It requires Timing.Exclusive: a client-go candidate up to 0.26
// would take a lock from a live leader, and a later one would not take it from a dead one.
//
// The heartbeat begins with the first election that runs, and ends with the last. The Run of that last
// one first writes the releases that only a note tells of (rule L8), for a RenewDeadline at most.
// Then it releases the heartbeat, and deletes the heartbeat's Lease if no lock names it any longer.
func NewGroup(ctx context.Context, name string, o operator.Options) (*operator.Group, error) {
	if !o.Timing.Exclusive {
		return nil, fmt.Errorf("elections of group %q: %w: %w", name, operator.ErrOptions, errShared)
	}
	group, err := extension.NewGroup(ctx, name, o, newBeating)
	if err != nil {
		return nil, err
	}
	return group.(*operator.Group), nil
}

var errShared = errors.New("a heartbeat is wanted, but Timing.Exclusive is not: if a candidate that does not know heartbeats, such as client-go's, may share a lock, it would not take over from a dead leader: set Timing.Exclusive if none does, or use operator.NewGroup")

// mostWrites is how many writes of a process's locks are under way at a time, as in package operator.
const mostWrites = 16

// beating are the locks of a Group, and the heartbeat that keeps them.
type beating struct {
	config
	elector *election.Elector // of the heartbeat
	told    sync.Once         // that the heartbeat's Lease stays
}

func init() {
	extension.NewBeating = func(p extension.Place, heart lease.Config, writes int) (extension.Locks, error) {
		return newBeatingOn(p, heart, writes)
	}
}

// newBeating makes the locks of a Group, with a heartbeat on connections of its own.
func newBeating(p extension.Place) (extension.Locks, error) {
	hearts, err := p.Environment.Clients()
	if err != nil {
		return nil, err
	}
	c := p.Lease(hearts, heartName(p.Name))
	c.Logger = p.Logger.WithName("heartbeat")
	if pod := p.Pod(); pod.Name != "" && pod.UID != "" {
		c.Owners = ownedBy(pod, hearts.Core, p.Namespace, p.Timing.AttemptTimeout, c.Logger)
	}
	return newBeatingOn(p, c, mostWrites)
}

// newBeatingOn makes the locks of a Group, with a heartbeat on that Lease.
func newBeatingOn(p extension.Place, c lease.Config, writes int) (*beating, error) {
	b := &beating{config: config{
		client: p.Clients.Coordination, namespace: p.Namespace, view: p.View, writes: newWrites(writes, p.Timing.AttemptTimeout),
		allow: p.Allow, group: p.Name, labels: p.Labels, logger: p.Logger,
	}}
	var err error
	b.heart, err = newHeart(heartConfig{lease: c, view: p.View, writes: b.writes, identity: p.Self.Identity, timing: p.Timing})
	if err != nil {
		return nil, err
	}
	b.elector, err = election.New(election.Config{
		Lock: b.heart, Candidate: p.Self.Candidate(), Timing: p.Timing, Logger: c.Logger,
		TakeoverDelay: func(election.Takeover) time.Duration { return 0 }, // nobody else campaigns
	})
	return b, err
}

// heartName is the name of the Lease of a heartbeat. It is another one each time, because a
// process that has ended does not release the locks that its heartbeat kept.
func heartName(name string) string {
	end := ".heartbeat-" + strings.ToLower(rand.Text()[:10])
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength-len(end))], "-.") + end
}

// ownedBy returns what asks the API server for the pod that is to own the heartbeat's Lease. If it
// does not know the pod, or does not say, the Lease has no owner.
func ownedBy(pod presence.Pod, core rest.Interface, namespace string, patience time.Duration, log logr.Logger) func(context.Context) []metav1.OwnerReference {
	var told sync.Once
	return func(ctx context.Context) []metav1.OwnerReference {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := pod.Confirm(ctx, core, namespace); err != nil {
			told.Do(func() {
				log.Info("the Lease of the heartbeat has no owner: it stays if this process does not end in good order", "cause", err.Error())
			})
			return nil
		}
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	}
}

// New returns the lock of that name. It does no I/O.
func (b *beating) New(name string) (locks.Lock, error) { return b.lock(name) }

// Enter waits for a place among the writes.
func (b *beating) Enter(ctx context.Context) (leave func(), err error) { return b.writes.enter(ctx) }

// Start begins the heartbeat. What it returns ends that in good order.
func (b *beating) Start(ctx context.Context) (end func()) {
	beats, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	b.heart.begin()
	running.Go(func() {
		err := b.elector.Run(beats, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
		if err != nil {
			b.logger.Error(err, "the heartbeat has ended")
		}
	})
	return func() {
		b.heart.settle(ctx)
		stop()
		running.Wait()
		b.heart.finish()
		if err := b.heart.remove(ctx); err != nil {
			b.told.Do(func() {
				b.logger.Info("the Lease of the heartbeat stays, and is no longer needed", "cause", err.Error())
			})
		}
		if closeAll := b.heart.Capabilities().CloseConnections; closeAll != nil {
			closeAll()
		}
	}
}

// Alive returns an error if the elector of the heartbeat is stuck.
func (b *beating) Alive() error {
	if err := b.elector.Alive(); err != nil {
		return fmt.Errorf("the heartbeat: %w", err)
	}
	return nil
}
