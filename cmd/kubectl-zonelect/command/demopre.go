// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// The labels of what a demonstration creates: of any, and of one.
const (
	demoLabel    = "app.kubernetes.io/managed-by"
	demoValue    = "zonelect-demo"
	demoRunLabel = "app.kubernetes.io/instance"
)

// demoVerbs are what a demonstration needs on leases.
var demoVerbs = []string{apierror.Get, apierror.List, apierror.Watch, apierror.Create, apierror.Update, apierror.Delete}

// connectionFlags are the flags of the command line that say how to reach the cluster.
func connectionFlags(c *cobra.Command) []string {
	var all []string
	c.Flags().Visit(func(f *pflag.Flag) {
		if c.InheritedFlags().Lookup(f.Name) == nil {
			return
		}
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, value := range values {
			all = append(all, "--"+f.Name+"="+value)
		}
	})
	return all
}

// announce finds the cluster, and says what will be created there. The candidates stay in this context,
// whatever becomes the current one meanwhile.
func (d *demoCommand) announce() error {
	var err error
	if d.cluster, err = d.env.cluster(roleDemo, false); err != nil {
		return err
	}
	config, err := d.env.restConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	d.server = config.Host
	where := "the cluster of this pod"
	if raw, err := d.env.config.ToRawKubeConfigLoader().RawConfig(); err == nil {
		if d.context = raw.CurrentContext; *d.env.config.Context != "" {
			d.context = *d.env.config.Context
		}
	}
	if d.context != "" {
		where = "context " + d.context
		d.connection = append(d.connection, "--context="+d.context)
	}
	d.connection = append(d.connection, "--namespace="+d.cluster.namespace)
	tell(d.out(), "Three candidates will run on this machine, and elect a leader on\n  %s, %s, namespace %s.\n", where, d.server, d.cluster.namespace)
	tell(d.out(), "They create Leases there, and nothing else, which are removed at the end:\n")
	tell(d.out(), "  %-28s the lock\n  %-28s for each candidate, by which the others know of it\n", d.lock, d.lock+".*")
	tell(d.out(), "They need %s on leases in that namespace.\n", strings.Join(demoVerbs, ", "))
	tell(d.out(), "If all else fails: %s\n\n", removal(d.cluster.namespace))
	return nil
}

// removal is a command for people that removes what demonstrations have left.
func removal(namespace string) string {
	return "kubectl delete leases -n " + namespace + " -l " + demoLabel + "=" + demoValue
}

// longestRequest bounds each request before a demonstration, and longestWrite each trial write: webhooks
// may hold one up for that long.
const longestRequest, longestWrite = 10 * time.Second, 30 * time.Second

// pace is how long requests take.
type pace struct{ median, slowest time.Duration }

// measured is how many requests the pace is taken from.
const measured = 5

// prepare tries everything that is needed, and creates nothing.
func (d *demoCommand) prepare(ctx context.Context) error {
	ahead, err := d.cluster.probe(ctx, d.env.now)
	if err != nil {
		return err
	}
	if err := d.mayAll(ctx); err != nil {
		return err
	}
	var took []time.Duration
	for range measured {
		began := time.Now()
		if err := d.tryLease(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	d.pace = pace{took[len(took)/2], took[len(took)-1]}
	d.seen.Slowest = d.pace.slowest
	d.say("a trial write takes %s (median of %d), the slowest took %s", demo.Text(d.pace.median), measured, demo.Text(d.pace.slowest))
	return d.removeOld(ctx, d.env.now().Add(ptr.Deref(ahead, 0)))
}

// mayAll asks whether this user has each right.
func (d *demoCommand) mayAll(ctx context.Context) error {
	var lacking []string
	for _, verb := range demoVerbs {
		ctx, cancel := context.WithTimeout(ctx, longestRequest)
		allowed, err := d.cluster.permits(ctx, authorizationv1.ResourceAttributes{Verb: verb, Group: apierror.Leases.Group, Version: apierror.Leases.Version, Resource: apierror.Leases.Name})
		cancel()
		switch {
		case err != nil:
			return err
		case !allowed:
			lacking = append(lacking, verb)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return lackingRights{apierror.Missing{Verb: strings.Join(lacking, ", "), Namespace: d.cluster.namespace, Resource: apierror.Leases}}
}

// lackingRights is the error of a user who asked what they may do. The verbs are those that they may not.
type lackingRights struct{ apierror.Missing }

func (l lackingRights) Error() string {
	return fmt.Sprintf("you may not %s %s in namespace %s", l.Verb, l.Resource, l.Namespace)
}

// tryLease makes a trial of creating the lock, which changes nothing.
func (d *demoCommand) tryLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longestWrite)
	defer cancel()
	id := apierror.Object{Resource: apierror.Leases, Namespace: d.cluster.namespace, Name: d.lock}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name, Labels: demoLabels(d.lock)}}
	err := rawapi.Request(d.cluster.Coordination, http.MethodPost, id.Resource, id.Namespace).Param("dryRun", metav1.DryRunAll).Body(lease).Do(ctx).Error()
	if err = id.Explain(apierror.Create, err); err != nil {
		return because{fmt.Sprintf("a trial of creating a Lease was refused: %v", err), err}
	}
	return nil
}

