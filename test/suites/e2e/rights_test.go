// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/yaml"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestConfigIsWhatAnOperatorNeedsAndNoMore applies config/, and then runs each
// feature through package operator as the service account of config/. With all
// rights the feature works. For each right that is taken away, or limited to another
// name, the operator reports by name that it is missing. The same goes for each right on
// all objects that is limited to the lock's name: so it cannot be limited.
func TestConfigIsWhatAnOperatorNeedsAndNoMore(t *testing.T) {
	// Without controllers nothing is collected: the candidate must remove what
	// has to go.
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true})
	whatThereIsToApply(t, b)
	admin, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	addDeadNode(t, admin)
	all := kustomizations(t)
	rows := map[string]attempt{}
	for name, f := range features {
		rows[name] = attempt{feature: f}
		for _, p := range granted(t, f, all[f.config]) {
			if p.verb == "patch" {
				continue // only an Event that happens again needs it
			}
			if p.name != "" {
				rows[name+" misnamed "+p.String()] = attempt{f, p, "another"}
				continue
			}
			rows[name+" without "+p.String()] = attempt{f, p, ""}
			if p.verb != "create" { // which has no name
				rows[name+" limited "+p.String()] = attempt{f, p, appliedLock}
			}
		}
	}
	atOnce(t, rows, func(t *testing.T, a attempt) { a.try(t, b, admin, all) })
}

// right is one verb on one resource, or on one object of it.
type right struct{ verb, group, resource, namespace, name string }

func (p right) String() string {
	s := p.verb + " " + p.resource
	if p.group != "" {
		s += "." + p.group
	}
	return s
}

// rightsOf returns the rights in the rules of a Role.
func rightsOf(namespace string, rules []rbacv1.PolicyRule) []right {
	var all []right
	for _, r := range rules {
		name := ""
		if len(r.ResourceNames) > 0 {
			name = r.ResourceNames[0]
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all = append(all, right{verb, group, resource, namespace, name})
				}
			}
		}
	}
	return all
}

// granted are the rights that a kustomization grants for a feature.
func granted(t *testing.T, f feature, all manifests.Objects) []right {
	t.Helper()
	var ps []right
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		ps = append(ps, rightsOf(role.Namespace, role.Rules)...)
	}
	for _, role := range manifests.Pick[rbacv1.ClusterRole](t, all, "ClusterRole") {
		ps = append(ps, rightsOf("", role.Rules)...)
	}
	for i := range ps {
		if f.legacy != "" && ps[i].resource == "configmaps" {
			ps[i].resource = f.legacy
		}
	}
	return ps
}

// feature is something that needs a kustomization's rights.
type feature struct {
	config  string               // the kustomization
	besides []string             // others whose rights it needs too
	legacy  string               // what replaces configmaps
	begin   func(*tenant)        // prepares it
	goes    func(*tenant) []step // what must happen
}

var features = map[string]feature{
	"lease":           {config: "lease", besides: []string{"proof"}, begin: withHealth, goes: leadsByALease},
	"events":          {config: "events", besides: []string{"lease"}, begin: withEvents, goes: postsEvents},
	"zone":            {config: "zone", besides: []string{"lease"}, begin: withANode, goes: knowsItsZone},
	"leader-for-life": {config: "leader-for-life", besides: []string{"lease"}, begin: beside("za"), goes: followsALegacyPod},
	"dead-nodes":      {config: "dead-nodes", besides: []string{"lease", "leader-for-life", "zone"}, begin: beside(deadZone), goes: followsAPodThatIsPresumedGone},
	"heartbeat":       {config: "heartbeat", besides: []string{"lease"}, begin: withAHeartbeat, goes: leavesNoHeartbeat},
	"proof":           {config: "proof", besides: []string{"lease"}, begin: besideAPod, goes: provesADeath},
	"configmap":       {config: "annotation", besides: []string{"lease", "proof"}, begin: withAnAnnotation, goes: leadsByAnAnnotation},
	"endpoints":       {config: "annotation", besides: []string{"lease", "proof"}, legacy: "endpoints", begin: withAnAnnotation, goes: leadsByAnAnnotation},
}

