// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// weak begins the names of recordings of electors that have a weakness.
const weak = "weak-"

// TestTheVerdictsOnRealElectorsAreThese, and none of the healthy ones raises an alarm.
func TestTheVerdictsOnRealElectorsAreThese(t *testing.T) {
	var all strings.Builder
	healthy := 0
	for _, name := range recorded(t) {
		for _, r := range load(t, name).judged() {
			fmt.Fprintf(&all, "%s: %s %s/%s held by %q, written by %q, as %s, phase %q, pod %q of %q, replicas %v, %d renewals\n", name, r.Kind, r.Namespace, r.Name, Brief(r.Holder), r.Writer, r.Elector, r.Phase, r.Pod, r.Workload, r.Replicas, r.Renewals)
			fmt.Fprintf(&all, "  period %v, lease %v, deadline %v, crash %v, zone %v\n", r.Period, r.Lease, r.Deadline, r.Crash, r.LostZone)
			healthy++
			for _, f := range r.Findings {
				fmt.Fprintf(&all, "  %s %s: %s\n", f.Result, f.Check, f.Text)
				if !strings.HasPrefix(name, weak) && f.Result != doctor.Note {
					t.Errorf("%s: a false alarm: %s", name, f.Text)
				}
			}
			if strings.HasPrefix(name, weak) {
				healthy--
			}
		}
	}
	if healthy < 20 {
		t.Errorf("%d healthy electors were recorded", healthy)
	}
	const golden = "testdata/verdicts.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		t.Errorf("the verdicts are\n%s\nwant\n%s", all.String(), want)
	}
}

