// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/slow"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

var (
	outages = flag.String("outages", "5s,20s", "for how long all API servers are away, one after the other")
	late    = flag.String("late", "", "how late writes of Leases land for a minute, one after the other")
	crowd   = flag.Int("crowd", 0, "how many leaders come back at the same time")
	phases  = flag.Int("phases", 0, "how many patient managers an outage of 45 s meets, each at another moment of its RenewInterval")
)

// way is a way in which an operator can be elected.
type way struct {
	name     string
	kind     trial.Kind
	works    string // the event by which it shows that it works
	lock     string
	replicas int
	args     []string
	lasting  bool
	survives time.Duration // an outage that costs it no term

	pods []*pod
}

func ways() []*way {
	openshift := []string{"--plain", "--lease-duration=137s", "--renew-deadline=107s", "--renew-interval=26s"}
	all := []*way{
		{name: "operator.Run, 3 replicas, 15/10/2", kind: trial.Zonelect, works: "leading", lock: "run", replicas: 3, lasting: true},
		{name: "lasting, 3 replicas, 15/10/2", lock: "lasting", replicas: 3, args: []string{"--lasting"}, lasting: true},
		{name: "lasting, 1 replica, 60/54/6", lock: "patient", replicas: 1, args: []string{"--lasting", "--patient"}, lasting: true, survives: 45 * time.Second},
		{name: "NewManager, 3 replicas, 15/10/2", lock: "ending", replicas: 3},
		{name: "controller-runtime, 3 replicas, 15/10/2", lock: "plain", replicas: 3, args: []string{"--plain"}},
		{name: "controller-runtime, 3 replicas, 137/107/26", lock: "openshift", replicas: 3, args: openshift},
		{name: "no election, 1 replica", lock: "alone", replicas: 1, args: []string{"--alone"}},
	}
	for _, w := range all {
		w.kind, w.works = cmp.Or(w.kind, trial.Manager), cmp.Or(w.works, "reconciling")
	}
	return all
}

// site is a control plane with operators.
type site struct {
	*testbed.Testbed
	client *kubernetes.Clientset
	ways   []*way
	hooks  *slow.Hooks
	starts time.Duration // what an API server needs to start
}

// begin starts all operators, and waits until one replica of each reconciles.
func begin(t *testing.T) *site {
	t.Helper()
	s := &site{Testbed: trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true}), ways: ways()}
	var err error
	s.client, err = kubernetes.NewForConfig(s.Cluster.RESTConfig("za"))
	must(t, err)
	s.hooks = slow.StartHooks()
	t.Cleanup(s.hooks.Close)
	must(t, s.hooks.Add(t.Context(), s.client, "default", false, true, 20*time.Second))
	must(t, trial.Build(t.Context(), trial.Manager, trial.Zonelect))
	must(t, s.Parts.Kill(t.Context(), testbed.APIServer, "za"))
	s.starts = start(t, s.Testbed)
	for _, w := range s.ways {
		s.poke(t, w)
		for i := range w.replicas {
			p := &pod{bed: s.Testbed, kind: w.kind, lock: w.lock, name: fmt.Sprint(w.lock, "-", i), args: slices.Clone(w.args)}
			if w.kind == trial.Manager {
				p.serve(t)
			}
			p.start(t)
			if w.kind == trial.Manager {
				p.ask(t)
			}
			w.pods = append(w.pods, p)
		}
	}
	for _, w := range s.ways {
		s.await(t, w, w.works, time.Time{})
	}
	return s
}

// start starts the API server again, and returns how long that took.
func start(t *testing.T, bed *testbed.Testbed) time.Duration {
	t.Helper()
	began := time.Now()
	must(t, bed.Parts.Start(t.Context(), testbed.APIServer, "za"))
	return time.Since(began)
}

