// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/operator"
)

const demoLong = `Shows on the cluster of the current context what zonelect promises. Three candidates run in this program,
with the default timing, and elect a leader there. The leader is told to stop. The connection of the next
one is cut, and restored.

It creates Leases in the namespace, with the label app.kubernetes.io/managed-by=zonelect-demo, and removes
them at the end and after Ctrl-C. It takes less than a minute.

Each promise gets a line with its figure, the largest figure that keeps it, and a link to what explains it.
What is allowed follows from the timing and from how long requests take, which is measured before. The
exit code is 1 if a promise was not kept. ClusterRole zonelect-demo, bound in the namespace, grants what
the command needs. -v=1 shows the candidates' logs.`

const demoExample = `  kubectl zonelect demo
  kubectl zonelect demo --context kind-trial -n scratch`

// The labels of what a demonstration creates: of any, and of one.
const (
	demoLabel    = "app.kubernetes.io/managed-by"
	demoValue    = "zonelect-demo"
	demoRunLabel = "app.kubernetes.io/instance"
)

// demoCommand is one call of demo.
type demoCommand struct {
	env     *environment
	cluster cluster
	lock    string
	began   time.Time
	seen    demo.Seen
	cast    map[string]*candidate // those that run

	mu     sync.Mutex
	events []demo.Event
	news   chan struct{} // closed and replaced at each event
}

// candidate is one of a demonstration.
type candidate struct {
	demo.Wire
	stop context.CancelFunc
	err  error // why it ended
}

func newDemo(env *environment) *cobra.Command {
	d := &demoCommand{env: env, cast: map[string]*candidate{}, news: make(chan struct{})}
	c := &cobra.Command{
		Use:         "demo",
		Short:       "Show on your own cluster what zonelect promises",
		Long:        demoLong,
		Example:     demoExample,
		Args:        noArgument,
		RunE:        func(c *cobra.Command, _ []string) error { return failed(d.run(c.Context())) },
		Annotations: roleDemo.marks(),
	}
	return c
}

func (d *demoCommand) run(ctx context.Context) (err error) {
	if d.cluster, err = d.env.cluster(roleDemo, false); err != nil {
		return err
	}
	// Three candidates in a pod, such as that of a shell, would be taken for one.
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_UID", "NODE_NAME", "NODE_ZONE"} {
		_ = os.Unsetenv(name) // it has no wrong characters
	}
	d.began, d.lock, d.seen.Timing = d.env.now(), "zonelect-demo-"+rand.String(5), timing.Timing{}.WithDefaults()
	d.env.changed = "nothing is left in the cluster"
	tell(d.env.streams.Out, "Three candidates elect a leader in namespace %s, by Leases that are removed at the end: %s, and one for each of them.\nIf all else fails: %s\n\n", d.cluster.namespace, d.lock, d.removal())
	if err = d.prepare(ctx); err == nil {
		err = d.play(ctx)
	}
	if errors.Is(err, errLate) {
		d.say("this did not come in time: the rest is left out")
		err = nil
	}
	d.end(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	return d.conclude()
}

// say prints a line of what happens now, with the time since the beginning.
func (d *demoCommand) say(format string, args ...any) {
	tell(d.env.streams.Out, fmt.Sprintf("%6.1fs  ", d.env.now().Sub(d.began).Seconds())+format+"\n", args...)
}

// removal is a command for people that removes what demonstrations have left.
func (d *demoCommand) removal() string {
	return "kubectl delete leases -n " + d.cluster.namespace + " -l " + demoLabel + "=" + demoValue
}

// labels are those of what this demonstration creates.
func (d *demoCommand) labels() map[string]string {
	return map[string]string{demoLabel: demoValue, demoRunLabel: d.lock}
}

// measured is how many writes are measured, and longestRequest bounds each.
const measured, longestRequest = 5, 10 * time.Second

// prepare measures real writes of a Lease of its own, which needs most of the rights.
func (d *demoCommand) prepare(ctx context.Context) error {
	id := apierror.Object{Resource: apierror.Leases, Namespace: d.cluster.namespace, Name: d.lock + "-trial"}
	object := rawapi.New[coordinationv1.Lease](d.cluster.Coordination, id)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, Labels: d.labels()}}
	write := object.Create
	for i := range measured {
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, longestRequest)
		written, err := write(ctx, lease)
		cancel()
		if err != nil {
			return err
		}
		d.seen.Slowest = max(d.seen.Slowest, time.Since(began))
		lease, write = written, object.Update
		lease.Spec.LeaseTransitions = ptr.To(int32(i))
	}
	d.say("of %d writes the slowest took %s", measured, demo.Text(d.seen.Slowest))
	return nil
}

