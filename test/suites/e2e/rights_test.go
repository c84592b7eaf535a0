// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

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
		if dir := filepath.Dir(file); filepath.Base(dir) != "name" {
			all[filepath.Base(dir)] = manifests.Kustomize(t, dir)
		}
	}
	if len(all) == 0 {
		t.Fatal("config/ has no kustomizations")
	}
	return all
}

// feature is something that needs the rights of kustomizations.
type feature struct {
	configs []string
	legacy  string        // what replaces configmaps in the last of them
	begin   func(*tenant) // prepares it
	goes    func(*tenant) // waits for what must happen
}

// TestConfigGrantsWhatEachModeNeeds runs each feature through package operator as the service account of
// config/, with the rights that config/ grants for it and no others.
func TestConfigGrantsWhatEachModeNeeds(t *testing.T) {
	g := newGround(t, harmless, "rights")
	admin, err := kubernetes.NewForConfig(g.Cluster.RESTConfig("za")) // which the features ask: each server hears of rights by itself
	must(t, err)
	g.client = admin
	addDeadNode(t, admin)
	all := kustomizations(t)
	atOnce(t, map[string]feature{
		"lease":           {configs: []string{"pod", "lease"}, begin: withHealth, goes: leadsByALease},
		"events":          {configs: []string{"lease", "events"}, begin: func(o *tenant) { o.options.NoEvents = false }, goes: postsEvents},
		"zone":            {configs: []string{"lease", "zone"}, begin: withANode, goes: knowsItsZone},
		"leader-for-life": {configs: []string{"lease", "leader-for-life"}, begin: beside("za"), goes: followsALegacyPod},
		"dead-nodes": {
			configs: []string{"lease", "leader-for-life", "dead-nodes"}, begin: beside(deadZone), goes: followsAPodThatIsPresumedGone,
		},
		"configmap": {configs: []string{"lease", "pod", "annotation"}, begin: withAnAnnotation, goes: leadsByAnAnnotation},
		"endpoints": {
			configs: []string{"lease", "pod", "annotation"}, legacy: "endpoints", begin: withAnAnnotation, goes: leadsByAnAnnotation,
		},
	}, func(t *testing.T, f feature) { f.try(t, g, all) })
}

// tenant is an operator in a namespace of its own.
type tenant struct {
	feature
	t       *testing.T
	admin   kubernetes.Interface
	name    string      // of the namespace
	other   *corev1.Pod // the pod that it follows, or waits for
	options operator.Options
	elector *operator.Election
	terms   chan election.Term

	ill atomic.Bool // what its health check says
	journal
}

func (f feature) try(t *testing.T, g *ground, all map[string]manifests.Objects) {
	o := &tenant{feature: f, t: t, admin: g.client, name: g.named(nameOf(t)), terms: make(chan election.Term, 100)}
	makeNamespace(t, o.admin, metav1.ObjectMeta{Name: o.name})
	for i, name := range f.configs {
		replaced := f.legacy
		if i < len(f.configs)-1 {
			replaced = ""
		}
		o.grant(name, all[name], replaced)
	}
	o.options = operator.Options{
		Config: g.Cluster.RESTConfig("za"), Timing: quick, Namespace: o.name, NoEvents: true,
		Self: operator.SelfOptions{Identity: "me", Zone: "za"}, Logger: o.logger(),
	}
	o.options.Config.Impersonate.UserName = userName(serviceAccount(o.name, appliedAccount))
	f.begin(o)
	var err error
	o.elector, err = operator.New(t.Context(), appliedLock, o.options)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- o.elector.Run(ctx, func(ctx context.Context, term election.Term) error {
			o.terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		if text := o.String(); t.Failed() || strings.Contains(text, "forbidden") || strings.Contains(text, "needs verb") {
			t.Errorf("it says:\n%s", text)
		}
	})
	f.goes(o)
	if problem := o.elector.Status().Problem; errors.Is(problem, locks.ErrForbidden) {
		t.Error(problem)
	}
	stop()
	must(t, <-over)
	until(t, "the Lease is released", func() bool { return holder(o.lease()) == "" })
}

// grant gives the service account the rights of a kustomization.
func (o *tenant) grant(name string, all manifests.Objects, instead string) {
	o.t.Helper()
	change := func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		for _, r := range rules {
			if i := slices.Index(r.Resources, "configmaps"); i >= 0 && instead != "" {
				r.Resources[i] = instead
			}
		}
		return rules
	}
	me := serviceAccount(o.name, appliedAccount)
	for _, role := range manifests.Pick[rbacv1.Role](o.t, all, "Role") {
		namespace := role.Namespace
		if namespace == appliedNamespace {
			namespace = o.name
		}
		allow(o.t, o.admin, namespace, o.name+"-"+role.Name, me, change(role.Rules)...)
	}
	for _, role := range manifests.Pick[rbacv1.ClusterRole](o.t, all, "ClusterRole") {
		allow(o.t, o.admin, "", o.name+"-"+role.Name, me, change(role.Rules)...)
	}
}

// leads waits for the next term.
func (o *tenant) leads() {
	o.t.Helper()
	until(o.t, "it leads", func() bool {
		select {
		case <-o.terms:
			return true
		default:
			return false
		}
	})
}

