// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/operator"
)

const demoLong = `The demo uses the cluster of the current context. Three candidates run in this program,
with the default timing, and elect a leader there. The leader is told to stop. The connection of the next
one is cut, and restored.

It creates Leases in the namespace, with the label app.kubernetes.io/managed-by=zonelect-demo, and removes
them at the end and after Ctrl-C. It takes less than a minute.

Each promise prints a line: the figure that was measured, the limit, and a link to the explanation.
The limits follow from the timing, plus two seconds for requests. The exit code is 1 if a promise
was not kept. ClusterRole zonelect-demo, bound in the namespace, grants the rights. -v=1 shows
the candidates' logs.`

const demoExample = `  kubectl zonelect demo --context kind-trial -n scratch`

// demoCommand is one call of demo.
type demoCommand struct {
	env     *environment
	cluster cluster
	lock    string
	began   time.Time
	cast    map[string]*candidate // by identity
	ended   sync.WaitGroup        // all of them

	mu   sync.Mutex
	seen demo.Seen
}

// candidate is one of a demonstration.
type candidate struct {
	demo.Wire
	*operator.Election
	stop context.CancelFunc
}

func newDemo(env *environment) *cobra.Command {
	d := &demoCommand{env: env, cast: map[string]*candidate{}}
	return &cobra.Command{
		Use:     "demo",
		Short:   "Show on your own cluster what zonelect promises",
		Long:    demoLong,
		Example: demoExample,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return d.run(c.Context()) },
	}
}

func (d *demoCommand) run(ctx context.Context) (err error) {
	if d.cluster, err = d.env.cluster("demo", false); err != nil {
		return err
	}
	// Three candidates in a pod, such as that of a shell, would be taken for one.
	for _, name := range []string{"KUBERNETES_SERVICE_HOST", "POD_NAME", "POD_UID", "NODE_NAME", "NODE_ZONE"} {
		_ = os.Unsetenv(name) // it has no wrong characters
	}
	d.began, d.lock, d.seen.Timing = d.env.now(), "zonelect-demo-"+rand.String(5), timing.Timing{}.WithDefaults()
	tell(d.env.streams.Out, "Three candidates elect a leader in namespace %s, by Leases that are removed at the end.\n", d.cluster.namespace)
	tell(d.env.streams.Out, "If all else fails: %s\n\n", d.removal())
	if err = d.play(ctx); errors.Is(err, errLate) {
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
	return "kubectl delete leases -n " + d.cluster.namespace + " -l app.kubernetes.io/managed-by=zonelect-demo"
}

// labels are those of what this demonstration creates.
func (d *demoCommand) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "zonelect-demo", "app.kubernetes.io/instance": d.lock}
}

// lease is a Lease in the namespace.
func (d *demoCommand) lease(name string) rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease] {
	id := apierror.Object{Resource: apierror.Leases, Namespace: d.cluster.namespace, Name: name}
	return rawapi.New[coordinationv1.Lease](d.cluster.Coordination, id)
}

// start starts a candidate under an identity.
func (d *demoCommand) start(ctx context.Context, identity string) error {
	config, err := d.env.restConfig()
	if err != nil {
		return err
	}
	c := &candidate{}
	config.Dial = c.Through(config.Dial)
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
	c.Election, d.cast[identity] = e, c
	d.ended.Go(func() {
		err := e.Run(ctx, func(ctx context.Context, term election.Term) error {
			place := 0
			d.note(func(s *demo.Seen) {
				place = len(s.Terms)
				s.Terms = append(s.Terms, demo.Term{Candidate: identity, Token: term.Token, From: d.env.now()})
			})
			<-ctx.Done()
			d.note(func(s *demo.Seen) { s.Terms[place].To = d.env.now() })
			return nil
		})
		if ctx.Err() == nil {
			d.env.tell("note: %s ended: %v\n", identity, err)
		}
	})
	return nil
}

// note notes something that was seen, or looks at it.
func (d *demoCommand) note(what func(*demo.Seen)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what(&d.seen)
}

// errLate says that something did not happen in time. What that means, the judge says.
var errLate = errors.New("it did not happen in time")

// await waits until something was seen. It fails with errLate after a while.
func (d *demoCommand) await(ctx context.Context, is func(*demo.Seen) bool) error {
	patience := d.seen.Timing.LeaseDuration + 15*time.Second // whatever is promised comes much sooner
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(context.Context) (now bool, _ error) {
		d.note(func(s *demo.Seen) { now = is(s) })
		return now, nil
	})
	if err != nil && ctx.Err() == nil {
		return errLate
	}
	return err
}