// demoLabels are those of what a demonstration creates.
func demoLabels(lock string) map[string]string {
	return map[string]string{demoLabel: demoValue, demoRunLabel: lock}
}

// demoSelector selects what a demonstration creates.
func demoSelector(lock string) string { return labels.SelectorFromSet(demoLabels(lock)).String() }

// old is after how long what a demonstration created belongs to one that is over.
const old = 10 * time.Minute

// removeOld removes what a demonstration has left that was killed, together with its candidates. now is by
// the clock of the API server.
func (d *demoCommand) removeOld(ctx context.Context, now time.Time) error {
	left, err := leasesOf(ctx, d.cluster, demoLabel+"="+demoValue)
	if err != nil {
		return err
	}
	left = slices.DeleteFunc(left, func(l coordinationv1.Lease) bool {
		return l.CreationTimestamp.IsZero() || now.Sub(l.CreationTimestamp.Time) < old
	})
	if len(left) == 0 {
		return nil
	}
	d.say("an earlier demo left %s: removed", inspect.Many(len(left), "Lease"))
	return remove(ctx, d.cluster, left)
}

// leasesOf lists the Leases of the namespace with a label.
func leasesOf(ctx context.Context, c cluster, selector string) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRequest)
	defer cancel()
	list, err := rawapi.List[coordinationv1.Lease](ctx, c.Coordination, apierror.Leases, c.namespace, selector)
	return list.Items, err
}

// remove deletes Leases. One that is gone already is not an error.
func remove(ctx context.Context, c cluster, all []coordinationv1.Lease) error {
	var errs []error
	for _, l := range all {
		ctx, cancel := context.WithTimeout(ctx, longestRequest)
		id := apierror.Object{Resource: apierror.Leases, Namespace: l.Namespace, Name: l.Name}
		if err := rawapi.New[coordinationv1.Lease](c.Coordination, id).Delete(ctx, l.UID, ""); err != nil && !id.Absent(err) {
			errs = append(errs, err)
		}
		cancel()
	}
	return errors.Join(errs...)
}

// probe asks the API server for its version, which everybody may, and returns by how much its clock is
// ahead of this machine's; nil if it does not say.
func (c cluster) probe(ctx context.Context, now func() time.Time) (*time.Duration, error) {
	client, is := c.core.(*rest.RESTClient)
	if !is || client.Client == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestRequest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, client.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return nil, err
	}
	sent := now()
	answer, err := client.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // nobody reads it
	between := sent.Add(now().Sub(sent) / 2)
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return nil, nil
	}
	d := date.Add(500 * time.Millisecond).Sub(between) // it has whole seconds
	return &d, nil
}

// permits asks whether this user may do something in the namespace.
func (c cluster) permits(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	what.Namespace = c.namespace
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	answer := &authorizationv1.SelfSubjectAccessReview{}
	err := rawapi.Request(c.authorization, http.MethodPost, apierror.AccessReviews, "").Body(review).Do(ctx).Into(answer)
	return answer.Status.Allowed, apierror.Object{Resource: apierror.AccessReviews}.Explain(apierror.Create, err)
}
