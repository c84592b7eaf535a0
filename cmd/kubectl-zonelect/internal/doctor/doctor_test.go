// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// webhook returns a webhook for Leases with changes.
func webhook(changes ...func(*admissionv1.MutatingWebhook)) []admissionv1.MutatingWebhookConfiguration {
	w := admissionv1.MutatingWebhook{Name: "w", Rules: []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"leases"}},
	}}}
	for _, change := range changes {
		change(&w)
	}
	return []admissionv1.MutatingWebhookConfiguration{{Webhooks: []admissionv1.MutatingWebhook{w}}}
}

// TestAWebhookConcernsALockWhereTheServerWouldAskIt: by the rules of the API server.
func TestAWebhookConcernsALockWhereTheServerWouldAskIt(t *testing.T) {
	exact, cluster := admissionv1.Exact, admissionv1.ClusterScope
	for name, tc := range map[string]struct {
		change func(*admissionv1.MutatingWebhook)
		want   []string
	}{
		"another version, which is converted": {func(*admissionv1.MutatingWebhook) {}, []string{"leases"}},
		"another version, exactly":            {func(w *admissionv1.MutatingWebhook) { w.MatchPolicy = &exact }, nil},
		"deletions":                           {func(w *admissionv1.MutatingWebhook) { w.Rules[0].Operations[0] = admissionv1.Delete }, nil},
		"all of a group":                      {func(w *admissionv1.MutatingWebhook) { w.Rules[0].Resources[0] = "*" }, []string{"leases"}},
		"everything": {func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].APIGroups[0], w.Rules[0].Resources[0] = "*", "*/*"
		}, []string{"leases", "configmaps"}},
		"subresources":      {func(w *admissionv1.MutatingWebhook) { w.Rules[0].Resources[0] = "leases/status" }, nil},
		"another group":     {func(w *admissionv1.MutatingWebhook) { w.Rules[0].APIGroups[0] = "apps" }, nil},
		"cluster objects":   {func(w *admissionv1.MutatingWebhook) { w.Rules[0].Scope = &cluster }, nil},
		"another namespace": {func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = labeled("no") }, nil},
		"this namespace":    {func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = labeled("yes") }, []string{"leases"}},
	} {
		var of []string
		for _, w := range Mutating(webhook(tc.change), map[string]string{"here": "yes"}) {
			of = append(of, w.Of...)
		}
		if !slices.Equal(of, tc.want) {
			t.Errorf("%s: it concerns %v, want %v", name, of, tc.want)
		}
	}
	if len(Mutating(webhook(func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = labeled("no") }), nil)) != 1 {
		t.Error("a namespace whose labels are not known may be concerned")
	}
}

func labeled(here string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"here": here}}
}

// TestAWebhookIsAProblemOnlyIfItSurelyKeepsTheLockFromBeingWritten.
func TestAWebhookIsAProblemOnlyIfItSurelyKeepsTheLockFromBeingWritten(t *testing.T) {
	service := &admissionv1.ServiceReference{Namespace: "n", Name: "s"}
	for name, tc := range map[string]struct {
		webhook Webhook
		want    Result
	}{
		"gone, must answer":                   {Webhook{Service: service, Fails: true}, Problem},
		"gone, must answer, conditions":       {Webhook{Service: service, Fails: true, Conditional: true}, Warning},
		"gone, need not answer":               {Webhook{Service: service}, Warning},
		"there, must answer":                  {Webhook{Service: service, Fails: true, Backends: Fact[int]{Value: 2}}, Warning},
		"unknown, must answer":                {Webhook{Service: service, Fails: true, Backends: Fact[int]{Unknown: "forbidden"}}, Warning},
		"elsewhere, must answer":              {Webhook{URL: "https://x", Fails: true}, Warning},
		"there, and its answer is not needed": {Webhook{Service: service, Backends: Fact[int]{Value: 2}, Timeout: 4}, Note},
		"there, and may take too long":        {Webhook{Service: service, Backends: Fact[int]{Value: 2}, Timeout: 5}, Warning},
	} {
		if f := tc.webhook.finding(4 * time.Second); f.Result != tc.want || f.Hint == "" {
			t.Errorf("%s: %+v, want %s", name, f, tc.want)
		}
	}
}