// planted are weaknesses: those of real electors, and those that one change makes of a healthy one.
var planted = []struct {
	name, of string
	change   change
	check    string
	result   doctor.Result
	says     string
}{
	{"a leader's pod was deleted, and its replica hangs", "weak-gone", nil, "holder-gone", doctor.Problem, "no pod in the cluster has its name; of Deployment weak-gone run 1"},
	{"the program was removed", "weak-gone", func(r *recording) { r.Pods = nil }, "silent", doctor.Warning, "no pod in the cluster has its name"},
	{"a leader's pod has ended", "client-go", func(r *recording) {
		silentAfter(time.Second)(r)
		leadersPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })(r)
	}, "holder-gone", doctor.Problem, "has ended; of Deployment client-go run 1"},
	{"a leader's pod is on a dead node", "client-go", func(r *recording) {
		silentAfter(time.Second)(r)
		leadersPod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: r.Began} })(r)
	}, "holder-gone", doctor.Problem, "is being deleted"},
	{"a StatefulSet's pod was replaced by one of its name", "zonelect", func(r *recording) {
		silentAfter(time.Second)(r)
		leadersPod(func(p *corev1.Pod) { p.UID = "another" })(r)
	}, "holder-gone", doctor.Problem, "is gone"},
	{"a leader hangs", "controller-runtime", silentAfter(time.Second), "silent", doctor.Warning, "has not renewed for"},
	{"a leader hangs in its pod", "client-go-30", silentAfter(time.Second), "silent", doctor.Problem, "though its pod client-go-30-6b7f9c8d54-x02vq runs"},
	{"everybody left", "client-go", lease(func(l *coordinationv1.Lease, _ time.Duration) { l.Spec.HolderIdentity = new("") }), "vacant", doctor.Warning, "nobody took it"},
	{"leaders steal", "client-go", lease(func(l *coordinationv1.Lease, after time.Duration) {
		if after > 10*time.Second {
			l.Spec.HolderIdentity = new("thief")
		}
	}), "taken-early", doctor.Problem, "thief took it from"},
	{"a lease ran out while it was held", "client-go", pausing(10*time.Second, 27*time.Second), "ran-out", doctor.Problem, "its lease lasts 15s"},
	{"renewals are late", "client-go", pausing(10*time.Second, 20*time.Second), "late", doctor.Warning, "they come every"},
	{"a lease of 3s is renewed every 2.9s", "client-go", func(r *recording) { slowly(1.45)(r); lasts(3)(r) }, "tight", doctor.Warning, "the lease lasts 3s"},
	{"16s/15s/5s", "weak-margin", nil, "margin", doctor.Warning, "stops up to 20s after its last renewal"},
	{"35s/30s/5s, which leaves nothing", "client-go-30", func(r *recording) {
		lasts(35)(r)
		args("--leader-election-lease-duration 35s --leader-election-renew-deadline 30s --leader-election-retry-period 5s")(r)
	}, "margin", doctor.Warning, "stops up to 35s after its last renewal"},
	{"a leader that changes all the time", "client-go", lease(func(l *coordinationv1.Lease, after time.Duration) {
		l.Spec.HolderIdentity = new(fmt.Sprint("holder-", int(after/(8*time.Second))))
	}), "flaps", doctor.Warning, "changed 4 times in 4"},
	{"a leader that has changed every half hour", "client-go", lease(func(l *coordinationv1.Lease, _ time.Duration) {
		l.CreationTimestamp.Time = l.CreationTimestamp.Add(-240 * time.Hour)
		l.Spec.LeaseTransitions = new(int32(480))
	}), "flaps", doctor.Warning, "changed 480 times in the 10d"},
	{"one replica", "weak-alone", nil, "one-replica", doctor.Warning, "is the only pod of Deployment weak-alone"},
	{"one of two replicas is pending deletion", "client-go", func(r *recording) { r.Pods[1].DeletionTimestamp = &metav1.Time{Time: r.Began} }, "one-replica", doctor.Warning, "is the only pod of Deployment client-go that runs"},
	{"all replicas in one zone", "fabric8", pods(func(_ int, p *corev1.Pod) { p.Spec.NodeName = "node-za" }), "one-zone", doctor.Warning, "all 2 pods of Deployment fabric8 are in zone za"},
	{"no duration", "java", lease(func(l *coordinationv1.Lease, _ time.Duration) { l.Spec.LeaseDurationSeconds = nil }), "no-duration", doctor.Warning, "does not say for how long"},
	{"a lease of an hour", "client-go-0.26", lasts(3600), "long-lease", doctor.Warning, "1h0m0s"},
	{"leader-for-life", "weak-for-life", nil, "for-life", doctor.Warning, "until it is deleted"},
	{"leader-for-life whose pod is gone", "weak-for-life", leadersPod(nil), "holder-gone", doctor.Problem, "until the garbage collector"},
	{"leader-for-life whose pod was evicted", "weak-for-life", leadersPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "holder-gone", doctor.Problem, "until somebody deletes it"},
	{"a record that nobody renews", "record-configmap", func(r *recording) { r.ConfigMaps[0] = r.ConfigMaps[1] }, "silent", doctor.Problem, "though its pod"},
}

// TestPlantedWeaknessesAreFound, and nothing is found besides, but what follows from the same.
func TestPlantedWeaknessesAreFound(t *testing.T) {
	for _, tc := range planted {
		t.Run(tc.name, func(t *testing.T) {
			r := load(t, tc.of)
			if tc.change != nil {
				tc.change(r)
			}
			for _, got := range r.judged() {
				found := slices.ContainsFunc(got.Findings, func(f doctor.Finding) bool {
					return f.Check == tc.check && f.Result == tc.result && strings.Contains(f.Text, tc.says) && f.Hint != "" && f.Link == Link(f.Check)
				})
				if !found {
					t.Errorf("of %s it finds %+v", got.Name, got.Findings)
				}
			}
		})
	}
	if len(planted) < 20 {
		t.Errorf("%d weaknesses are planted", len(planted))
	}
}

