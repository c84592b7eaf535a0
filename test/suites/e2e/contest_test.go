// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// calm is the timing of contests, in which a term must not end before the test ends it.
var calm = election.Timing{
	LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RenewInterval: 2 * time.Second, Exclusive: true,
}

// contest is one Lease on a real apiserver, and all candidates for it, which
// run inside the test process. At its end it checks that no two led.
type contest struct {
	t         *testing.T
	bed       *testbed.Testbed
	client    kubernetes.Interface
	namespace string
	name      string
	leases    typedcoordinationv1.LeaseInterface // of an admin who uses kubectl
	revisions watch.Interface
	history   electiontest.History
	journal
}

// newContest makes a contest whose Lease does not exist yet.
func newContest(t *testing.T, b *testbed.Testbed, namespace, name string) *contest {
	t.Helper()
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	c := &contest{
		t: t, bed: b, client: client, namespace: namespace, name: name, leases: client.CoordinationV1().Leases(namespace),
	}
	t.Cleanup(func() {
		if err := c.history.Check(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(c.String())
		}
	})
	return c
}

// create makes the Lease from the JSON of its labels, annotations and spec.
func (c *contest) create(content string) {
	c.t.Helper()
	lease := &coordinationv1.Lease{}
	must(c.t, json.Unmarshal([]byte(content), lease))
	lease.Name = c.name
	_, err := c.leases.Create(c.t.Context(), lease, metav1.CreateOptions{})
	must(c.t, err)
}

// sees waits for a revision of the Lease for which ok holds. Revisions come in
// order, each once, from the first call of sees on.
func (c *contest) sees(what string, ok func(*coordinationv1.Lease) bool) *coordinationv1.Lease {
	c.t.Helper()
	if c.revisions == nil {
		w, err := c.leases.Watch(c.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + c.name})
		must(c.t, err)
		c.t.Cleanup(w.Stop)
		c.revisions = w
	}
	for late := time.After(soon); ; {
		select {
		case event := <-c.revisions.ResultChan():
			if lease, is := event.Object.(*coordinationv1.Lease); is && event.Type != watch.Deleted && ok(lease) {
				return lease
			}
		case <-late:
			c.t.Fatalf("the Lease was never seen to be %s", what)
		}
	}
}

// noted matches revisions that are sound renewals of a term, with its token.
func noted(term election.Term) func(*coordinationv1.Lease) bool {
	return func(l *coordinationv1.Lease) bool {
		return holder(l) == term.Holder &&
			l.Spec.LeaseDurationSeconds != nil && *l.Spec.LeaseDurationSeconds == int32(calm.LeaseDuration/time.Second) &&
			l.Spec.RenewTime != nil && time.Since(l.Spec.RenewTime.Time).Abs() < time.Minute &&
			l.Annotations["zonelect.dev/holder"] == term.Holder &&
			l.Annotations["zonelect.dev/token"] == fmt.Sprint(term.Token) && l.Annotations["zonelect.dev/released"] == ""
	}
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// term waits for the n-th term, counted from 0.
func (c *contest) term(n int) election.Term {
	c.t.Helper()
	until(c.t, fmt.Sprint("term ", n), func() bool { return c.terms() > n })
	return c.history.Terms()[n]
}

// terms counts the terms of all candidates.
func (c *contest) terms() int { return len(c.history.Terms()) }

// entrant is one candidate of a contest.
type entrant struct {
	*election.Elector
	*contest
	identity string
	news     <-chan election.Transition
}

// enter starts a candidate on connections of its own. Its work returns at the
// end of its term.
func (c *contest) enter(identity string, change ...func(*rest.Config)) *entrant {
	c.t.Helper()
	e := &entrant{contest: c, identity: identity}
	cfg := c.bed.Cluster.RESTConfig("za")
	for _, f := range change {
		f(cfg)
	}
	env := &environment.Environment{Config: cfg, Namespace: c.namespace, Timing: calm.WithDefaults(), Logger: c.logger()}
	lock := leaseLock(c.t, env, c.name)
	var err error
	e.Elector, err = election.New(election.Config{
		Lock: lock, Candidate: locks.Candidate{Identity: identity, Zone: "z-" + identity}, Timing: calm, Logger: c.logger(),
		TakeoverDelay: func(election.Takeover) time.Duration { return 0 }, // they know no peers, and would wait for each other
	})
	must(c.t, err)
	e.news = e.Subscribe(c.t.Context())
	ctx, stop := context.WithCancel(c.t.Context())
	over := make(chan error)
	go func() {
		over <- e.Run(ctx, c.history.Lead(func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			return nil
		}))
	}()
	c.t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			c.t.Errorf("%s: Run: %v", identity, err)
		}
		lock.Capabilities().CloseConnections()
	})
	return e
}

// tells waits for a transition for which ok holds. Transitions come in order,
// each once.
func (e *entrant) tells(what string, ok func(election.Transition) bool) election.Transition {
	e.t.Helper()
	for late := time.After(soon); ; {
		select {
		case news := <-e.news:
			if ok(news) {
				return news
			}
		case <-late:
			e.t.Fatalf("%s never told of %s: it is %s, its problem is %v", e.identity, what, e.Status().State, e.Status().Problem)
		}
	}
}

// leads waits for a term of e.
func (e *entrant) leads() election.Term {
	e.t.Helper()
	return e.tells("leading", is(status.ChangeLeading)).Status.Term
}

func is(c status.Change) func(election.Transition) bool {
	return func(n election.Transition) bool { return n.Change == c }
}

// complains waits for a problem that contains text, unless e has it already.
func (e *entrant) complains(text string) error {
	e.t.Helper()
	says := func(s election.Status) bool { return s.Problem != nil && strings.Contains(s.Problem.Error(), text) }
	if now := e.Status(); says(now) {
		return now.Problem
	}
	return e.tells("the problem "+text, func(n election.Transition) bool { return says(n.Status) }).Status.Problem
}

// isWell waits until e has no problem.
func (e *entrant) isWell() {
	e.t.Helper()
	until(e.t, e.identity+" without a problem", func() bool { return e.Status().Problem == nil })
}

// atOnce runs a subtest for each row, all at the same time, because they mostly
// wait.
func atOnce[R any](t *testing.T, rows map[string]R, run func(*testing.T, R)) {
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		all.Go(func() { t.Run(name, func(t *testing.T) { run(t, rows[name]) }) })
	}
	all.Wait()
}

// nameOf makes an object's name from a subtest's.
func nameOf(t *testing.T) string {
	part := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(part)), "-")
}
