// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// TestConfigGrantsWhatEachModeNeeds runs each feature through package operator as the service account of
// config/, with the rights that config/ grants for it and no others.
func TestConfigGrantsWhatEachModeNeeds(t *testing.T) {
	g := newGround(t, harmless, "rights")
	admin, err := kubernetes.NewForConfig(g.Cluster.RESTConfig("za")) // which the features ask: each server hears of rights by itself
	must(t, err)
	g.client = admin
	addDeadNode(t, g.client)
	all := kustomizations(t)
	atOnce(t, features, func(t *testing.T, f feature) { f.try(t, g, all) })
}

// The names in config/.
const (
	appliedNamespace = "my-operator"
	appliedAccount   = "my-operator"
	appliedLock      = "my-operator"
)

// kustomizations builds each one under config/, as kubectl kustomize does. config/operator/name is none of
// these: it changes what the others make.
func kustomizations(t *testing.T) map[string]manifests.Objects {
	t.Helper()
	files, err := filepath.Glob("../../../config/*/*/kustomization.yaml")
	must(t, err)
	all := map[string]manifests.Objects{}
	for _, file := range files {
		dir := filepath.Dir(file)
		if filepath.Base(dir) == "name" {
			continue
		}
		all[filepath.Base(dir)] = manifests.Kustomize(t, dir)
	}
	if len(all) == 0 {
		t.Fatal("config/ has no kustomizations")
	}
	return all
}

// granted are the rights that a kustomization grants for a feature.
func granted(t *testing.T, f feature, all manifests.Objects) []manifests.Right {
	t.Helper()
	rights := manifests.Granted(t, all)
	for i := range rights {
		if f.legacy != "" && rights[i].Resource == "configmaps" {
			rights[i].Resource = f.legacy
		}
	}
	return rights
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
	"lease":           {config: "lease", besides: []string{"pod"}, begin: withHealth, goes: leadsByALease},
	"events":          {config: "events", besides: []string{"lease"}, begin: withEvents, goes: postsEvents},
	"zone":            {config: "zone", besides: []string{"lease"}, begin: withANode, goes: knowsItsZone},
	"leader-for-life": {config: "leader-for-life", besides: []string{"lease"}, begin: beside("za"), goes: followsALegacyPod},
	"dead-nodes":      {config: "dead-nodes", besides: []string{"lease", "leader-for-life", "zone"}, begin: beside(deadZone), goes: followsAPodThatIsPresumedGone},
	"configmap":       {config: "annotation", besides: []string{"lease", "pod"}, begin: withAnAnnotation, goes: leadsByAnAnnotation},
	"endpoints":       {config: "annotation", besides: []string{"lease", "pod"}, legacy: "endpoints", begin: withAnAnnotation, goes: leadsByAnAnnotation},
}

// tenant is an operator in a namespace of its own.
type tenant struct {
	feature
	t       *testing.T
	ctx     context.Context
	admin   kubernetes.Interface
	name    string      // of the namespace
	other   *corev1.Pod // the pod that it follows, or waits for
	options operator.Options
	elector *operator.Election
	terms   chan election.Term

	ill atomic.Bool // what its health check says

	mu   sync.Mutex
	said []string
}

func (f feature) try(t *testing.T, g *ground, all map[string]manifests.Objects) {
	o := &tenant{feature: f, t: t, ctx: patience(t, soon), admin: g.client, name: g.named(nameOf(t)), terms: make(chan election.Term, 100)}
	_, err := o.admin.CoreV1().Namespaces().Create(o.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.name}}, metav1.CreateOptions{})
	must(t, err)
	for _, name := range append(slices.Clone(f.besides), f.config) {
		of := f
		if name != f.config {
			of.legacy = ""
		}
		o.grant(name, granted(t, of, all[name]))
	}
	o.options = operator.Options{
		Config: g.Cluster.RESTConfig("za"), Timing: quick, Namespace: o.name, NoEvents: true,
		Self: operator.SelfOptions{Identity: "me", Zone: "za"}, Logger: funcr.New(func(_, line string) { o.say(line) }, funcr.Options{}),
	}
	o.options.Config.Impersonate.UserName = account(o.name, appliedAccount)
	if f.begin != nil {
		f.begin(o)
	}
	if err := o.run(); err != nil {
		t.Errorf("%v; it said:\n%s", err, o.text())
	}
	if o.complains() {
		t.Errorf("it complains:\n%s", o.text())
	}
}