// poke makes something that the leader of a way must reconcile.
func (s *site) poke(t *testing.T, w *way) {
	t.Helper()
	_, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "thing-", Labels: map[string]string{"lock": w.lock}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// events returns what the replicas of a way have printed since then, in the order of time.
func (w *way) events(since time.Time) (all []events.Event) {
	for _, p := range w.pods {
		all = append(all, p.events(since)...)
	}
	slices.SortStableFunc(all, func(a, b events.Event) int { return a.Time.Compare(b.Time) })
	return all
}

// await waits until a replica prints an event, and returns when that was.
func (s *site) await(t *testing.T, w *way, event string, since time.Time) time.Time {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), 8*time.Minute)
	defer end()
	for ctx.Err() == nil {
		all := w.events(since)
		if i := slices.IndexFunc(all, func(e events.Event) bool { return e.Event == event }); i >= 0 {
			return all[i].Time
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no replica of %s prints %q", w.name, event)
	return time.Time{}
}

// led returns whether somebody leads at a moment, and how many terms have ended until then.
func (w *way) led(at time.Time) (leads bool, ends int) {
	leader := ""
	for _, e := range w.events(time.Time{}) {
		switch {
		case e.Time.After(at):
			return leader != "", ends
		case e.Event == "leading":
			leader = e.Identity
		case (e.Event == "stopping" || e.Event == "ended") && e.Identity == leader:
			leader = ""
			ends++
		}
	}
	return leader != "", ends
}

// row is what a fault cost the operators of one way.
type row struct {
	*way
	restarts, lost  int
	asked, answered int
	leads, works    time.Duration  // after the fault is over
	lists           map[string]int // in the minute after, by resource
	refused         int            // lists, since the fault began
	leading         bool           // somebody leads already when the fault is over
}

// suffer returns what a fault costs that lasts for so long.
func (s *site) suffer(t *testing.T, fault, heal func(), lasts time.Duration) (rows []*row) {
	t.Helper()
	began := time.Now()
	fault()
	time.Sleep(time.Until(began.Add(lasts)))
	heal()
	over := time.Now()
	for _, w := range s.ways {
		s.poke(t, w)
	}
	for _, w := range s.ways {
		led, _ := w.led(over)
		r := &row{way: w, leading: led, lists: map[string]int{}}
		if !r.leading {
			r.leads = s.await(t, w, "leading", over).Sub(over)
			r.works = r.leads
		}
		if w.works == "reconciling" {
			r.works = s.await(t, w, w.works, over).Sub(over)
		}
		rows = append(rows, r)
	}
	time.Sleep(time.Until(over.Add(time.Minute)))
	for _, r := range rows {
		_, before := r.led(began)
		_, after := r.led(time.Now())
		r.lost = after - before
		for _, e := range r.events(began) {
			switch {
			case e.Event == "ended":
				r.restarts++
			case e.Event == "lists" && !e.Time.Before(over) && e.Time.Before(over.Add(time.Minute)):
				r.lists[e.Path]++
			case e.Event == "refused":
				r.refused++
			}
		}
		for _, p := range r.pods {
			all, ok := p.answered(began)
			r.asked, r.answered = r.asked+all, r.answered+ok
		}
	}
	return rows
}

// tell prints what a fault cost.
func tell(t *testing.T, fault string, rows []*row) {
	text := &strings.Builder{}
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\trestarts\tterms lost\twebhook\tleads again after\tworks again after\tlists of objects\tof candidates\n", fault)
	for _, r := range rows {
		leads := r.leads.Round(10 * time.Millisecond).String()
		if r.leading {
			leads = "leading"
		}
		webhook, things, candidates := "-", "-", "-" // of a manager
		if r.kind == trial.Manager {
			webhook = fmt.Sprintf("%.1f %%", 100*float64(r.answered)/float64(r.asked))
			things, candidates = strconv.Itoa(r.lists["configmaps"]), strconv.Itoa(r.lists["leases"])
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%v\t%s\t%s\n", r.name, r.restarts, r.lost, webhook, leads, r.works.Round(10*time.Millisecond), things, candidates)
	}
	_ = table.Flush()
	t.Log("\n" + text.String())
}

// judge holds those that outlive their terms to what they promise.
func judge(t *testing.T, fault string, lasts time.Duration, rows []*row) {
	for _, r := range rows {
		if !r.lasting {
			continue
		}
		if r.restarts > 0 || r.kind == trial.Manager && r.asked == 0 || r.answered < r.asked {
			t.Errorf("%s: %s: %d restarts, and %d of %d requests to webhooks were answered", fault, r.name, r.restarts, r.answered, r.asked)
		}
		if most := 10 * time.Second; r.leads > most || r.works > most {
			t.Errorf("%s: %s leads %v and works %v after its end, want %v at most", fault, r.name, r.leads, r.works, most)
		}
		// An API server that has started knows no version from before that. So each informer may need a
		// list, as that of a manager that never stops does. And each candidate looks for the others. One of
		// them may be answered twice.
		if r.lists["configmaps"] > r.replicas+1 || r.lists["leases"] > r.replicas+1 {
			t.Errorf("%s: %s sends %v lists in the minute after, want one of each kind for each of %d replicas, and one more at most", fault, r.name, r.lists, r.replicas)
		}
		t.Logf("%s: %s was refused %d lists", fault, r.name, r.refused)
		if most := 30 * r.replicas; r.refused > most {
			t.Errorf("%s: %s was refused %d lists, want %d at most", fault, r.name, r.refused, most)
		}
		if r.lost > 0 && lasts <= r.survives {
			t.Errorf("%s: %s lost %d terms", fault, r.name, r.lost)
		}
	}
}

func durations(t *testing.T, text string) (all []time.Duration) {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		d, err := time.ParseDuration(field)
		must(t, err)
		all = append(all, d)
	}
	return all
}

func TestAnOutageOfTheAPIRestartsNoLastingManager(t *testing.T) {
	s := begin(t)
	for _, lasts := range durations(t, *outages) {
		fault := fmt.Sprint("all API servers away for ", lasts)
		time.Sleep(10 * time.Second)
		rows := s.suffer(t, func() { must(t, s.Parts.Kill(t.Context(), testbed.APIServer, "za")) }, func() { start(t, s.Testbed) }, lasts-s.starts)
		tell(t, fault, rows)
		judge(t, fault, lasts, rows)
	}
	for _, d := range durations(t, *late) {
		fault := fmt.Sprintf("writes of Leases %v late for a minute", d)
		time.Sleep(10 * time.Second)
		rows := s.suffer(t, func() { s.hooks.Begin("default", nil, slow.Constant(d)) }, func() { s.hooks.Begin("default", nil, nil) }, time.Minute)
		tell(t, fault, rows)
		judge(t, fault, time.Minute, rows)
	}
}

// TestAPatientManagerLosesNoTermInAnOutageOf45Seconds, at whatever moment of its RenewInterval that
// begins.
func TestAPatientManagerLosesNoTermInAnOutageOf45Seconds(t *testing.T) {
	if *phases == 0 {
		t.Skip("takes two minutes: set -phases")
	}
	bed := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	must(t, bed.Parts.Kill(t.Context(), testbed.APIServer, "za"))
	starts := start(t, bed)
	var seats []*trial.Seat
	for i := range *phases {
		name := fmt.Sprint("patient-", i)
		began := time.Now()
		s, err := trial.Start(t.Context(), bed, trial.Manager, "za", name, name, "--lasting", "--patient")
		must(t, err)
		led, err := s.Await(t.Context(), "leading", time.Time{})
		must(t, err)
		seats = append(seats, s)
		// The next one leads a part of a RenewInterval later, whatever this one took.
		step := timing.Patient().RenewInterval / time.Duration(*phases)
		next := led.Time.Add(step)
		for took := led.Time.Sub(began); time.Until(next) < -took; {
			next = next.Add(timing.Patient().RenewInterval)
		}
		time.Sleep(time.Until(next))
	}
	for name, outage := range map[string]struct{ begin, end func() error }{
		"frozen": {func() error { return bed.Parts.Pause(testbed.APIServer, "za") }, func() error { return bed.Parts.Resume(testbed.APIServer, "za") }},
		"killed": {
			func() error { return bed.Parts.Kill(t.Context(), testbed.APIServer, "za") },
			func() error { return bed.Parts.Start(t.Context(), testbed.APIServer, "za") },
		},
	} {
		time.Sleep(20 * time.Second)
		began := time.Now()
		must(t, outage.begin())
		wait := 45 * time.Second
		if name == "killed" {
			wait -= starts
		}
		time.Sleep(time.Until(began.Add(wait)))
		must(t, outage.end())
		away := time.Since(began)
		time.Sleep(15 * time.Second)
		for _, s := range seats {
			if stops := slices.DeleteFunc(s.Events(), func(e events.Event) bool { return e.Event != "stopping" }); len(stops) > 0 {
				t.Errorf("the API server is %s: %s lost its term %v after that", name, s.Identity, stops[0].Time.Sub(began))
			}
		}
		t.Logf("%d patient managers led on without the API for %v: it was %s", len(seats), away.Round(100*time.Millisecond), name)
	}
}
