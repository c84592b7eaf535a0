// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/sleep"
)

// show runs the candidates, and ends them, whatever happens. Ctrl-C keeps nobody from that.
func (d *demoCommand) show(ctx context.Context) (err error) {
	defer d.env.persist()()
	d.seen.Timing = timing.Timing{}.WithDefaults()
	d.cast = newCast(d.env, append([]string{"demo-candidate", "--lock=" + d.lock}, d.connection...))
	err = d.play(ctx)
	if errors.Is(err, errLate) {
		d.say("this did not come in time: the rest is left out")
		err = nil
	}
	if ctx.Err() != nil {
		d.env.tell("ending the candidates, and removing what they created\n")
	}
	d.end(ctx)
	return err
}

// endMost is how long candidates may take to end, and to remove what there is.
const endMost = 10 * time.Second

// end ends all candidates, which remove what was created, and sees whether anything is left.
func (d *demoCommand) end(ctx context.Context) {
	for _, identity := range d.cast.end(endMost) {
		d.say("%s did not end in time, and was killed", identity)
	}
	d.seen.Events = d.cast.told()
	ctx = context.WithoutCancel(ctx)
	err := sweep(ctx, d.cluster, d.lock)
	left, listed := leasesOf(ctx, d.cluster, demoSelector(d.lock))
	d.env.changed = "nothing is left in the cluster"
	if err = cmp.Or(listed, err); err != nil && (listed != nil || len(left) > 0) {
		d.seen.Unswept = d.cluster.role.explained(err)
		d.env.changed = "the Leases may be left: " + removal(d.cluster.namespace)
		d.say("not all Leases could be removed: %v; %s", err, removal(d.cluster.namespace))
	}
	for _, l := range left {
		d.seen.Left = append(d.seen.Left, "lease "+l.Name)
	}
}

// What is waited for, and how long. Whatever is promised comes much sooner.
const (
	startMost  = 15 * time.Second // for processes that start, and know of each other
	beyondMost = 15 * time.Second // beyond the end of a lease
)

// play does to leaders what is announced, one after the other.
func (d *demoCommand) play(ctx context.Context) error {
	leader, err := d.open(ctx)
	if err != nil {
		return err
	}
	for _, do := range []func(context.Context, string) (string, error){d.playStop, d.playKill, d.playCut} {
		if err := sleep.For(ctx, d.seen.Timing.RenewInterval); err != nil { // they know each other by then
			return err
		}
		if leader, err = do(ctx, leader); err != nil {
			return err
		}
	}
	return nil
}

// open starts the candidates, and returns the leader.
func (d *demoCommand) open(ctx context.Context) (leader string, err error) {
	var all []string
	for i := range demo.Candidates {
		identity, err := d.cast.start(fmt.Sprintf("candidate-%d", i+1))
		if err != nil {
			return "", err
		}
		all = append(all, identity)
	}
	led, err := d.cast.await(ctx, startMost, func(e demo.Event) bool { return e.Kind == demo.Leading })
	if err != nil {
		return "", err
	}
	for _, identity := range all {
		if identity != led.Candidate {
			if err := d.follows(ctx, identity, led.Candidate); err != nil {
				return "", err
			}
		}
	}
	d.sayAt(led.Time, "%s leads, the others follow", led.Candidate)
	return led.Candidate, nil
}

// follows waits until a candidate follows a leader.
func (d *demoCommand) follows(ctx context.Context, identity, leader string) error {
	_, err := d.cast.await(ctx, startMost, func(e demo.Event) bool {
		return e.Candidate == identity && e.Kind == demo.Following && e.Leader == leader
	})
	return err
}

// again starts a candidate whose process has ended, and waits until it follows the leader.
func (d *demoCommand) again(ctx context.Context, identity, leader string) error {
	name, _, _ := strings.Cut(identity, "_")
	started, err := d.cast.start(name)
	if err != nil {
		return err
	}
	return d.follows(ctx, started, leader)
}

