// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock/twin"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// input is an object in a lock's place, and what a candidate says about it.
type input struct {
	owners      []metav1.OwnerReference
	annotations map[string]string
	data        map[string]string
	says        string
	problem     bool // as a problem, not as something it waits for
	enter       func(*editedLock) func(*entry)
}

// inputs puts objects that are not leader-for-life locks in a lock's place.
func inputs(t *testing.T, p *past) {
	pod := func(name string) metav1.OwnerReference {
		made, err := p.Cluster.AddPod(p.ctx, "zb", name, "default", nil)
		must(t, err)
		return podOwner(made.Name, made.UID)
	}
	node, err := p.client.CoreV1().Nodes().Get(p.ctx, testbed.NodeName("za"), metav1.GetOptions{})
	must(t, err)
	onNode := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	lease, err := p.client.CoordinationV1().Leases("default").Create(p.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "any"}}, metav1.CreateOptions{})
	must(t, err)
	onLease := metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: lease.Name, UID: lease.UID}
	elected := map[string]string{annotation.AnnotationRecord: `{"holderIdentity":"somebody","leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00Z","renewTime":"2026-01-01T00:00:00Z","leaderTransitions":3}`}
	garbled := map[string]string{annotation.AnnotationRecord: "no JSON"}
	a, b := pod("owner-a"), pod("owner-b")
	other := a
	other.APIVersion = "example.com/v1"
	atOnce(t, map[string]input{
		"data that is not a lock":     {data: map[string]string{"color": "blue"}, says: "it holds data, which no lock does: give the lock another name"},
		"data and a pod":              {data: map[string]string{"color": "blue"}, owners: []metav1.OwnerReference{a}, says: "it holds data, which no lock does"},
		"two pods":                    {owners: []metav1.OwnerReference{a, b}, says: "its owners are Pod owner-a (v1), Pod owner-b (v1)"},
		"a pod and a node":            {owners: []metav1.OwnerReference{a, onNode}, says: "its owners are Pod owner-a (v1), Node node-za (v1)"},
		"a pod and a lease":           {owners: []metav1.OwnerReference{a, onLease}, says: "its owners are Pod owner-a (v1), Lease any"},
		"a node":                      {owners: []metav1.OwnerReference{onNode}, says: "its owners are Node node-za (v1), where a leader-for-life lock has one Pod"},
		"an annotation lock":          {annotations: elected, says: "it holds an election record of client-go"},
		"an annotation and a pod":     {annotations: elected, owners: []metav1.OwnerReference{a}, says: "it holds an election record of client-go"},
		"a twin without json":         {annotations: garbled, says: "holds no record of a leader election: nobody can take the lock until it is mended", problem: true, enter: twinOn(annotation.ConfigMaps)},
		"a twin on a lock for life":   {owners: []metav1.OwnerReference{a}, says: "it has no record but one owner, the pod owner-a", problem: true, enter: twinOn(annotation.ConfigMaps)},
		"an owner of another api":     {owners: []metav1.OwnerReference{other}, says: "its owners are Pod owner-a (example.com/v1)"},
		"an owner of another program": {owners: []metav1.OwnerReference{pod("owner-c")}, says: `does not match it: set one that matches the operator's old pods and new ones`},
	}, func(t *testing.T, in input) {
		s := newEditedLock(t, p, "original")
		s.endures(in)
		s.neverTwo()
	})
}

// twinOn makes a candidate use a Twin.
func twinOn(kind annotation.Kind) func(*editedLock) func(*entry) {
	return func(s *editedLock) func(*entry) {
		return func(e *entry) {
			lock, err := e.environment().Twin(s.lock, twin.Config{Kind: kind})
			must(s.t, err)
			e.lock, e.alone = lock, true
		}
	}
}

// endures checks that a candidate which finds the input leaves it alone and
// does not lead, and that it leads once the input is gone.
func (s *editedLock) endures(in input) {
	s.t.Helper()
	cm := &corev1.ConfigMap{Data: in.data}
	cm.Name, cm.OwnerReferences, cm.Annotations = s.lock, in.owners, in.annotations
	made, err := s.client.CoreV1().ConfigMaps("default").Create(s.ctx, cm, metav1.CreateOptions{})
	must(s.t, err)
	change := func(*entry) {}
	if in.enter != nil {
		change = in.enter(s)
	}
	m := s.enter("0", change)
	said := ""
	s.until("saying "+in.says, func() bool {
		now := m.Status()
		if said = now.Waiting; in.problem && now.Problem != nil {
			said = now.Problem.Error()
		}
		return strings.Contains(said, in.says)
	})
	s.t.Logf("it says: %s", said)
	time.Sleep(5 * time.Second)
	_, now := s.record()
	was, is := text(s.t, made), text(s.t, now)
	if was != is {
		s.t.Errorf("the ConfigMap was %s, and is %s", was, is)
	}
	if len(s.terms()) > 0 {
		s.t.Error("it led")
	}
	s.deleteConfigMap()
	if strings.Contains(in.says, "does not match") { // the candidate remembers the legacy leader
		s.deletePod(in.owners[0].Name)
	}
	took := s.until("leading without it", func() bool { return m.Status().State == status.StateLeader })
	s.t.Logf("it leads %v after the ConfigMap was removed", took.Round(time.Millisecond))
}

