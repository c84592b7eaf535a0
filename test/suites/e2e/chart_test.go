// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// The names of the release.
const (
	chartName      = "billing"
	chartNamespace = "invoices"
	chartService   = "billing-leader"
	chartWatcher   = "zc" // the zone from which the test looks, and which keeps its power
)

// release is the chart, installed by Helm. The test is the scheduler, and runs the program of each
// pod in the zone of its node, as the service account that the chart made.
type release struct {
	*testing.T
	*testbed.Testbed
	ctx     context.Context
	client  *kubernetes.Clientset
	helm    string
	program string
	service *pointed

	mu   sync.Mutex
	dark map[string]bool
	pods map[types.UID]*installed
	all  []*installed
}

// installed is the program of a pod.
type installed struct {
	*testbed.Process
	name, ip string
}

func newRelease(t *testing.T) *release {
	t.Helper()
	r := &release{
		T: t, Testbed: trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links}), ctx: patience(t, 5*time.Minute), service: &pointed{},
		dark: map[string]bool{}, pods: map[types.UID]*installed{},
	}
	var err error
	r.client, err = kubernetes.NewForConfig(r.Cluster.RESTConfig(chartWatcher))
	must(t, err)
	r.program, err = testbed.BuildProgram(r.ctx, "./examples/leader-service")
	must(t, err)
	r.helm, err = testbed.BuildModule(r.ctx, "test/programs/helm", t.Output())
	must(t, err)
	_, err = r.client.CoreV1().Namespaces().Create(r.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: chartNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	must(t, err)
	r.service.follow(t, r.ctx, r.Testbed, chartWatcher, chartNamespace, chartService)
	return r
}

// run runs Helm as an administrator.
func (r *release) run(args ...string) {
	r.Helper()
	command := exec.CommandContext(r.ctx, r.helm, append(args, "--namespace", chartNamespace, "--kubeconfig", r.Cluster.Kubeconfig(chartWatcher))...)
	home := r.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	said, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, said)
	}
}

// tend does what a scheduler and kubelets do, until the test ends.
func (r *release) tend() {
	running, end := context.WithCancel(r.ctx)
	var tending sync.WaitGroup
	r.Cleanup(func() { end(); tending.Wait() })
	tending.Go(func() {
		for running.Err() == nil {
			r.tendOnce()
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// tendOnce does for all pods what is due. What fails is due again.
func (r *release) tendOnce() {
	pods, err := r.client.CoreV1().Pods(chartNamespace).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := map[types.UID]bool{}
	for _, pod := range pods.Items {
		left[pod.UID] = true
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			r.place(&pod, pods.Items)
			return // with the next list the pods are counted again
		}
	}
	for uid, one := range r.pods {
		if !left[uid] {
			_ = one.Terminate() // it has ended, perhaps
			delete(r.pods, uid)
		}
	}
}

// place starts a pod's program, and then binds the pod to the node of that zone, whose kubelet reports
// a container that has just begun. An older one would not be that of the program. The first pod leads
// before others start: candidates that begin together know nobody, and any of them may be first.
func (r *release) place(pod *corev1.Pod, all []corev1.Pod) {
	if len(r.pods) > 0 && r.pods[pod.UID] == nil && r.lease().Spec.HolderIdentity == nil {
		return
	}
	if r.pods[pod.UID] == nil {
		r.start(pod, r.emptiest(pod, all))
	}
	if one := r.pods[pod.UID]; one != nil {
		_ = r.client.CoreV1().Pods(chartNamespace).Bind(r.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: testbed.NodeName(one.Zone())},
		}, metav1.CreateOptions{})
	}
}

// emptiest is the zone with power that has the fewest pods of the same version, as the spread of the
// chart asks for.
func (r *release) emptiest(pod *corev1.Pod, all []corev1.Pod) string {
	spread := pod.Spec.TopologySpreadConstraints
	if len(spread) == 0 || spread[0].TopologyKey != corev1.LabelTopologyZone {
		r.Errorf("%s is not spread over zones: %+v", pod.Name, spread)
	}
	count := map[string]int{}
	for _, zone := range threeZones {
		if !r.dark[zone] {
			count[zone] = 0
		}
	}
	for _, other := range all {
		same := other.DeletionTimestamp == nil
		for _, key := range append(slices.Clone(spread[0].MatchLabelKeys), slices.Collect(maps.Keys(spread[0].LabelSelector.MatchLabels))...) {
			same = same && other.Labels[key] == pod.Labels[key]
		}
		for zone := range count {
			if same && other.Spec.NodeName == testbed.NodeName(zone) {
				count[zone]++
			}
		}
	}
	return slices.MinFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return count[a] - count[b] })
}