// TestAWebhookMayNotHoldUpAWriteForLongerThanATermLasts, alone or with others.
func TestAWebhookMayNotHoldUpAWriteForLongerThanATermLasts(t *testing.T) {
	hook := func(mutates bool, seconds int32) Webhook {
		return Webhook{Of: []string{"leases"}, Mutates: mutates, Timeout: seconds, URL: "https://x"}
	}
	for name, tc := range map[string]struct {
		answer   time.Duration
		all      []Webhook
		warnings int
		hint     string // in the last one
	}{
		"short":                    {0, []Webhook{hook(false, 4)}, 0, ""},
		"long":                     {0, []Webhook{hook(false, 5)}, 1, "set its timeoutSeconds to 4 or less"},
		"too long for any":         {0, []Webhook{hook(false, 10)}, 1, "no usual timing holds"},
		"long, and another timing": {8 * time.Second, []Webhook{hook(false, 8)}, 0, ""},
		"one after the other":      {0, []Webhook{hook(true, 3), hook(false, 3)}, 1, "use 30/20/5"},
		"at once":                  {0, []Webhook{hook(false, 3), hook(false, 3)}, 0, ""},
		"both too long":            {0, []Webhook{hook(true, 5), hook(true, 5)}, 2, "use 30/20/5"},
		"of other objects":         {0, []Webhook{{Of: []string{"configmaps"}, Timeout: 30}}, 0, ""},
	} {
		var found []Finding
		for _, f := range checkWebhooks(Cluster{Answer: tc.answer, Webhooks: Fact[[]Webhook]{Value: tc.all}}) {
			if f.Result == Warning {
				found = append(found, f)
			}
		}
		if len(found) != tc.warnings || tc.warnings > 0 && !strings.Contains(found[len(found)-1].Hint, tc.hint) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestATimingIsAdvisedThatHoldsBehindTheSlowServer: docs/timing.md.
func TestATimingIsAdvisedThatHoldsBehindTheSlowServer(t *testing.T) {
	for trip, want := range map[time.Duration]string{
		5 * time.Second: "use 30/20/5", 9 * time.Second: "no usual timing",
	} {
		l := lockOf(func(*coordinationv1.Lease) {})
		l.RoundTrip = trip
		if all := l.fits(15 * time.Second); all[0].Result != Warning || !strings.Contains(all[0].Hint, want) {
			t.Errorf("%s: %+v, want %s", trip, all, want)
		}
	}
}

func TestAQuotaMattersWhereAnObjectHasYetToBeCreated(t *testing.T) {
	quota := func(name corev1.ResourceName, used string) []corev1.ResourceQuota {
		return []corev1.ResourceQuota{{Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{name: resource.MustParse("10")}, Used: corev1.ResourceList{name: resource.MustParse(used)},
		}}}
	}
	for name, tc := range map[string]struct {
		cluster Cluster
		quotas  []corev1.ResourceQuota
		want    Result
	}{
		"none":                           {Cluster{}, nil, OK},
		"room":                           {Cluster{Creates: true}, quota("count/leases.coordination.k8s.io", "9"), OK},
		"used up, and there is a Lease":  {Cluster{}, quota("count/leases.coordination.k8s.io", "10"), Warning},
		"used up, and there is none":     {Cluster{Creates: true}, quota("count/leases.coordination.k8s.io", "11"), Problem},
		"of ConfigMaps":                  {Cluster{Creates: true}, quota("configmaps", "10"), Note},
		"of ConfigMaps, in a migration":  {Cluster{Legacy: true}, quota("count/configmaps", "10"), Problem},
		"of something else, and used up": {Cluster{Creates: true, Legacy: true}, quota("pods", "10"), OK},
	} {
		tc.cluster.Quotas.Value = tc.quotas
		if all := checkQuotas(tc.cluster); len(all) != 1 || all[0].Result != tc.want {
			t.Errorf("%s: %+v, want %s", name, all, tc.want)
		}
	}
}

// lockOf returns a lock that is held, with changes.
func lockOf(change func(*coordinationv1.Lease)) Lock {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "op", Namespace: "ns", ResourceVersion: "7", Annotations: map[string]string{record.AnnotationHolder: "a_1"}}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a_1"), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: midnight}}
	change(lease)
	return Lock{Now: midnight, Election: inspect.Election{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "op"}, Lease: lease}}
}