func text(t *testing.T, object any) string {
	t.Helper()
	raw, err := json.Marshal(object)
	must(t, err)
	return string(raw)
}

// elsewhere tests a legacy lock whose name differs from the Lease's.
func elsewhere(t *testing.T, p *past) {
	s := newEditedLock(t, p, "original")
	old := s.lock + "-old"
	seat := s.startAt(old, "zb", "0")
	s.await(t, seat, "leading")
	m := s.enter("1", func(e *entry) { e.legacy.LegacyName = old })
	s.until("waiting for the legacy pod", func() bool {
		return strings.Contains(m.Status().Waiting, "legacy pods that may still lead: "+seat.Identity)
	})
	if now := m.Status(); now.State != status.StateAdopting || now.Problem != nil {
		t.Errorf("while it waits it is %s, with the problem %v: a rolling update would not go on", now.State, now.Problem)
	}
	gone := s.end(seat)
	s.leader()
	t.Logf("it leads %v after the legacy pod of the other name had ended", s.terms()[0].start.Sub(gone).Round(time.Millisecond))
	cm, err := s.client.CoreV1().ConfigMaps("default").Get(s.ctx, old, metav1.GetOptions{})
	must(t, err)
	if len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].Kind != "Lease" {
		t.Errorf("its owners are %v", cm.OwnerReferences)
	}
	if l := s.lease(); l.Annotations["zonelect.dev/legacy-lock"] != "configmap/"+old {
		t.Errorf("the Lease says %v", l.Annotations)
	}
	s.neverTwo()
}

// permission is one verb that candidates need.
type permission struct {
	namespace             string // empty if it has no namespace
	group, resource, verb string
}

func (p permission) String() string {
	of := p.resource
	if p.group != "" {
		of += "." + p.group
	}
	if p.namespace == "" {
		return fmt.Sprintf("needs verb %q on %s", p.verb, of)
	}
	return fmt.Sprintf("needs verb %q on %s in namespace %q", p.verb, of, p.namespace)
}

// documented returns the permissions that the package comments list.
func documented(controllers ...string) []permission {
	var all []permission
	add := func(namespace, group, resource, verbs string) {
		for verb := range strings.FieldsSeq(verbs) {
			all = append(all, permission{namespace, group, resource, verb})
		}
	}
	add("default", "", "configmaps", "get create update delete watch")
	add("default", "coordination.k8s.io", "leases", "get list create update watch")
	add("default", "", "pods", "get list")
	for _, c := range controllers {
		add("default", "apps", c, "get")
	}
	add("kube-node-lease", "coordination.k8s.io", "leases", "get list")
	add("", "", "nodes", "get")
	return all
}

// allow gives the lock's user these permissions and no others.
func (s *editedLock) allow(all []permission) {
	s.t.Helper()
	rules := map[string][]rbacv1.PolicyRule{"default": nil, "kube-node-lease": nil, "": nil}
	for _, p := range all {
		rules[p.namespace] = append(rules[p.namespace], rule(p.group, p.verb, p.resource))
	}
	rbac := s.client.RbacV1()
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.lock}}
	for namespace, rules := range rules {
		meta := metav1.ObjectMeta{Name: s.lock, Namespace: namespace}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: s.lock}
		var errs [2]error
		if namespace == "" {
			ref.Kind = "ClusterRole"
			_, errs[0] = rbac.ClusterRoles().Update(s.ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.UpdateOptions{})
			_, errs[1] = rbac.ClusterRoleBindings().Update(s.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.UpdateOptions{})
		} else {
			_, errs[0] = rbac.Roles(namespace).Update(s.ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.UpdateOptions{})
			_, errs[1] = rbac.RoleBindings(namespace).Update(s.ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.UpdateOptions{})
		}
		must(s.t, errors.Join(errs[:]...))
	}
}

// Nodes without a kubelet. The second one was declared out of service.
const (
	deadNode = "node-dead"
	offNode  = "node-off"
)

var outOfServiceTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// permissions takes away one permission at a time.
func permissions(t *testing.T, p *past) {
	for name, taints := range map[string][]corev1.Taint{deadNode: nil, offNode: {outOfServiceTaint}} {
		meta := metav1.ObjectMeta{Name: name}
		_, err := p.client.CoreV1().Nodes().Create(p.ctx, &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{Taints: taints}}, metav1.CreateOptions{})
		must(t, err)
		_, err = p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(p.ctx, &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{})
		must(t, err)
	}
	type row struct {
		permission
		controllers string
		node        string // the legacy pod's, if that does not end in good order
		grace       time.Duration
		terms       int           // how many there may be without it
		most        time.Duration // from the grant to the beginning of work
	}
	soon := 5*time.Second + p.settle(t)
	rows := map[string]row{}
	for _, p := range documented() {
		if p.namespace != "default" {
			continue
		}
		r := row{permission: p, most: soon}
		switch name := p.verb + " " + p.resource; name {
		case "delete configmaps": // else the garbage collector may delete it
			r.node, r.grace = offNode, time.Hour
		case "update leases", "watch leases": // it cannot renew what it created; it reads instead
			r.terms = 1
		}
		rows["without "+p.verb+" "+p.resource] = r
	}
	for _, c := range []string{"replicasets", "deployments", "statefulsets", "daemonsets"} {
		rows["without get "+c] = row{permission: permission{"default", "apps", c, "get"}, controllers: c, most: soon}
	}
	grace := 20 * time.Second
	rows["without get node-leases"] = row{permission: permission{"kube-node-lease", "coordination.k8s.io", "leases", "get"}, node: deadNode, grace: grace, most: grace + soon}
	rows["without list node-leases"] = row{permission: permission{"kube-node-lease", "coordination.k8s.io", "leases", "list"}, node: deadNode, grace: grace, most: grace + soon}
	rows["without get nodes"] = row{permission: permission{"", "", "nodes", "get"}, node: offNode, grace: time.Hour, most: soon}
	atOnce(t, rows, func(t *testing.T, r row) {
		s := newEditedLock(t, p, "original")
		s.grace = r.grace
		all := documented("replicasets", "deployments", "statefulsets", "daemonsets")
		without := func(gone permission) []permission {
			return slices.DeleteFunc(slices.Clone(all), func(p permission) bool { return p == gone })
		}
		s.allow(without(r.permission))
		s.lacks(r.permission, r.controllers, r.node, r.terms, r.most, func() { s.allow(all) })
	})
}

// lacks lets a candidate without a permission find a legacy lock whose pod is
// on a dead node or ends in good order.
func (s *editedLock) lacks(p permission, controllers, node string, terms int, most time.Duration, grant func()) {
	s.t.Helper()
	legacy := testbed.PodManifest("zb", s.lock+"-old", "default", map[string]string{"app": s.lock})
	if node != "" {
		legacy.Spec.NodeName = node
		legacy.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // or it would be removed
	}
	legacy, err := s.client.CoreV1().Pods("default").Create(s.ctx, legacy, metav1.CreateOptions{})
	must(s.t, err)
	cm := &corev1.ConfigMap{}
	cm.Name, cm.OwnerReferences = s.lock, []metav1.OwnerReference{podOwner(legacy.Name, legacy.UID)}
	_, err = s.client.CoreV1().ConfigMaps("default").Create(s.ctx, cm, metav1.CreateOptions{})
	must(s.t, err)
	m := s.enter("0", func(e *entry) {
		e.cfg.Impersonate.UserName = s.lock
		if controllers != "" {
			e.legacy.PodSelector = ""
			pod := s.controlled(controllers)
			e.self.PodName, e.self.PodUID, e.self.Node = pod.Name, string(pod.UID), pod.Spec.NodeName
		}
	})
	if node == "" {
		time.Sleep(time.Second)
		s.deletePod(legacy.Name)
	}
	where := ""
	s.until("saying "+p.String(), func() bool {
		now := m.Status()
		switch {
		case now.Problem != nil && strings.Contains(now.Problem.Error(), p.String()):
			where = "as its problem"
		case strings.Contains(now.Waiting, p.String()):
			where = "as what it waits for"
		}
		return where != ""
	})
	time.Sleep(3 * time.Second)
	if n := len(s.terms()); n > terms {
		s.t.Errorf("without the verb it led %d times", n)
	}
	since := time.Now()
	grant()
	for m.Status().State != status.StateLeader && time.Since(since) < most+10*time.Second {
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(since)
	if s.t.Logf("says %q %s, and led %v after it was granted", p, where, took.Round(time.Millisecond)); took > most {
		s.t.Errorf("it leads %v after the verb was granted, want %v at most: %s", took, most, s.state())
	}
	s.until("all well", func() bool { return m.Status().Problem == nil && m.Status().Waiting == "" })
}

// controlled returns a pod that belongs to a controller of that kind.
func (s *editedLock) controlled(kind string) *corev1.Pod {
	s.t.Helper()
	labels := map[string]string{"app": s.lock}
	apps, selector := s.client.AppsV1(), &metav1.LabelSelector{MatchLabels: labels}
	manifest := testbed.PodManifest("za", s.lock+"-pod", "default", labels)
	meta := metav1.ObjectMeta{Name: s.lock}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: manifest.Spec}
	var uid types.UID
	var err error
	owner := ""
	switch kind {
	case "replicasets", "deployments":
		one := int32(1)
		_, err = apps.Deployments("default").Create(s.ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template}}, metav1.CreateOptions{})
		must(s.t, err)
		var pod *corev1.Pod
		s.until("a pod of the Deployment", func() bool {
			list, err := s.client.CoreV1().Pods("default").List(s.ctx, metav1.ListOptions{LabelSelector: "app=" + s.lock + ",pod-template-hash"})
			must(s.t, err)
			if len(list.Items) == 1 {
				pod = &list.Items[0]
			}
			return pod != nil
		})
		return pod
	case "statefulsets":
		var set *appsv1.StatefulSet
		set, err = apps.StatefulSets("default").Create(s.ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
		must(s.t, err)
		owner, uid = "StatefulSet", set.UID
	case "daemonsets":
		var set *appsv1.DaemonSet
		set, err = apps.DaemonSets("default").Create(s.ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
		must(s.t, err)
		owner, uid = "DaemonSet", set.UID
	}
	manifest.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: s.lock, UID: uid, Controller: new(true)}}
	pod, err := s.client.CoreV1().Pods("default").Create(s.ctx, manifest, metav1.CreateOptions{})
	must(s.t, err)
	return pod
}