// start runs the program of a pod, with its arguments, its environment and its account.
func (r *release) start(pod *corev1.Pod, zone string) {
	one := &installed{name: pod.Name, ip: fmt.Sprint("10.0.0.", len(r.all)+1)}
	spec, err := processOf(r.ctx, r.client, pod, testbed.NodeName(zone), one.ip, r.program, r.Cluster.Kubeconfig(zone), r.Dir())
	if err != nil {
		return // the next time, perhaps
	}
	if one.Process, err = r.StartProcess(zone, spec); err != nil {
		r.Errorf("start %s: %v", pod.Name, err)
		return
	}
	r.pods[pod.UID] = one
	r.all = append(r.all, one)
}

// until waits until something holds.
func (r *release) until(what string, so func() bool) {
	r.Helper()
	for !so() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.ctx.Done():
			for _, one := range r.started() {
				logged, err := os.ReadFile(one.Log())
				r.Logf("%s in %s: %v\n%s", one.name, one.Zone(), err, logged)
			}
			r.Fatalf("waited in vain until %s", what)
		}
	}
}

// started are the programs of all pods, also of those that are gone.
func (r *release) started() []*installed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// lease is the lock, or an empty one.
func (r *release) lease() *coordinationv1.Lease {
	l, err := r.client.CoordinationV1().Leases(chartNamespace).Get(r.ctx, chartName, metav1.GetOptions{})
	if err != nil {
		return &coordinationv1.Lease{}
	}
	return l
}

// leads waits until a pod that fits leads, is what the Service points to, and has noted its zone and
// its container.
func (r *release) leads(what string, fits func(*installed) bool) (leader *installed) {
	r.Helper()
	r.until(what, func() bool {
		l := r.lease()
		for _, one := range r.started() {
			if strings.HasPrefix(holder(l), one.name+"_") && fits(one) && r.service.to() == one.ip {
				leader = one
				return l.Annotations["zonelect.dev/zone"] == one.Zone() && l.Annotations["zonelect.dev/container-id"] != ""
			}
		}
		return false
	})
	return leader
}