// leader waits for a term, by its place, and returns who leads.
func (d *demoCommand) leader(ctx context.Context, place int) (identity string, err error) {
	if err = d.await(ctx, func(s *demo.Seen) bool { return len(s.Terms) > place }); err != nil {
		return "", err
	}
	d.note(func(s *demo.Seen) { identity = s.Terms[place].Candidate })
	d.say("%s leads", identity)
	return identity, sleep.For(ctx, d.seen.Timing.RenewInterval) // the candidates know each other by then
}

// play does to leaders what is announced, one after the other.
func (d *demoCommand) play(ctx context.Context) error {
	trial := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.cluster.namespace, Name: d.lock + "-trial", Labels: d.labels()}}
	if _, err := d.lease(trial.Name).Create(ctx, trial); err != nil { // a candidate would try again and again
		return err
	}
	for i := range 3 {
		if err := d.start(ctx, fmt.Sprintf("candidate-%d_1", i+1)); err != nil {
			return err
		}
	}
	first, err := d.leader(ctx, 0)
	if err != nil {
		return err
	}
	d.say("%s is told to stop", first)
	d.cast[first].stop()
	second, err := d.leader(ctx, 1)
	if err != nil {
		return err
	}
	d.cast[second].Cut.Store(true)
	d.say("the connection of %s is cut: no byte passes, and no end is told", second)
	if err := d.expiry(ctx, second); err != nil {
		return err
	}
	third, err := d.leader(ctx, 2)
	if err != nil {
		return err
	}
	d.note(func(s *demo.Seen) { s.Healed = d.env.now() })
	d.cast[second].Cut.Store(false)
	d.say("the connection of %s is back", second)
	err = d.await(ctx, func(*demo.Seen) bool { return d.cast[second].Status().Holder == third })
	if err == nil {
		d.note(func(s *demo.Seen) { s.Followed = d.env.now() })
	}
	return err
}

// expiry finds out when the lease of a leader ends that renews it no longer: by the Lease, once what the leader may
// have sent before it was cut off has landed.
func (d *demoCommand) expiry(ctx context.Context, leader string) error {
	if err := sleep.For(ctx, d.seen.Timing.RenewInterval/2); err != nil {
		return err
	}
	lease, err := d.lease(d.lock).Get(ctx)
	if err == nil && lease.Spec.RenewTime != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == leader {
		d.note(func(s *demo.Seen) { s.LeaseEnds = lease.Spec.RenewTime.Add(s.Timing.LeaseDuration) })
	}
	return err
}

// end ends all candidates, removes what was created, and sees whether anything is left.
func (d *demoCommand) end(ctx context.Context) {
	for _, c := range d.cast {
		c.Cut.Store(false)
		c.stop()
	}
	d.ended.Wait()
	var left []coordinationv1.Lease
	var err error
	for range 2 { // the second time none should be left
		selector := labels.SelectorFromSet(d.labels()).String()
		left, err = rawapi.List[coordinationv1.Lease](ctx, d.cluster.Coordination, apierror.Leases, d.cluster.namespace, selector)
		for _, l := range left {
			err = errors.Join(err, d.lease(l.Name).Delete(ctx, l.UID, ""))
		}
	}
	if err != nil || len(left) > 0 {
		text := fmt.Sprintf("Leases may be left (%v): %s", err, d.removal())
		d.env.tell("%s\n", text)
		d.note(func(s *demo.Seen) { s.Unswept = text })
	}
}

// conclude prints what was promised and what was kept.
func (d *demoCommand) conclude() error {
	out, kept := d.env.streams.Out, 0
	tell(out, "\n")
	var promises []demo.Promise
	d.note(func(s *demo.Seen) { promises = s.Judge() })
	for _, p := range promises {
		mark := "✗"
		if p.Kept {
			mark = "✓"
			kept++
		}
		tell(out, "%s %-14s%s\n  %-14s%s\n", mark, p.Name, p.Text, "", p.Link)
	}
	tell(out, "\n%v of %s were kept, in %v.\n", kept, inspect.Many(len(promises), "promise"), d.env.now().Sub(d.began).Round(time.Second))
	if broken := len(promises) - kept; broken > 0 {
		return fmt.Errorf("%s not kept: see %s", inspect.Many(broken, "promise"), demo.Page)
	}
	return nil
}