var long = flag.Bool("long", false, "run what takes minutes, too")

func TestALegacyLeaderOnADeadNodeIsFollowedAfterTheDefaultGrace(t *testing.T) {
	if !*long {
		t.Skip("takes 90 seconds: run with -long")
	}
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	s := newEditedLock(t, &past{b, patience(t, 4*time.Minute), client}, "original")
	s.lock = "default-grace"
	s.await(t, s.start("zc", "old"), "leading")
	s.enter("0")
	s.enter("1", func(e *entry) { e.zone = "zb" })
	time.Sleep(25 * time.Second) // two heartbeats
	must(t, s.CutPower(s.ctx, "zc"))
	cut := time.Now()
	for len(s.terms()) == 0 && time.Since(cut) < 2*time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	const heartbeat = 10 * time.Second
	grace, took := legacypods.GraceDefault, time.Since(cut)
	if t.Logf("a candidate leads %v after the power was lost", took.Round(time.Millisecond)); took < grace-heartbeat || took > grace+8*time.Second {
		t.Errorf("it leads %v after the power was lost, want about %v", took, grace)
	}
}

// outOfService takes away the power of a zone with legacy leaders, and declares
// its node out of service a while later, when it must be off. With a grace of
// zero, nothing is presumed. It waits for calm before that, because to the
// other users of the control plane it would be an accident.
func outOfService(t *testing.T, p *past, calm <-chan struct{}) {
	const (
		zone   = "zc"
		later  = 20 * time.Second // than the cut, and before the default grace
		watch  = 40 * time.Second
		atOnce = 2 * time.Second
	)
	believer, skeptic := newEditedLock(t, p, "original"), newEditedLock(t, p, "original")
	believer.lock, skeptic.lock, skeptic.grace = "out-of-service", "never", -1
	for _, s := range []*editedLock{believer, skeptic} {
		s.await(t, s.start(zone, "old"), "leading")
		s.enter("0")
		s.enter("1", func(e *entry) { e.zone = "zb" })
	}
	<-calm // and the node has been seen to beat
	must(t, p.CutPower(p.ctx, zone))
	cut := time.Now()
	time.Sleep(later)
	if n := len(believer.terms()); n > 0 {
		t.Errorf("%d terms while the node was only silent", n)
	}
	_, err := p.client.CoreV1().Nodes().Patch(p.ctx, testbed.NodeName(zone), types.StrategicMergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"`+corev1.TaintNodeOutOfService+`","value":"nodeshutdown","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
	must(t, err)
	declared := time.Now()
	leader := believer.leader()
	took := believer.terms()[0].start.Sub(declared)
	t.Logf("%s leads %v after the node, silent for %v, was declared out of service", leader.pod.Name, took.Round(time.Millisecond), later)
	if took > atOnce+busy+p.settle(t) {
		t.Errorf("it leads %v after the taint, want at once", took)
	}
	time.Sleep(time.Until(cut.Add(watch)))
	if n := len(skeptic.terms()); n > 0 {
		t.Errorf("%d terms beside a legacy leader that may live, where the grace is zero", n)
	}
	t.Logf("with a grace of zero nobody leads after %v: %q", time.Since(cut).Round(time.Second), skeptic.members[0].Status().Waiting+skeptic.members[1].Status().Waiting)
}
