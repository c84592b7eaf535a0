// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/migrate"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// rollout is the migration of one operator: from a version with leader-for-life
// to one with zonelect, pod by pod, on to phase sealed, and all the way back.
type rollout struct {
	*migration
	plan
	outages *faults // of the bed
	began   time.Time
	old     []*pod
	fresh   []*pod
	kills   []fault
	// collectors is how long a candidate waits for old garbage collectors.
	collectors time.Duration
}

// script lists the steps for every operator.
var script = []struct {
	name string
	do   func(*rollout, *testing.T)
}{
	{"three legacy pods start", (*rollout).startLegacy},
	{"the first candidate starts", (*rollout).startFresh},
	{"a legacy follower goes", (*rollout).endFollower},
	{"the second candidate starts", (*rollout).startFresh},
	{"the other legacy follower goes", (*rollout).endFollower},
	{"the third candidate starts", (*rollout).startFresh},
	{"the legacy leader goes", (*rollout).endLegacyLeader},
	{"a candidate that leads goes", (*rollout).failOver},
	{"sealed", (*rollout).seal},
	{"a legacy pod meets the seal", (*rollout).meetSeal},
	{"given back", (*rollout).giveBack},
	{"legacy pods come back", (*rollout).comeBack},
	{"legacy pods lead by phase", (*rollout).leadAgain},
	{"the candidates go", (*rollout).endCandidates},
}

func (r *rollout) run(t *testing.T) {
	t.Log(r.plan)
	r.began = time.Now()
	var disturbing sync.WaitGroup
	defer disturbing.Wait()
	for i, step := range script {
		if i == r.step {
			disturbing.Go(func() { r.disturb(t) })
		}
		step.do(r, t)
	}
	disturbing.Wait()
	r.awaitLeads(t, r.old...)
}

func (r *rollout) startLegacy(t *testing.T) {
	for i, zone := range threeZones {
		r.old = append(r.old, r.launch(t, trial.Legacy, zone, fmt.Sprintf("old-%d", i)))
		if i == 0 {
			r.awaitLeads(t, r.old...)
		}
	}
}

// startFresh starts the next candidate, as a rolling update does before it ends
// an old pod.
func (r *rollout) startFresh(t *testing.T) {
	i := len(r.fresh)
	r.fresh = append(r.fresh, r.launch(t, trial.Zonelect, threeZones[i], fmt.Sprintf("new-%d", i)))
	time.Sleep(time.Second)
}

func (r *rollout) endFollower(t *testing.T) { r.remove(t, r.old[len(r.fresh)]) }

func (r *rollout) endLegacyLeader(t *testing.T) {
	r.remove(t, r.old[0])
	r.awaitLeads(t, r.fresh...)
}

func (r *rollout) failOver(t *testing.T) {
	leader := r.awaitLeads(t, r.fresh...)
	before := r.configMap(t)
	r.remove(t, leader)
	r.fresh = others(r.fresh, leader)
	r.awaitLeads(t, r.fresh...)
	// A shield goes with its only owner, if the others had no time to join it.
	if after := r.configMap(t); len(before.OwnerReferences) > 1 && after.UID != before.UID {
		t.Errorf("the failover changed the ConfigMap from %+v to %+v", before.ObjectMeta, after.ObjectMeta)
	}
}

func (r *rollout) seal(t *testing.T) {
	r.move(t, migrate.Sealed, (*migrate.Migration).Advance)
	r.awaitConfigMap(t, "sealed", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 0 })
}

func (r *rollout) meetSeal(t *testing.T) {
	stranger := r.launch(t, trial.Legacy, "za", "stranger")
	time.Sleep(5 * time.Second)
	r.remove(t, stranger)
}

func (r *rollout) giveBack(t *testing.T) {
	r.move(t, migrate.Dual, (*migrate.Migration).Rollback)
	r.awaitConfigMap(t, "given back", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) > 0 })
}

func (r *rollout) comeBack(t *testing.T) {
	r.old = nil
	for i, zone := range threeZones {
		r.old = append(r.old, r.launch(t, trial.Legacy, zone, fmt.Sprintf("again-%d", i)))
	}
	time.Sleep(time.Second)
}

func (r *rollout) leadAgain(t *testing.T) {
	if r.throughLegacy {
		r.move(t, migrate.Legacy, (*migrate.Migration).Rollback)
		r.awaitLeads(t, r.old...)
	}
}

func (r *rollout) endCandidates(t *testing.T) {
	if leader := r.leads(r.fresh...); leader != nil {
		r.fresh = append(others(r.fresh, leader), leader)
	}
	for _, p := range r.fresh {
		r.remove(t, p)
	}
	r.awaitLeads(t, r.old...)
}