// tell notes an event, and wakes those who await one.
func (d *demoCommand) tell(e demo.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Time = d.env.now()
	d.events = append(d.events, e)
	close(d.news)
	d.news = make(chan struct{})
}

// start starts a candidate under an identity.
func (d *demoCommand) start(ctx context.Context, identity string) error {
	config, err := d.env.restConfig()
	if err != nil {
		return err
	}
	c := &candidate{}
	dial := demo.Dial((&net.Dialer{Timeout: 30 * time.Second}).DialContext)
	if config.Dial != nil {
		dial = config.Dial
	}
	config.Dial = c.Through(dial)
	logger := logr.FromSlogHandler(slog.DiscardHandler)
	if klog.V(1).Enabled() {
		logger = klog.Background().WithName(identity)
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx)) // end ends it, after Ctrl-C, too
	e, err := operator.New(ctx, d.lock, operator.Options{
		Namespace: d.cluster.namespace, Config: config, NoEvents: true, Labels: d.labels(), Logger: logger,
		Self: operator.SelfOptions{Identity: identity},
	})
	if err != nil {
		c.stop()
		return err
	}
	d.cast[identity] = c
	go func() {
		for t := range e.Subscribe(ctx) {
			if s := t.Status; t.Change == status.ChangeFollowing && s.Holder != "" && s.Holder != s.Identity {
				d.tell(demo.Event{Kind: demo.Following, Candidate: identity, Leader: s.Holder})
			}
		}
	}()
	go func() {
		err := e.Run(ctx, func(ctx context.Context, term election.Term) error {
			d.tell(demo.Event{Kind: demo.Leading, Candidate: identity, Token: term.Token})
			<-ctx.Done()
			d.tell(demo.Event{Kind: demo.Stopped, Candidate: identity})
			return nil
		})
		d.mu.Lock()
		if ctx.Err() == nil {
			c.err = cmp.Or(err, errors.New("it ended by itself"))
		}
		d.mu.Unlock()
		d.tell(demo.Event{Kind: demo.Ended, Candidate: identity})
	}()
	return nil
}

// errLate says that something did not happen in time. What that means, the judge says.
var errLate = errors.New("it did not happen in time")

// patienceBeyond is how long anything may take beyond a lease. Whatever is promised comes much sooner.
const patienceBeyond = 15 * time.Second

// await waits for an event. It fails with errLate after a while.
func (d *demoCommand) await(ctx context.Context, is func(demo.Event) bool) (demo.Event, error) {
	late := time.NewTimer(d.seen.Timing.LeaseDuration + patienceBeyond)
	defer late.Stop()
	for {
		d.mu.Lock()
		i, news, events := slices.IndexFunc(d.events, is), d.news, d.events
		d.mu.Unlock()
		if i >= 0 {
			return events[i], nil
		}
		select {
		case <-news:
		case <-late.C:
			return demo.Event{}, errLate
		case <-ctx.Done():
			return demo.Event{}, ctx.Err()
		}
	}
}

// follows starts a candidate if it does not run, and waits until it follows a leader.
func (d *demoCommand) follows(ctx context.Context, identity, leader string) error {
	if d.cast[identity] == nil {
		if err := d.start(ctx, identity); err != nil {
			return err
		}
	}
	_, err := d.await(ctx, func(e demo.Event) bool {
		return e.Candidate == identity && e.Kind == demo.Following && e.Leader == leader
	})
	return err
}

// successor waits for the next leader after a fault.
func (d *demoCommand) successor(ctx context.Context, after demo.Fault) (string, error) {
	led, err := d.await(ctx, func(e demo.Event) bool {
		return e.Kind == demo.Leading && e.Candidate != after.Leader && !e.Time.Before(after.At)
	})
	if err == nil {
		d.say("%s leads", led.Candidate)
	}
	return led.Candidate, err
}