// attempt runs a feature without one right; with all if that is zero.
type attempt struct {
	feature
	missing right
	only    string // the name for which it has the right nevertheless
}

// tenant is an operator in a namespace of its own.
type tenant struct {
	attempt
	t         *testing.T
	ctx       context.Context // ends when the missing right is reported
	admin     kubernetes.Interface
	name      string      // of the namespace
	other     *corev1.Pod // the pod that it follows, or waits for
	options   operator.Options
	elector   *operator.Election
	heartbeat bool // keeps the lock
	terms     chan election.Term
	stop      context.CancelFunc // ends the election
	over      chan error         // gets what its Run returned

	ill atomic.Bool // what its health check says

	mu   sync.Mutex
	said []string
}

var errMissed = errors.New("it was missed")

// rightsPatience bounds an attempt: a dead node takes the operator's shortest
// grace.
const rightsPatience = 3 * time.Minute

func (a attempt) try(t *testing.T, b *testbed.Testbed, admin kubernetes.Interface, all map[string]manifests.Objects) {
	ctx, cancel := context.WithTimeout(t.Context(), rightsPatience)
	defer cancel()
	ctx, missed := context.WithCancelCause(ctx)
	defer missed(nil)
	o := &tenant{attempt: a, t: t, ctx: ctx, admin: admin, name: nameOf(t), terms: make(chan election.Term, 100)}
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.name}}, metav1.CreateOptions{})
	must(t, err)
	for _, name := range append(slices.Clone(a.besides), a.config) {
		f := a.feature
		if name != a.config {
			f.legacy = ""
		}
		o.grant(name, granted(t, f, all[name]))
	}
	o.options = operator.Options{
		Config: b.Cluster.RESTConfig("za"), Timing: rightsTiming, Namespace: o.name, NoEvents: true,
		Self: operator.SelfOptions{Identity: "me", Zone: "za"}, Logger: o.logger(missed),
	}
	o.options.Config.Impersonate.UserName = account(o.name, appliedAccount)
	if a.begin != nil {
		a.begin(o)
	}
	err = o.run(missed)
	switch noticed := errors.Is(context.Cause(ctx), errMissed); {
	case a.missing == right{} && err != nil:
		t.Errorf("with all of its rights: %v; it said:\n%s", err, o.text())
	case a.missing == right{} && o.complains():
		t.Errorf("with all of its rights it complains:\n%s", o.text())
	case a.missing != right{} && !noticed && err == nil && a.only == appliedLock:
		t.Errorf("nobody misses %s: limit it to the lock's name", a.missing)
	case a.missing != right{} && !noticed && err == nil:
		t.Errorf("nobody misses %s: it is one too many", a.missing)
	case a.missing != right{} && !noticed:
		t.Errorf("without %s: %v; but nothing names it:\n%s", a.missing, err, o.text())
	}
}

// rightsTiming leaves some slack for a machine that all attempts share.
var rightsTiming = election.Timing{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second, Exclusive: true}