// move changes the phase, and waits until the candidates have followed.
func (r *rollout) move(t *testing.T, to migrate.Phase, step func(*migrate.Migration, context.Context, migrate.Options) (migrate.Outcome, error)) {
	t.Helper()
	if r.byHand {
		r.phase(t, string(to))
		return
	}
	r.insist(t, "go to phase "+string(to), func(ctx context.Context, c *kubernetes.Clientset) error {
		m, err := r.mover(c)
		if err != nil {
			return err
		}
		if now, err := m.Inspect(ctx); err == nil && now.Phase == to {
			return nil // the answer of the last attempt was lost
		}
		if _, err = step(m, ctx, migrate.Options{}); err != nil {
			t.Logf("to phase %s: %v", to, err)
		}
		return err
	})
	r.insist(t, "be followed to phase "+string(to), func(ctx context.Context, c *kubernetes.Clientset) error {
		m, err := r.mover(c)
		if err == nil {
			_, err = m.Await(ctx, nil)
		}
		return err
	})
}

func (r *rollout) mover(c *kubernetes.Clientset) (*migrate.Migration, error) {
	return migrate.New(migrate.Config{
		Core: c.CoreV1().RESTClient(), Coordination: c.CoordinationV1().RESTClient(),
		Apps: c.AppsV1().RESTClient(), Authorization: c.AuthorizationV1().RESTClient(),
		Namespace: "default", Lock: r.lock, Selector: "app=" + r.lock,
	})
}

// limit is when somebody must lead again. If no fault hit the gap, that is:
//
//   - mostGap after the last legacy pod was gone, before a candidate leads, plus
//     the wait for old garbage collectors;
//   - a lease and mostGap after a candidate was killed, before another leads;
//   - the time of the collector and the longest sleep of leader-for-life, plus
//     mostGap, before another legacy pod leads; or, for the same one, the
//     restart of its container.
//
// The lease of a killed candidate must run out first, whether it led, waited to
// lead or was about to give the lock back. While an apiserver restarts, a step is
// up to three requests late, and each of them may hang.
func (r *rollout) limit(g history.Gap) time.Time {
	var most time.Duration
	switch {
	case g.Last.Legacy && !g.Next.Legacy:
		most = mostGap + r.collectors
	case !g.Next.Legacy:
		most = lease + mostGap + r.collectors
	case g.Last.Pod == g.Next.Pod:
		most = containerRestart + mostGap
	default:
		most = collection + longestBackoff + mostGap
	}
	limit := g.Owed().Add(most)
	if !g.Next.Legacy {
		most = mostGap + r.collectors
	}
	for _, k := range r.kills {
		if after := k.at.Add(lease + most); k.leases && k.at.Before(g.Next.Start) && after.After(limit) {
			limit = after
		}
	}
	const settle = 5 * time.Second // until those that waited have tried again
	for range r.outages.between(g.Last.End.Add(-settle), g.Next.Start) {
		limit = limit.Add(3 * timing.DefaultRenewInterval)
	}
	return limit
}

func TestAGapIsTooLongByWhatCameBefore(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	killed := []fault{{leases: true, at: second(90), over: second(91)}}
	back := int((collection + longestBackoff + mostGap) / time.Second)
	for name, c := range map[string]struct {
		last, next string
		gone       int // when the last leader's pod was, which led until 100; 0 is never
		kills      []fault
		outages    []fault
		limit      int
	}{
		"the last legacy pod":               {"old-0", "new-0", 101, nil, nil, 104},
		"a legacy program that restarts":    {"old-0", "old-0", 0, nil, nil, 104},
		"another legacy pod":                {"old-0", "old-1", 101, nil, nil, 101 + back},
		"a candidate":                       {"new-0", "new-1", 0, nil, nil, 118},
		"the way back":                      {"new-0", "old-0", 101, nil, nil, 101 + back},
		"a candidate that waited is killed": {"old-0", "new-0", 101, killed, nil, 108},
		"a kill long ago":                   {"new-0", "new-1", 110, killed, nil, 128},
		"a kill on the way back":            {"new-0", "old-0", 0, []fault{{leases: true, at: second(100)}}, nil, 115 + back},
		"a legacy program is killed":        {"old-0", "old-0", 0, []fault{{at: second(100)}}, nil, 104},
		"an apiserver that was away":        {"old-0", "new-0", 101, nil, []fault{{at: second(90), over: second(96)}}, 110},
		"an apiserver that is away":         {"old-0", "new-0", 101, nil, []fault{{at: second(101)}}, 110},
		"an apiserver that was back":        {"old-0", "new-0", 101, nil, []fault{{at: second(80), over: second(90)}}, 104},
	} {
		led := func(pod string, from, to int) history.Span {
			return history.Span{Pod: pod, Legacy: pod[0] == 'o', Start: second(from), End: second(to)}
		}
		g := history.Gap{Last: led(c.last, 50, 100), Next: led(c.next, 102, 200)}
		if c.gone != 0 {
			g.Last.Gone = second(c.gone)
			g.Next.Start = second(c.gone + 1)
		}
		r := &rollout{kills: c.kills, outages: &faults{all: c.outages}}
		if limit := r.limit(g).Truncate(time.Second); !limit.Equal(second(c.limit)) {
			t.Errorf("%s: somebody must lead by %d, want %d", name, limit.Unix(), c.limit)
		}
	}
}