// TestOnlyAKnownAccountIsJudged: without the candidates' pods nothing is said of their rights.
func TestOnlyAKnownAccountIsJudged(t *testing.T) {
	l := lockOf(func(*coordinationv1.Lease) {})
	if l.Accounts() || checkRights(l) != nil {
		t.Errorf("an unknown account is judged: %+v", checkRights(l))
	}
	l.Candidates = []inspect.Candidate{{Identity: "a_1", Part: &inspect.Part{ServiceAccount: "sa"}}}
	l.Rights.Unknown = "forbidden"
	all := checkRights(l)
	if len(all) != 1 || all[0].Result != Note || !strings.Contains(all[0].Hint, "kubectl auth can-i update leases.coordination.k8s.io/op -n ns --as=system:serviceaccount:ns:sa") {
		t.Errorf("got %+v", all)
	}
}

// TestCandidatesAreCalledReadyOnlyIfTheirPodsAndNodesWereRead: a presence outlives them.
func TestCandidatesAreCalledReadyOnlyIfTheirPodsAndNodesWereRead(t *testing.T) {
	for name, tc := range map[string]struct {
		pod, node string
		want      Result
	}{
		"both read":          {inspect.Ready, inspect.Ready, OK},
		"pods forbidden":     {"", inspect.Ready, Note},
		"nodes forbidden":    {inspect.Ready, "", Note},
		"neither was read":   {"", "", Note},
		"the node is silent": {inspect.Ready, inspect.NotReady, Warning},
	} {
		l := lockOf(func(*coordinationv1.Lease) {})
		for _, zone := range []string{"za", "zb"} {
			l.Candidates = append(l.Candidates, inspect.Candidate{Identity: zone + "_1", Zone: zone, Node: "node-" + zone, PodState: tc.pod, NodeState: tc.node})
		}
		if all := checkCandidates(l); all[0].Result != tc.want || tc.want == Note && strings.Contains(all[0].Text, "all ready and") {
			t.Errorf("%s: %+v, want %s", name, all, tc.want)
		}
	}
}

// TestACandidateInNoPodIsWellAsLongAsItRenewsItsPresence: it has no pod to be read.
func TestACandidateInNoPodIsWellAsLongAsItRenewsItsPresence(t *testing.T) {
	for state, want := range map[string]string{"": "3 candidates in 3 zones, all ready", inspect.Gone: "2 candidates in 2 zones, all ready"} {
		l := lockOf(func(*coordinationv1.Lease) {})
		for _, zone := range []string{"za", "zb"} {
			l.Candidates = append(l.Candidates, inspect.Candidate{Identity: zone + "_1", Pod: zone, Zone: zone, PodState: inspect.Ready, Part: &inspect.Part{UID: zone}})
		}
		l.Candidates = append(l.Candidates, inspect.Candidate{Identity: "laptop_1", Zone: "zc", PodState: state, Part: &inspect.Part{}})
		if all := checkCandidates(l); len(all) != 1 || !strings.Contains(all[0].Text, want) {
			t.Errorf("%q: %+v", state, all)
		}
	}
}