// grant gives the service account these rights, except the missing one, which it has for
// a name at most.
func (o *tenant) grant(name string, all []right) {
	o.t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, p := range all {
		if p == o.missing {
			p.name = o.only
		}
		if p != o.missing || p.name != "" {
			rule := rbacv1.PolicyRule{APIGroups: []string{p.group}, Resources: []string{p.resource}, Verbs: []string{p.verb}}
			if p.name != "" {
				rule.ResourceNames = []string{p.name}
			}
			rules[p.namespace] = append(rules[p.namespace], rule)
		}
	}
	rbac := o.admin.RbacV1()
	meta := metav1.ObjectMeta{Name: o.name + "-" + name}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.name, Name: appliedAccount}}
	for namespace, rules := range rules {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
		switch namespace {
		case "":
			ref.Kind = "ClusterRole"
			_, err := rbac.ClusterRoles().Create(o.ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
			must(o.t, err)
			_, err = rbac.ClusterRoleBindings().Create(o.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
			must(o.t, err)
			continue
		case appliedNamespace:
			namespace = o.name
		}
		_, err := rbac.Roles(namespace).Create(o.ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		must(o.t, err)
		_, err = rbac.RoleBindings(namespace).Create(o.ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		must(o.t, err)
	}
	for _, p := range all { // the authorizer learns of it after a while
		if p == o.missing {
			if o.only == "" {
				continue
			}
			p.name = o.only
		}
		if p.namespace == appliedNamespace {
			p.namespace = o.name
		}
		must(o.t, o.until("the rights are known", func() bool { return may(o.t, o.admin, account(o.name, appliedAccount), p) })())
	}
}

// logger collects log lines, and ends the attempt when one names the missing
// right.
func (o *tenant) logger(missed context.CancelCauseFunc) logr.Logger {
	return funcr.New(func(_, line string) { o.say(line, missed) }, funcr.Options{})
}

func (o *tenant) say(line string, missed context.CancelCauseFunc) {
	o.mu.Lock()
	o.said = append(o.said, strings.ReplaceAll(line, `\`, ""))
	o.mu.Unlock()
	if o.missing != (right{}) && o.misses() {
		missed(errMissed)
	}
}

func (o *tenant) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.said, "\n")
}

// complains reports whether a log line says that some right is missing.
func (o *tenant) complains() bool {
	return strings.Contains(o.text(), "forbidden") || strings.Contains(o.text(), "needs verb")
}

// misses reports whether a log line names the missing right. client-go posts
// Events, and logs only the API server's words.
func (o *tenant) misses() bool {
	m := o.missing
	return strings.Contains(o.text(), fmt.Sprintf("needs verb %q on %s", m.verb, strings.TrimSuffix(m.resource, "s"))) ||
		m.resource == "events" && strings.Contains(o.text(), fmt.Sprintf("cannot %s resource %q", m.verb, m.resource))
}

// run takes part in the election until everything that must happen has
// happened, or the missing right is reported, or time is up.
func (o *tenant) run(missed context.CancelCauseFunc) error {
	var err error
	if o.elector, err = o.elects(); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(context.WithoutCancel(o.ctx))
	defer unwatch()
	news := o.elector.Subscribe(watching)
	go func() {
		for n := range news {
			if text := fmt.Sprintf("%s: %s %v", n.Change, n.Status.Waiting, n.Status.Problem); n.Status.Waiting != "" || n.Status.Problem != nil {
				o.say(text, missed)
			}
		}
	}()
	var ctx context.Context
	ctx, o.stop = context.WithCancel(o.ctx)
	o.over = make(chan error, 1)
	go func() {
		defer close(o.over)
		o.over <- o.elector.Run(ctx, func(ctx context.Context, term election.Term) error {
			o.terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	for _, s := range o.goes(o) {
		if err = s(); err != nil {
			break
		}
	}
	o.stop()
	err = errors.Join(err, <-o.over)
	if err == nil && o.missing == (right{}) {
		err = o.until("the Lease is released", func() bool { return holder(o.lease()) == "" })()
	}
	return err
}

// step is a part of what must happen. It returns once that has happened.
type step func() error

func (o *tenant) until(what string, so func() bool) step {
	return func() error {
		for !so() {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-o.ctx.Done():
				return fmt.Errorf("not so: %s", what)
			}
		}
		return nil
	}
}

func (o *tenant) leads() step {
	return func() error {
		select {
		case <-o.terms:
			return nil
		case <-o.ctx.Done():
			return errors.New("not so: it leads")
		}
	}
}

func (o *tenant) lease() *coordinationv1.Lease {
	lease, err := o.admin.CoordinationV1().Leases(o.name).Get(o.t.Context(), appliedLock, metav1.GetOptions{})
	if err != nil {
		return &coordinationv1.Lease{}
	}
	return lease
}

// renews waits for renewals, and for the watches to be established.
func (o *tenant) renews() step {
	seen := map[string]bool{}
	return o.until("it renews", func() bool {
		now := o.lease()
		seen[now.ResourceVersion] = holder(now) == "me"
		return len(seen) > 3
	})
}

func withHealth(o *tenant) {
	o.in(o.deploy())
	o.options.Health.Check = func(context.Context) error {
		if o.ill.Load() {
			return errors.New("ill")
		}
		return nil
	}
}

// leadsByALease has the presence made, and written anew.
func leadsByALease(o *tenant) []step {
	stands := func(health string) step {
		return o.until("its presence stands, and says of its health: "+health, func() bool {
			list, err := o.admin.CoordinationV1().Leases(o.name).List(o.t.Context(), metav1.ListOptions{LabelSelector: "zonelect.dev/lock=" + appliedLock})
			must(o.t, err)
			return len(list.Items) == 1 && holder(&list.Items[0]) == "me" && list.Items[0].Annotations["zonelect.dev/health"] == health
		})
	}
	return []step{o.leads(), o.renews(), stands(""), func() error { o.ill.Store(true); return nil }, stands("ill")}
}

// elects makes the election.
func (o *tenant) elects() (*operator.Election, error) {
	if !o.heartbeat {
		return operator.New(o.ctx, appliedLock, o.options)
	}
	group, err := heartbeat.NewGroup(o.ctx, appliedLock, o.options)
	if err != nil {
		return nil, err
	}
	return group.New(appliedLock)
}

func withAHeartbeat(o *tenant) { o.heartbeat, o.options.Timing.Exclusive = true, true }

// leavesNoHeartbeat ends the election, whose Run returns when the heartbeat's Lease is gone.
func leavesNoHeartbeat(o *tenant) []step {
	hearts := func() int {
		list, err := o.admin.CoordinationV1().Leases(o.name).List(o.t.Context(), metav1.ListOptions{LabelSelector: "zonelect.dev/role=heartbeat"})
		must(o.t, err)
		return len(list.Items)
	}
	return []step{
		o.leads(), o.until("it has a heartbeat", func() bool { return hearts() == 1 }),
		func() error { o.stop(); return <-o.over },
		o.until("no heartbeat is left", func() bool { return hearts() == 0 }),
	}
}

func withEvents(o *tenant) { o.options.NoEvents = false }

// postsEvents makes each Event come twice, the second time as a patch.
func postsEvents(o *tenant) []step {
	resigns := func() error { return o.elector.Resign(o.ctx) }
	return []step{o.leads(), resigns, o.leads(), resigns, o.until("Events were posted", func() bool {
		list, err := o.admin.CoreV1().Events(o.name).List(o.t.Context(), metav1.ListOptions{})
		must(o.t, err)
		count := map[string]int32{}
		for _, e := range list.Items {
			count[e.Reason] += e.Count
		}
		return count["LeaderElection"] >= 2 && count["LeaderStopping"] >= 2 && count["LeaderReleased"] >= 2 && len(list.Items) < 6
	})}
}

func withANode(o *tenant) {
	o.options.Self.Zone, o.options.Self.Node = "", testbed.NodeName("za")
}

func knowsItsZone(o *tenant) []step {
	return []step{o.leads(), o.until("it knows its zone", func() bool { return o.elector.Term().Zone == "za" })}
}

// besideAPod starts another pod that may lead through the Lease.
func besideAPod(o *tenant) {
	o.in(o.deploy())
	o.other = o.pod("other", "za", metav1.OwnerReference{})
}

// provesADeath notes its own container's ID, and takes the lock from a leader
// whose container has ended.
func provesADeath(o *tenant) []step {
	read := func() (*corev1.Pod, *corev1.ContainerStatus) {
		pod, err := o.admin.CoreV1().Pods(o.name).Get(o.t.Context(), o.other.Name, metav1.GetOptions{})
		must(o.t, err)
		if len(pod.Status.ContainerStatuses) == 0 {
			return pod, nil
		}
		return pod, &pod.Status.ContainerStatuses[0]
	}
	return []step{
		o.leads(), o.until("the Lease says which container leads", func() bool { return o.lease().Annotations["zonelect.dev/container-id"] != "" }),
		o.until("the other pod runs", func() bool { _, container := read(); return container != nil }),
		o.until("the other leads", func() bool {
			other, container := read()
			lease, id, now := o.lease(), container.ContainerID, metav1.NowMicro()
			lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &other.Name, &now, &now
			*lease.Spec.LeaseTransitions++
			lease.Spec.LeaseDurationSeconds = new(int32(3600))
			maps.Copy(lease.Annotations, map[string]string{
				"zonelect.dev/holder": other.Name, "zonelect.dev/pod": other.Name + "/" + string(other.UID), "zonelect.dev/container-id": id,
			})
			_, err := o.admin.CoordinationV1().Leases(o.name).Update(o.t.Context(), lease, metav1.UpdateOptions{})
			return err == nil
		}),
		o.until("it follows", func() bool { return o.elector.Status().State == status.StateFollower }),
		o.until("its end is reported", func() bool {
			other, status := read()
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: status.ContainerID, FinishedAt: metav1.NewTime(time.Now().Add(time.Second))}}
			_, err := o.admin.CoreV1().Pods(o.name).UpdateStatus(o.t.Context(), other, metav1.UpdateOptions{})
			return err == nil
		}),
		o.leads(),
	}
}

// beside makes a legacy pod lead, in that zone.
func beside(zone string) func(*tenant) {
	return func(o *tenant) {
		o.in(o.deploy())
		o.options.Mode, o.options.LegacyGrace = operator.ModeAuto, -1
		o.other = o.pod("legacy", zone, metav1.OwnerReference{})
		if zone == deadZone {
			o.options.LegacyGrace = legacypods.GraceLeast
			o.other.Status.Phase = corev1.PodRunning
			_, err := o.admin.CoreV1().Pods(o.name).UpdateStatus(o.ctx, o.other, metav1.UpdateOptions{})
			must(o.t, err)
		}
		lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: appliedLock, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: o.other.Name, UID: o.other.UID},
		}}}
		_, err := o.admin.CoreV1().ConfigMaps(o.name).Create(o.ctx, lock, metav1.CreateOptions{})
		must(o.t, err)
	}
}

// deploy creates a pod of a Deployment, as the controllers would.
func (o *tenant) deploy() *corev1.Pod {
	o.t.Helper()
	labels := map[string]string{"app": "op"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testbed.PodManifest("za", "", "", labels).Spec}
	meta, selector := metav1.ObjectMeta{Name: "op"}, &metav1.LabelSelector{MatchLabels: labels}
	apps := o.admin.AppsV1()
	deployment, err := apps.Deployments(o.name).Create(o.ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	must(o.t, err)
	meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	set, err := apps.ReplicaSets(o.name).Create(o.ctx, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	must(o.t, err)
	return o.pod("op-1", "za", *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
}

// in makes the operator run in a pod.
func (o *tenant) in(self *corev1.Pod) {
	o.options.Self.PodName, o.options.Self.PodUID, o.options.Self.Container = self.Name, string(self.UID), self.Spec.Containers[0].Name
}

func (o *tenant) pod(name, zone string, owner metav1.OwnerReference) *corev1.Pod {
	o.t.Helper()
	pod := testbed.PodManifest(zone, name, o.name, map[string]string{"app": "op"})
	if owner.Name != "" {
		pod.OwnerReferences = []metav1.OwnerReference{owner}
	}
	pod, err := o.admin.CoreV1().Pods(o.name).Create(o.ctx, pod, metav1.CreateOptions{})
	must(o.t, err)
	return pod
}

func followsALegacyPod(o *tenant) []step {
	return []step{
		o.until("it waits for the legacy pod", func() bool { return strings.Contains(o.elector.Status().Waiting, "legacy") }),
		func() error {
			return o.admin.CoreV1().Pods(o.name).Delete(o.ctx, o.other.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		},
		o.leads(), o.isShielded(), o.renews(),
	}
}

func followsAPodThatIsPresumedGone(o *tenant) []step { return []step{o.leads(), o.isShielded()} }

func (o *tenant) isShielded() step {
	m, err := ownerref.New(ownerref.Config{Core: o.admin.CoreV1().RESTClient(), Namespace: o.name, Name: appliedLock})
	must(o.t, err)
	return o.until("the shield is armed", func() bool {
		r, err := m.Read(o.t.Context())
		must(o.t, err)
		return r.Kind == ownerref.Shield && r.Armed
	})
}

// deadZone has a node without a kubelet.
const deadZone = "dead"

func addDeadNode(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: testbed.NodeName(deadZone)}
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
}

func withAnAnnotation(o *tenant) {
	o.in(o.deploy())
	o.options.Mode, o.options.LegacyKind = operator.ModeDual, operator.LegacyConfigMap
	if o.legacy == "endpoints" {
		o.options.LegacyKind = operator.LegacyEndpoints
	}
}

func leadsByAnAnnotation(o *tenant) []step {
	return []step{o.leads(), o.renews(), o.until("the annotation says who leads", func() bool {
		core := o.admin.CoreV1()
		var object metav1.Object
		var err error
		if o.legacy == "endpoints" {
			object, err = core.Endpoints(o.name).Get(o.t.Context(), appliedLock, metav1.GetOptions{}) //nolint:staticcheck // what the old lock stands on
		} else {
			object, err = core.ConfigMaps(o.name).Get(o.t.Context(), appliedLock, metav1.GetOptions{})
		}
		return err == nil && strings.Contains(object.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey], `"holderIdentity":"me"`)
	})}
}

// TestConfigGrantsWhatThePackagesAskFor checks the Roles against the rules in
// the documentation of the packages that use them.
func TestConfigGrantsWhatThePackagesAskFor(t *testing.T) {
	all := kustomizations(t)
	for _, row := range []struct{ dirs, configs []string }{
		{[]string{"locks/lease", "locks/multilock", "internal/phase", "heartbeat"}, []string{"lease", "heartbeat"}},
		{[]string{"locks/annotation"}, []string{"annotation"}},
		{[]string{"locks/ownerref"}, []string{"leader-for-life", "dead-nodes", "zone"}},
		{[]string{"internal/proof"}, []string{"proof"}},
	} {
		documented, given := map[right]bool{}, map[right]bool{}
		for _, dir := range row.dirs {
			for _, p := range documentedIn(t, dir) {
				documented[p] = true
			}
		}
		for _, name := range row.configs {
			for _, p := range granted(t, feature{}, all[name]) {
				p.namespace, p.name = "", "" // the packages do not know the names
				given[p] = true
				if !documented[p] {
					t.Errorf("config/operator/%s grants %s, of which %v say nothing", name, p, row.dirs)
				}
			}
		}
		for p := range documented {
			if p.resource != "statefulsets" && p.resource != "daemonsets" && !given[p] {
				t.Errorf("%v need %s, which %v do not grant", row.dirs, p, row.configs)
			}
		}
	}
}

// documentedIn returns the rules in a package's documentation: its indented
// parts.
func documentedIn(t *testing.T, dir string) []right {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../../..", dir, "doc.go"), nil, parser.ParseComments)
	must(t, err)
	var all []right
	for part := range strings.SplitSeq(file.Doc.Text(), "\n\n") {
		if !strings.HasPrefix(part, "\tapiGroups") {
			continue
		}
		var rule rbacv1.PolicyRule
		must(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(part, "\t", "")), &rule))
		all = append(all, rightsOf("", []rbacv1.PolicyRule{rule})...)
	}
	if len(all) == 0 {
		t.Errorf("%s documents no rules", dir)
	}
	return all
}