func (o *tenant) lease() *coordinationv1.Lease {
	return leaseOf(o.t, o.admin, o.name, appliedLock)
}

// renews waits for renewals, and for the watches to be established.
func (o *tenant) renews() {
	seen := map[string]bool{}
	until(o.t, "it renews", func() bool {
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
func leadsByALease(o *tenant) {
	stands := func(health string) {
		until(o.t, "its presence stands, and says of its health: "+health, func() bool {
			all := presencesOf(o.t, o.admin, o.name, appliedLock)
			return len(all) == 1 && holder(&all[0]) == "me" && all[0].Annotations["zonelect.dev/health"] == health
		})
	}
	o.leads()
	o.renews()
	stands("")
	o.ill.Store(true)
	stands("ill")
}

// postsEvents makes each Event come twice, the second time as a patch.
func postsEvents(o *tenant) {
	for range 2 {
		o.leads()
		must(o.t, o.elector.Resign(o.t.Context()))
	}
	until(o.t, "Events were posted", func() bool {
		list, err := o.admin.CoreV1().Events(o.name).List(o.t.Context(), metav1.ListOptions{})
		must(o.t, err)
		count := map[string]int32{}
		for _, e := range list.Items {
			count[e.Reason] += e.Count
		}
		return count["LeaderElection"] >= 2 && count["LeaderStopping"] >= 2 && count["LeaderReleased"] >= 2 && len(list.Items) < 6
	})
}

func withANode(o *tenant) {
	o.options.Self.Zone, o.options.Self.Node = "", testbed.NodeName("za")
}

func knowsItsZone(o *tenant) {
	o.leads()
	until(o.t, "it knows its zone", func() bool { return o.elector.Term().Zone == "za" })
}

// beside makes a legacy pod lead, in that zone.
func beside(zone string) func(*tenant) {
	return func(o *tenant) {
		o.in(o.deploy())
		o.options.Legacy = operator.Legacy{Mode: operator.ModeAuto, Grace: -1}
		pods, pod := o.admin.CoreV1().Pods(o.name), testbed.PodManifest(zone, "legacy", o.name, map[string]string{"app": "op"})
		var err error
		o.other, err = pods.Create(o.t.Context(), pod, metav1.CreateOptions{})
		must(o.t, err)
		if zone == deadZone {
			o.options.Legacy.Grace = legacypods.GraceLeast
			o.other.Status.Phase = corev1.PodRunning
			_, err := pods.UpdateStatus(o.t.Context(), o.other, metav1.UpdateOptions{})
			must(o.t, err)
		}
		lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: appliedLock, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: o.other.Name, UID: o.other.UID},
		}}}
		_, err = o.admin.CoreV1().ConfigMaps(o.name).Create(o.t.Context(), lock, metav1.CreateOptions{})
		must(o.t, err)
	}
}

// deploy creates a Deployment, and returns its pod.
func (o *tenant) deploy() (pod *corev1.Pod) {
	o.t.Helper()
	deployments := o.admin.AppsV1().Deployments(o.name)
	_, err := deployments.Create(o.t.Context(), deploymentOf(1), metav1.CreateOptions{})
	must(o.t, err)
	until(o.t, "the Deployment has a pod", func() bool {
		list, err := o.admin.CoreV1().Pods(o.name).List(o.t.Context(), metav1.ListOptions{})
		must(o.t, err)
		if len(list.Items) > 0 {
			pod = &list.Items[0]
		}
		return pod != nil
	})
	return pod
}

// deploymentOf is an operator of that many replicas, in zone za.
func deploymentOf(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "op"}
	template := corev1.PodTemplateSpec{Spec: testbed.PodManifest("za", "", "", labels).Spec}
	template.Labels = labels
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "op"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}
}

// in makes the operator run in a pod.
func (o *tenant) in(self *corev1.Pod) {
	o.options.Self.PodName, o.options.Self.PodUID = self.Name, string(self.UID)
}

func followsALegacyPod(o *tenant) {
	until(o.t, "it waits for the legacy pod", func() bool { return strings.Contains(o.elector.Status().Waiting, "legacy") })
	removePod(o.t, o.admin, o.name, o.other.Name)
	followsAPodThatIsPresumedGone(o)
	o.renews()
}

func followsAPodThatIsPresumedGone(o *tenant) {
	o.leads()
	m, err := ownerref.New(ownerref.Config{Core: o.admin.CoreV1().RESTClient(), Namespace: o.name, Name: appliedLock})
	must(o.t, err)
	until(o.t, "the shield is armed", func() bool {
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
	leases := admin.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
}

func withAnAnnotation(o *tenant) {
	o.in(o.deploy())
	o.options.Legacy.ResourceLock = cmp.Or(o.legacy, "configmaps") + "leases"
}

func leadsByAnAnnotation(o *tenant) {
	o.leads()
	o.renews()
	lock, err := annotation.New(annotation.Config{
		Client: o.admin.CoreV1().RESTClient(), Kind: annotation.Kind(cmp.Or(o.legacy, "configmaps")),
		Namespace: o.name, Name: appliedLock,
	})
	must(o.t, err)
	until(o.t, "the annotation says who leads", func() bool {
		now, err := lock.Read(o.t.Context())
		return err == nil && now.Record.Holder == "me"
	})
}