// grant gives the service account these rights.
func (o *tenant) grant(name string, all []manifests.Right) {
	o.t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, p := range all {
		rule := rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: []string{p.Verb}}
		if p.Name != "" {
			rule.ResourceNames = []string{p.Name}
		}
		rules[p.Namespace] = append(rules[p.Namespace], rule)
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
		if p.Namespace == appliedNamespace {
			p.Namespace = o.name
		}
		must(o.t, o.until("the rights are known", func() bool { return may(o.t, o.admin, account(o.name, appliedAccount), p) })())
	}
}

func (o *tenant) say(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, strings.ReplaceAll(line, `\`, ""))
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

// run takes part in the election until everything that must happen has happened, or time is up.
func (o *tenant) run() error {
	var err error
	if o.elector, err = operator.New(o.ctx, appliedLock, o.options); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(context.WithoutCancel(o.ctx))
	defer unwatch()
	news := o.elector.Subscribe(watching)
	go func() {
		for n := range news {
			if n.Status.Waiting != "" || n.Status.Problem != nil {
				o.say(fmt.Sprintf("%s: %s %v", n.Change, n.Status.Waiting, n.Status.Problem))
			}
		}
	}()
	ctx, stop := context.WithCancel(o.ctx)
	over := make(chan error, 1)
	go func() {
		over <- o.elector.Run(ctx, func(ctx context.Context, term election.Term) error {
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
	stop()
	if err = errors.Join(err, <-over); err == nil {
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

// beside makes a legacy pod lead, in that zone.
func beside(zone string) func(*tenant) {
	return func(o *tenant) {
		o.in(o.deploy())
		o.options.Mode, o.options.LegacyGrace = operator.ModeAuto, -1
		o.other = o.pod("legacy", zone)
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

// deploy creates a pod of a Deployment. That is paused, so that the controllers leave alone what this makes.
func (o *tenant) deploy() *corev1.Pod {
	o.t.Helper()
	labels := map[string]string{"app": "op", appsv1.DefaultDeploymentUniqueLabelKey: "1"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testbed.PodManifest("za", "", "", labels).Spec}
	meta := metav1.ObjectMeta{Name: "op"}
	apps := o.admin.AppsV1()
	deployment, err := apps.Deployments(o.name).Create(o.ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "op"}}, Template: template, Paused: true,
	}}, metav1.CreateOptions{})
	must(o.t, err)
	meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	meta.Labels = labels
	set, err := apps.ReplicaSets(o.name).Create(o.ctx, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}, metav1.CreateOptions{})
	must(o.t, err)
	var pod *corev1.Pod
	must(o.t, o.until("the ReplicaSet has a pod", func() bool {
		list, err := o.admin.CoreV1().Pods(o.name).List(o.ctx, metav1.ListOptions{})
		must(o.t, err)
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], set) {
				pod = &list.Items[i]
			}
		}
		return pod != nil
	})())
	return pod
}

// in makes the operator run in a pod.
func (o *tenant) in(self *corev1.Pod) {
	o.options.Self.PodName, o.options.Self.PodUID, o.options.Self.Container = self.Name, string(self.UID), self.Spec.Containers[0].Name
}

// pod makes a pod of the operator that no ReplicaSet takes for its own.
func (o *tenant) pod(name, zone string) *corev1.Pod {
	o.t.Helper()
	pod, err := o.admin.CoreV1().Pods(o.name).Create(o.ctx, testbed.PodManifest(zone, name, o.name, map[string]string{"app": "op"}), metav1.CreateOptions{})
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
	if apierrors.IsAlreadyExists(err) { // of an earlier run
		return
	}
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

// may asks the API server whether a user has the right.
func may(t *testing.T, client kubernetes.Interface, user string, p manifests.Right) bool {
	t.Helper()
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.Namespace, Verb: p.Verb, Group: p.Group, Resource: p.Resource, Name: p.Name},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Allowed
}

// account is the user name of a service account.
func account(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}