// judge checks that no right was missing, and that terms began in the order of their tokens, with
// one leader each.
func (r *release) judge(terms int) {
	r.Helper()
	type begun struct {
		at    time.Time
		token string
		name  string
	}
	var all []begun
	for _, one := range r.started() {
		for _, line := range one.Output() {
			if token, leads := strings.CutPrefix(line.Text, "leading with token "); leads {
				all = append(all, begun{line.Time, token, one.name})
			}
		}
		logged, err := os.ReadFile(one.Log())
		must(r.T, err)
		for line := range strings.Lines(string(logged)) {
			if strings.Contains(line, "forbidden") || strings.Contains(line, "needs verb") {
				r.Errorf("%s lacks a right: %s", one.name, line)
			}
		}
	}
	slices.SortFunc(all, func(a, b begun) int { return a.at.Compare(b.at) })
	for i := range all[:max(0, len(all)-1)] {
		if a, b := all[i], all[i+1]; len(a.token) > len(b.token) || len(a.token) == len(b.token) && a.token >= b.token {
			r.Errorf("token %s of %s came after token %s of %s", b.token, b.name, a.token, a.name)
		}
	}
	if len(all) < terms {
		r.Errorf("there were %d terms, want %d at least: %v", len(all), terms, all)
	}
	for _, wrong := range r.service.versions().Wrong(nil) {
		r.Error(wrong)
	}
	posted, err := r.client.CoreV1().Events(chartNamespace).List(r.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Lease,involvedObject.name=" + chartName})
	must(r.T, err)
	if len(posted.Items) == 0 {
		r.Error("nobody posted an Event on the Lease")
	}
}

// TestAChartsRightsSurviveALossOfPower: Helm installs the chart, and a namespace admits its pods that
// enforces the Pod Security Standard "restricted". Candidates with the rights of the chart's account,
// and no others, lead in another zone when the leader's loses its power, and hand over when Helm
// upgrades the release. Helm leaves nothing behind.
func TestAChartsRightsSurviveALossOfPower(t *testing.T) {
	r := newRelease(t)
	chart := "../../../charts/zonelect"
	r.run("install", chartName, chart, "--set", "image.repository=example.com/leader-service,image.tag=v1,election.passAs=arguments,args={-address,127.0.0.1:0}",
		"--set", "election.resourceName="+chartName+",election.service="+chartService+",election.preferredZones={za}")
	r.tend()
	first := r.leads("a candidate in the preferred zone leads", func(one *installed) bool { return one.Zone() == "za" })
	r.until("all three run", func() bool { return len(r.started()) == 3 })
	before := r.started()
	in := map[string]bool{}
	for _, one := range before {
		in[one.Zone()] = true
		awaitLog(t, r.ctx, one.Process, `lock="Lease `+chartNamespace+"/"+chartName)
	}
	if len(in) != 3 || len(before) != 3 {
		t.Errorf("%d candidates are in %d zones", len(before), len(in))
	}

	r.mu.Lock()
	r.dark["za"] = true
	r.mu.Unlock()
	cut := time.Now()
	must(t, r.CutPower(r.ctx, "za"))
	second := r.leads("a candidate that was there leads", func(one *installed) bool { return one.Zone() != "za" && slices.Contains(before, one) })
	t.Logf("the Service pointed to %s %v after %s had lost its power", second.Zone(), time.Since(cut), first.Zone())

	r.until("no connection runs to the dark zone", func() bool { return !slices.Contains(r.Network.Backends(chartWatcher), "za") })
	old := r.started()
	asked := time.Now()
	r.run("upgrade", chartName, chart, "--reuse-values", "--set", "podAnnotations.round=second")
	third := r.leads("a pod of the new version leads", func(one *installed) bool { return !slices.Contains(old, one) })
	t.Logf("%s led %v after the upgrade had begun", third.name, time.Since(asked))
	r.judge(3)

	r.run("uninstall", chartName)
	if left := r.owned(); len(left) > 0 {
		t.Errorf("Helm left behind %q", left)
	}
}

// owned are the objects that bear the release's label, except pods, which end in their time.
func (r *release) owned() (names []string) {
	r.Helper()
	of := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + chartName}
	note := func(kind string, n int, err error) {
		must(r.T, err)
		if n > 0 {
			names = append(names, fmt.Sprint(n, " ", kind))
		}
	}
	rbac := r.client.RbacV1()
	cluster, err := rbac.ClusterRoles().List(r.ctx, of)
	note("ClusterRoles", len(cluster.Items), err)
	bound, err := rbac.ClusterRoleBindings().List(r.ctx, of)
	note("ClusterRoleBindings", len(bound.Items), err)
	roles, err := rbac.Roles("").List(r.ctx, of)
	note("Roles", len(roles.Items), err)
	bindings, err := rbac.RoleBindings("").List(r.ctx, of)
	note("RoleBindings", len(bindings.Items), err)
	accounts, err := r.client.CoreV1().ServiceAccounts("").List(r.ctx, of)
	note("ServiceAccounts", len(accounts.Items), err)
	services, err := r.client.CoreV1().Services("").List(r.ctx, of)
	note("Services", len(services.Items), err)
	budgets, err := r.client.PolicyV1().PodDisruptionBudgets("").List(r.ctx, of)
	note("PodDisruptionBudgets", len(budgets.Items), err)
	return names
}