// judge checks the history against the limits, and returns a row of the report.
func (r *rollout) judge(t *testing.T) []string {
	h := r.history()
	if len(h) < 4 {
		t.Errorf("%d terms only: %+v", len(h), h)
	}
	for _, s := range r.exited() {
		t.Errorf("%s ended by itself", s.Identity)
	}
	ours, theirs := judgeOverlaps(t, h)
	killed := r.judgeChanges(t, h)
	for _, o := range r.outages.between(r.began, time.Now()) {
		killed = append(killed, fmt.Sprintf("%s restarted %s", o.to, o.when))
	}
	longest, gaps := r.judgeGaps(t, h)
	return []string{
		r.variant, fmt.Sprint(r.seed), cmp.Or(strings.Join(killed, ", "), "none"), strconv.Itoa(len(h)),
		strconv.Itoa(h.Changes()), strconv.Itoa(ours), strconv.Itoa(theirs), longest.String(), strings.Join(gaps, ", "),
	}
}

// judgeChanges fails if the leader changed more often than leaders were
// replaced or killed, and returns the killed ones.
func (r *rollout) judgeChanges(t *testing.T, h history.History) (killed []string) {
	allowed := 0
	for _, p := range r.removed() {
		if slices.ContainsFunc(h, func(s history.Span) bool { return s.Pod == p.name }) {
			allowed++
		}
	}
	for _, k := range r.kills {
		who := r.short(k.to)
		if slices.ContainsFunc(h, func(s history.Span) bool { return s.Pod == k.to && s.End.Equal(k.at) }) {
			who = "leader " + who
			allowed++
		}
		killed = append(killed, fmt.Sprintf("%s killed %s", who, k.when))
	}
	if n := h.Changes(); n > allowed {
		t.Errorf("the leader changed %d times, want %d at most, for so many leaders were replaced or killed", n, allowed)
	}
	return killed
}

// judgeGaps fails for gaps that were too long, and returns the longest, and a
// text for each.
func (r *rollout) judgeGaps(t *testing.T, h history.History) (longest time.Duration, all []string) {
	for _, g := range h.Gaps() {
		length := g.Length().Round(time.Millisecond)
		if late := g.Next.Start.Sub(r.limit(g)); late > 0 {
			t.Errorf("nobody led between %s and %s for %v, which is %v too long", g.Last.Pod, g.Next.Pod, length, late)
		}
		longest = max(longest, length)
		all = append(all, fmt.Sprintf("%s>%s %v", r.short(g.Last.Pod), r.short(g.Next.Pod), length))
	}
	return longest, all
}

func (r *rollout) short(name string) string { return strings.TrimPrefix(name, r.lock+"-") }

// report is a table of all migrations. It is safe for concurrent use.
type report struct {
	mu   sync.Mutex
	rows []string
}

func (r *report) add(cells []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, strings.Join(cells, "\t"))
}

func (r *report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "variant\tseed\tfaults\tterms\tchanges\toverlaps\tlegacy's own\tlongest gap\tgaps")
	for _, row := range r.rows {
		fmt.Fprintln(w, row)
	}
	w.Flush()
	return text.String()
}

// An operator is rolled pod by pod from each version of leader-for-life to
// zonelect, on to phase sealed, and back, with and without a fault on the way.
func TestAMigrationNeverHasTwoLeaders(t *testing.T) {
	todo := rounds(t)
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	outages, told := &faults{}, &report{}
	for _, seeds := range todo {
		var all sync.WaitGroup
		for variant, seed := range seeds {
			all.Go(func() {
				name := fmt.Sprintf("%s-%d", variant, seed)
				t.Run(name, func(t *testing.T) {
					p := &past{b, patience(t, 4*time.Minute), client}
					m := &migration{past: p, lock: "op-" + name, variant: variant}
					r := &rollout{migration: m, plan: newPlan(variant, seed), outages: outages, collectors: m.settle(t)}
					defer m.stop()
					defer func() { told.add(r.judge(t)) }() // also for a migration that was broken off
					r.run(t)
				})
			})
		}
		all.Wait()
	}
	t.Logf("\n%v", told)
}