// play does to leaders what is announced, one after the other.
func (d *demoCommand) play(ctx context.Context) error {
	for i := range demo.Candidates {
		if err := d.start(ctx, fmt.Sprintf("candidate-%d_1", i+1)); err != nil {
			return err
		}
	}
	leader, err := d.successor(ctx, demo.Fault{})
	if err != nil {
		return err
	}
	for identity := range d.cast {
		if identity != leader {
			err = cmp.Or(err, d.follows(ctx, identity, leader))
		}
	}
	pause := d.seen.Timing.RenewInterval
	if err = cmp.Or(err, sleep.For(ctx, pause)); err != nil { // they know each other by then
		return err
	}
	d.seen.Stop = demo.Fault{Leader: leader, At: d.env.now()}
	d.say("%s is told to stop", leader)
	d.cast[leader].stop()
	next, err := d.successor(ctx, d.seen.Stop)
	if err != nil {
		return err
	}
	if err := cmp.Or(d.follows(ctx, leader[:len(leader)-1]+"2", next), sleep.For(ctx, pause)); err != nil {
		return err
	}
	leader = next
	d.cast[leader].Cut()
	d.seen.Cut = demo.Fault{Leader: leader, At: d.env.now()}
	d.say("the connection of %s is cut: no byte passes, and no end is told", leader)
	if err := d.expiry(ctx, &d.seen.Cut); err != nil {
		return err
	}
	if next, err = d.successor(ctx, d.seen.Cut); err != nil {
		return err
	}
	d.seen.Healed = d.env.now()
	d.cast[leader].Heal()
	d.say("the connection of %s is back", leader)
	return d.follows(ctx, leader, next)
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
	case lease == nil || lease.Spec.RenewTime == nil || ptr.Deref(lease.Spec.HolderIdentity, "") != of.Leader:
		of.Unknown = "somebody changed the Lease"
	default:
		of.LeaseEnds = lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	}
	return nil
}

// end ends all candidates, removes what was created, and sees whether anything is left.
func (d *demoCommand) end(ctx context.Context) {
	for _, c := range d.cast {
		c.Heal()
		c.stop()
	}
	for identity := range d.cast {
		if _, err := d.await(ctx, func(e demo.Event) bool { return e.Kind == demo.Ended && e.Candidate == identity }); err != nil {
			d.say("%s did not end in time", identity)
		}
		d.mu.Lock()
		if err := d.cast[identity].err; err != nil {
			d.env.tell("note: %s: %v\n", identity, err)
		}
		d.mu.Unlock()
	}
	d.seen.Events = d.events // nobody adds to them now
	for i := range 2 {
		left, err := rawapi.List[coordinationv1.Lease](ctx, d.cluster.Coordination, apierror.Leases, d.cluster.namespace, labels.SelectorFromSet(d.labels()).String())
		for _, l := range left {
			id := apierror.Object{Resource: apierror.Leases, Namespace: l.Namespace, Name: l.Name}
			if i > 0 {
				d.seen.Left = append(d.seen.Left, l.Name)
			} else if gone := rawapi.New[coordinationv1.Lease](d.cluster.Coordination, id).Delete(ctx, l.UID, ""); gone != nil && !id.Absent(gone) {
				err = cmp.Or(err, gone)
			}
		}
		if err != nil {
			d.seen.Unswept = d.cluster.role.explained(err)
		}
	}
	if d.seen.Unswept != "" || len(d.seen.Left) > 0 {
		d.env.changed = "Leases may be left: " + d.removal()
		d.say("not all Leases could be removed: %s; %s", d.seen.Unswept, d.removal())
	}
}

// conclude prints what was promised and what was kept.
func (d *demoCommand) conclude() error {
	out, count := d.env.streams.Out, map[demo.Result]int{}
	tell(out, "\n")
	marks := map[demo.Result]string{demo.Kept: "✓", demo.Broken: "✗", demo.Unknown: "?"}
	promises := d.seen.Judge()
	for _, p := range promises {
		count[p.Result]++
		tell(out, "%s %-14s%s\n  %-14s%s\n", marks[p.Result], p.Name, p.Text, "", p.Link)
	}
	tell(out, "\n%d of %s were kept, in %.0f s.\n", count[demo.Kept], inspect.Many(len(promises), "promise"), d.env.now().Sub(d.began).Seconds())
	switch broken, unknown := count[demo.Broken], count[demo.Unknown]; {
	case broken > 0:
		return fmt.Errorf("%s not kept: %s has what to look at", inspect.Many(broken, "promise"), demo.Page)
	case unknown > 0:
		return fmt.Errorf("%s could not be judged: run it again", inspect.Many(unknown, "promise"))
	}
	return nil
}