func (d *demoCommand) playStop(ctx context.Context, leader string) (string, error) {
	d.seen.Stop = demo.Fault{Leader: leader, At: d.env.now()}
	d.say("SIGTERM to %s", leader)
	if err := d.cast.terminate(ctx, leader); err != nil {
		return "", err
	}
	next, err := d.successor(ctx, d.seen.Stop, startMost)
	if err != nil {
		return "", err
	}
	return next, d.again(ctx, leader, next)
}

func (d *demoCommand) playKill(ctx context.Context, leader string) (string, error) {
	d.seen.Kill = demo.Fault{Leader: leader, At: d.env.now()}
	d.say("SIGKILL to %s: the others wait until its lease has ended", leader)
	if err := d.cast.kill(ctx, leader); err != nil {
		return "", err
	}
	if err := d.expiry(ctx, &d.seen.Kill); err != nil {
		return "", err
	}
	next, err := d.successor(ctx, d.seen.Kill, d.seen.Timing.LeaseDuration+beyondMost)
	if err != nil {
		return "", err
	}
	return next, d.again(ctx, leader, next)
}

func (d *demoCommand) playCut(ctx context.Context, leader string) (string, error) {
	if err := d.cast.tell(leader, wordCut); err != nil {
		return "", err
	}
	d.seen.Cut = demo.Fault{Leader: leader, At: d.env.now()}
	d.say("the connection of %s is cut: no byte passes, and no end is told", leader)
	if err := d.expiry(ctx, &d.seen.Cut); err != nil {
		return "", err
	}
	stopped, err := d.cast.await(ctx, d.seen.Timing.LeaseDuration+beyondMost, func(e demo.Event) bool {
		return e.Candidate == leader && e.Kind == demo.Stopped
	})
	if err != nil {
		return "", err
	}
	d.sayAt(stopped.Time, "%s has stopped its work", leader)
	next, err := d.successor(ctx, d.seen.Cut, d.seen.Timing.LeaseDuration+beyondMost)
	if err != nil {
		return "", err
	}
	if err := sleep.For(ctx, d.seen.Timing.RenewInterval/2); err != nil {
		return "", err
	}
	d.seen.Healed = d.env.now()
	if err := d.cast.tell(leader, wordHeal); err != nil {
		return "", err
	}
	d.say("the connection of %s is back", leader)
	if err := d.follows(ctx, leader, next); err != nil {
		return "", err
	}
	d.say("%s follows", leader)
	return next, nil
}

// successor waits for the next leader after a fault.
func (d *demoCommand) successor(ctx context.Context, after demo.Fault, most time.Duration) (string, error) {
	led, err := d.cast.await(ctx, most, func(e demo.Event) bool {
		return e.Kind == demo.Leading && e.Candidate != after.Leader && !e.Time.Before(after.At)
	})
	if err != nil {
		return "", err
	}
	d.sayAt(led.Time, "%s leads", led.Candidate)
	return led.Candidate, nil
}

// expiry finds out when the lease of a leader ends that renews it no longer: by the Lease, once
// what the leader may have sent before the fault has landed. That it cannot be found out is noted.
func (d *demoCommand) expiry(ctx context.Context, of *demo.Fault) error {
	if err := sleep.For(ctx, d.seen.Timing.RenewInterval/2); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longestRequest)
	defer cancel()
	lease, err := d.cluster.Lease(ctx, d.cluster.lock(d.lock))
	switch {
	case err != nil:
		of.Unknown = d.cluster.role.explained(err)
	case lease == nil || lease.Spec.RenewTime == nil:
		of.Unknown = "somebody removed the Lease, or what it says"
	case ptr.Deref(lease.Spec.HolderIdentity, "") != of.Leader:
		of.Unknown = fmt.Sprintf("it was led by %s by then", ptr.Deref(lease.Spec.HolderIdentity, ""))
	default:
		of.LeaseEnds = lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	}
	return nil
}