// TestWhatIsNotVisibleIsNoFinding: without the right to read pods, only what the Leases show is found.
func TestWhatIsNotVisibleIsNoFinding(t *testing.T) {
	for _, name := range recorded(t) {
		r := load(t, name)
		r.unread = "forbidden"
		for _, got := range r.judged() {
			for _, f := range got.Findings {
				if strings.HasPrefix(f.Check, "one-") || f.Check == "margin" || f.Check == "holder-gone" {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if got.Replicas != nil || got.Pod != "" && got.Kind == OnLease || got.Deadline != nil && got.Deadline.Visible {
				t.Errorf("%s: %+v", name, got)
			}
		}
		_, general := r.cluster().Judge()
		if len(general) != 1 || general[0].Check != "rights" || general[0].Result != doctor.Note {
			t.Errorf("%s: it says %+v", name, general)
		}
	}
}

// TestArgumentsThatMayBeAboutAnotherElectionAreNotBelieved.
func TestArgumentsThatMayBeAboutAnotherElectionAreNotBelieved(t *testing.T) {
	other := func(text string) change {
		return pods(func(_ int, p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Args: strings.Fields(text)})
		})
	}
	for name, tc := range map[string]struct {
		change  change
		visible bool
	}{
		"as they are":                     {nil, true},
		"of a container beside it":        {other("--leader-elect-renew-deadline=12s"), false},
		"of a lease that is not seen":     {args("--leader-elect-lease-duration=30s --leader-elect-renew-deadline=10s"), false},
		"of a period that is not seen":    {args("--leader-elect-retry-period=5s --leader-elect-renew-deadline=10s"), false},
		"of a variable of the pod":        {args("--leader-elect-renew-deadline=$(DEADLINE)"), false},
		"no durations":                    {args("--leader-elect-renew-deadline=10 --leader-elect"), false},
		"in a line of a shell":            {args("-c op --renew-deadline=10s"), true},
		"of a container that has no flag": {other("--v=2"), true},
		"another program's words":         {args("--certificate-renew-deadline=10s"), false},
	} {
		r := load(t, "client-go")
		if tc.change != nil {
			tc.change(r)
		}
		if d := r.judged()[0].Deadline; d.Visible != tc.visible {
			t.Errorf("%s: RenewDeadline is %v", name, d)
		}
	}
}

// TestAComponentOfKubernetesHasItsDocumentedDefault, if its pod is seen and has no flag.
func TestAComponentOfKubernetesHasItsDocumentedDefault(t *testing.T) {
	r := load(t, "kube-controller-manager")
	node := func(l *coordinationv1.Lease, _ time.Duration) { l.Spec.HolderIdentity = new("node-za_1") }
	lease(node)(r)
	pods(func(i int, p *corev1.Pod) {
		p.Namespace, p.Name, p.Labels = metav1.NamespaceSystem, "kube-controller-manager-"+p.Spec.NodeName, nil
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.Spec.NodeName, Controller: new(true)}}
		p.Spec.HostNetwork, p.Spec.Containers[0].Command = true, []string{"kube-controller-manager", "--leader-elect=true"}
	})(r)
	got := r.judged()[0]
	if !got.Deadline.Visible || got.Deadline.LeastMilliseconds != 10000 || len(got.Findings) > 0 || len(got.Replicas) != 2 {
		t.Errorf("got %+v", got)
	}
	pods(func(_ int, p *corev1.Pod) { p.Namespace, p.Name = "other", "other" })(r)
	silentAfter(time.Second)(r)
	if f := r.judged()[0].Findings; len(f) != 1 || f[0].Check != "silent" || strings.Contains(f[0].Text, "no pod") {
		t.Errorf("a node's name is taken for that of a pod that is gone: %+v", r.judged()[0])
	}
}

// TestAWatchThatWasInterruptedHidesNoRenewalAndInventsNoGap.
func TestAWatchThatWasInterruptedHidesNoRenewalAndInventsNoGap(t *testing.T) {
	r := load(t, "client-go")
	before := len(r.Events)
	pausing(10*time.Second, 27*time.Second)(r)
	i := slices.IndexFunc(r.Events, func(e event) bool { return e.After > 27000 })
	r.Events[i].Type = "LISTED"
	got := r.judged()[0]
	if len(got.Findings) > 0 || before-len(r.Events) < 7 || got.Period == nil {
		t.Errorf("got %+v", got)
	}
}

// TestALeaseThatWasReleasedMayBeTakenAtOnce, also if it keeps its duration, as the client for Java leaves it.
func TestALeaseThatWasReleasedMayBeTakenAtOnce(t *testing.T) {
	r := load(t, "client-go-handover")
	lasts(15)(r)
	if got := r.judged()[0]; len(got.Findings) > 0 {
		t.Errorf("got %+v", got.Findings)
	}
}