func TestAnUnknownZoneIsNotCounted(t *testing.T) {
	for want, zones := range map[string][]string{
		"3 candidates in 2 zones, all":                            {"za", "zb", "za"},
		"1 candidate in 1 zone, all":                              {"za"},
		"3 candidates in 2 zones, and in an unknown one (1), all": {"za", "zb", ""},
		"2 candidates, whose zones are not known, all":            {"", ""},
	} {
		var all []inspect.Candidate
		for _, zone := range zones {
			all = append(all, inspect.Candidate{Zone: zone, PodState: inspect.Ready})
		}
		if f := allWell(all); !strings.HasPrefix(f.Text, want) {
			t.Errorf("%q: %s, want %s", zones, f.Text, want)
		}
	}
}

// TestInAMigrationTheLegacyLockNeedsRightsToo, which depend on its kind.
func TestInAMigrationTheLegacyLockNeedsRightsToo(t *testing.T) {
	for legacy, want := range map[string]string{"configmap/old": "delete configmaps/old", "annotation/endpoints/old": "watch endpoints/old"} {
		l := lockOf(func(l *coordinationv1.Lease) {
			record.WriteStage(l.Annotations, record.Stage{Phase: record.PhaseDual, Step: 1})
			l.Annotations[record.AnnotationLegacy] = legacy
		})
		var needs []string
		for _, r := range l.Needs() {
			needs = append(needs, r.String())
		}
		if !slices.Contains(needs, want) || slices.Contains(needs, "delete endpoints/old") {
			t.Errorf("%s needs %q, want %q among them", legacy, needs, want)
		}
	}
}

// TestALeaseWithoutADurationIsAProblem: nobody takes it over.
func TestALeaseWithoutADurationIsAProblem(t *testing.T) {
	l := lockOf(func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = nil })
	if all := checkTiming(l); len(all) != 1 || all[0].Result != Problem || !strings.Contains(all[0].Text, "no candidate takes it") {
		t.Errorf("got %+v", all)
	}
}

// TestALegacyLockThatIsBeingDeletedNamesWhatKeepsIt: nobody needs to look for a collector that
// is blocked.
func TestALegacyLockThatIsBeingDeletedNamesWhatKeepsIt(t *testing.T) {
	l := lockOf(func(*coordinationv1.Lease) {})
	l.LegacyPod.Value = inspect.Gone
	l.Legacy = &inspect.Legacy{Object: "configmap/op", Kind: ownerref.Legacy, Holder: "pod/old", Lingering: "the ConfigMap was deleted, and stays until its finalizers are gone: example.com/hold"}
	if f, found := l.legacyHolder(); !found || f.Result != Warning || !strings.Contains(f.Text, "example.com/hold") || strings.Contains(f.Hint, "garbage collector") {
		t.Errorf("got %+v", f)
	}
}

// TestALeaseThatIsBeingDeletedIsToldOf: it is led by until it is gone.
func TestALeaseThatIsBeingDeletedIsToldOf(t *testing.T) {
	l := lockOf(func(lease *coordinationv1.Lease) {
		lease.DeletionTimestamp, lease.Finalizers = &metav1.Time{Time: midnight}, []string{"example.com/hold"}
	})
	if all := checkState(l); len(all) != 2 || all[1].Result != Warning || !strings.Contains(all[1].Text, "example.com/hold") {
		t.Errorf("got %+v", all)
	}
}

// TestEachCheckIsExplained where the link of its findings leads.
func TestEachCheckIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\{"([a-z]+)", check[A-Z]`).FindAllStringSubmatch(string(source), -1) {
			if seen++; !strings.Contains(string(page), "\n### "+m[1]+"\n\n") || !strings.HasSuffix(Link(m[1]), "/docs/operate.md#"+m[1]) {
				t.Errorf("%s: check %s has no paragraph at %s", file, m[1], Link(m[1]))
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d checks were found", seen)
	}
}