// TestTooShortAWatchIsNoSilence.
func TestTooShortAWatchIsNoSilence(t *testing.T) {
	r := load(t, "client-go-openshift")
	r.Events, r.Watched = nil, 10000
	got := r.judged()[0]
	if len(got.Findings) != 1 || got.Findings[0].Check != "unseen" || got.Findings[0].Result != doctor.Note {
		t.Errorf("got %+v", got.Findings)
	}
}

// TestALeaseThatIsNoElectionIsLeftOut.
func TestALeaseThatIsNoElectionIsLeftOut(t *testing.T) {
	of := func(namespace, name string, labels map[string]string, holder *string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: coordinationv1.LeaseSpec{HolderIdentity: holder}}
	}
	w := NewWatch()
	w.List(time.Now(), []*coordinationv1.Lease{
		of(NodeLeases, "node-a", nil, new("node-a")),
		of("kube-system", "apiserver-abc", map[string]string{labelServer: "kube-apiserver"}, new("a")),
		of("ns", "there", map[string]string{"zonelect.dev/lock": "op"}, new("a")),
		of("ns", "empty", nil, nil),
		of("ns", "op", nil, new("a")),
		of("ns", "deleted", nil, new("a")),
	})
	w.Deleted(time.Now(), of("ns", "deleted", nil, nil))
	if all := w.Elections(); len(all) != 1 || all[0].Name != "op" || (w.LeftOut != LeftOut{1, 1, 1, 1}) {
		t.Errorf("got %+v, left out %+v", all, w.LeftOut)
	}
}

// TestAConfigMapOfAPodThatHasDataIsNoLock: Spark's drivers own such, and many others.
func TestAConfigMapOfAPodThatHasDataIsNoLock(t *testing.T) {
	r := load(t, "weak-for-life")
	if n := len(ForLife(r.ConfigMaps[1], r.Began)); n != 1 {
		t.Fatalf("%d locks", n)
	}
	for name, fields := range map[string][]metav1.ManagedFieldsEntry{
		"it has data":         {{Manager: "spark", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}},
		"it is not known":     nil,
		"it has some in bits": {{Manager: "spark", FieldsV1: metav1.NewFieldsV1(`{"f:binaryData":{}}`)}},
	} {
		r.ConfigMaps[1][0].ManagedFields = fields
		if n := len(ForLife(r.ConfigMaps[1], r.Began)); n != 0 {
			t.Errorf("%s: %d locks", name, n)
		}
	}
}

// TestOneZoneIsSaidOnceOfTheCluster, and not of each election.
func TestOneZoneIsSaidOnceOfTheCluster(t *testing.T) {
	r := load(t, "client-go")
	for i := range r.Nodes {
		r.Nodes[i].Labels[corev1.LabelTopologyZone] = "za"
	}
	reports, general := r.cluster().Judge()
	if len(reports[0].Findings) > 0 || len(general) != 1 || general[0].Check != "one-zone" || general[0].Result != doctor.Note {
		t.Errorf("got %+v and %+v", reports[0].Findings, general)
	}
}

// TestEachCheckIsExplained where the link of its findings leads, and says what helps.
func TestEachCheckIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("checks.go")
	if err != nil {
		t.Fatal(err)
	}
	checks := slices.Concat(names(source), []string{"rights"})
	if len(slices.Compact(slices.Sorted(slices.Values(checks)))) != len(hints)+1 {
		t.Errorf("the checks are %q, and there are hints for %d", checks, len(hints))
	}
	for _, check := range checks {
		if !strings.Contains(string(page), "\n### "+check+"\n\n") || !strings.HasSuffix(Link(check), "/docs/audit.md#"+check) {
			t.Errorf("check %s has no paragraph at %s", check, Link(check))
		}
		if hints[check] == "" && check != "rights" {
			t.Errorf("check %s does not say what helps", check)
		}
	}
}

// names are those of the checks in a source file.
func names(source []byte) (all []string) {
	for _, m := range regexp.MustCompile(`say\("([a-z-]+)"`).FindAllSubmatch(source, -1) {
		all = append(all, string(m[1]))
	}
	return all
}
