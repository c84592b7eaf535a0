// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// yard is a control plane with an operator of two identical pods: a pod becomes a
// candidate by its presence.
type yard struct {
	*ground
	t    *testing.T
	user kubernetes.Interface // the operator, with the documented permissions
}

// newYard makes one. The API server has the admission plugin that OpenShift
// has.
func newYard(t *testing.T) *yard {
	t.Helper()
	g := ownGround(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links,
		APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"}})
	cfg := g.Cluster.RESTConfig("za")
	cfg.Impersonate.UserName = "operator"
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	allow(t, g.client, g.namespace, "operator", user("operator"),
		rule("", []string{"configmaps"}, []string{"get", "create", "update", "watch"}),
		rule("coordination.k8s.io", []string{"leases"}, []string{"get", "list", "create", "update"}),
		rule("", []string{"pods"}, []string{"get", "list"}),
		rule("apps", []string{"replicasets", "deployments"}, []string{"get"}))
	_, err = g.client.AppsV1().Deployments(g.namespace).Create(t.Context(), deploymentOf(2), metav1.CreateOptions{})
	must(t, err)
	return &yard{g, t, client}
}

// grantDelete gives the operator the permission to delete ConfigMaps.
func (y *yard) grantDelete() {
	y.t.Helper()
	allow(y.t, y.client, y.namespace, "delete", user("operator"), rule("", []string{"configmaps"}, []string{"delete"}))
}

// pods waits for that many running pods, and returns them.
func (y *yard) pods(count int) []ownerref.Owner {
	y.t.Helper()
	var all []ownerref.Owner
	until(y.t, "pods", func() bool {
		list, err := y.client.CoreV1().Pods(y.namespace).List(y.t.Context(), metav1.ListOptions{})
		must(y.t, err)
		all = nil
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				all = append(all, ownerref.Owner{Name: pod.Name, UID: pod.UID})
			}
		}
		return len(all) == count && len(list.Items) == count
	})
	return all
}

// present makes a pod a candidate.
func (y *yard) present(pod ownerref.Owner) (ownerref.Owner, error) {
	o, err := presence.Ensure(y.t.Context(), y.user.CoordinationV1().RESTClient(), y.namespace,
		presence.Object{Lock: "lock", Pod: presence.Pod{Name: pod.Name, UID: pod.UID}, Identity: pod.Name},
		nil, func(context.Context) error { return nil })
	return ownerref.Owner{Name: o.Name, UID: o.UID}, err
}

// place is where a leader-for-life lock or a shield may be.
type place struct {
	*ownerref.ConfigMap
	rawapi.Object[corev1.ConfigMap, *corev1.ConfigMap]
}

func (y *yard) place(name string) place {
	y.t.Helper()
	core := y.user.CoreV1().RESTClient()
	m, err := ownerref.New(ownerref.Config{Core: core, Namespace: y.namespace, Name: name})
	must(y.t, err)
	return place{m, rawapi.New[corev1.ConfigMap](core, apierror.Object{Resource: apierror.ConfigMaps, Namespace: y.namespace, Name: name})}
}

// shield returns a copy of cm that is a shield of these presences.
func shield(cm *corev1.ConfigMap, step uint64, phase record.Phase, presences ...ownerref.Owner) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.Annotations = record.WriteStage(cm.Annotations, record.Stage{Phase: phase, Step: step})
	cm.Annotations[record.AnnotationShieldArmed] = string(cm.UID)
	cm.OwnerReferences = nil
	for _, p := range presences {
		cm.OwnerReferences = append(cm.OwnerReferences, apitest.LeaseRef(p.Name, string(p.UID)))
	}
	return cm
}

// count returns the legacy pods' names, as one pod of the operator sees them.
func (y *yard) count(self ownerref.Owner, owners ...ownerref.Owner) ([]string, error) {
	y.t.Helper()
	pods, err := legacypods.New(legacypods.Config{
		Core: y.user.CoreV1().RESTClient(), Apps: y.user.AppsV1().RESTClient(), Coordination: y.user.CoordinationV1().RESTClient(),
		Namespace: y.namespace, Lock: "lock", Self: self,
	})
	must(y.t, err)
	count, err := pods.Count(y.t.Context(), ownerref.Owner{}, owners)
	var names []string
	for _, p := range count.Standing {
		names = append(names, p.Pod.Name)
	}
	return names, err
}

// armed creates an armed shield of a presence.
func (y *yard) armed(m place, me ownerref.Owner) *corev1.ConfigMap {
	y.t.Helper()
	up, err := m.Create(y.t.Context(), shield(&corev1.ConfigMap{}, 1, record.PhaseDual, me))
	must(y.t, err)
	armed, err := m.Update(y.t.Context(), shield(up, 1, record.PhaseDual, me))
	must(y.t, err)
	if r := ownerref.Recognize(armed); r.Kind != ownerref.Shield || !r.Armed || r.UID != up.UID {
		y.t.Fatalf("armed %+v, it is %+v", up, r)
	}
	return armed
}

// TestTheShieldGoesWithTheLastCandidatesPod: the collector deletes it then, and
// not earlier; a sealed one it leaves.
func TestTheShieldGoesWithTheLastCandidatesPod(t *testing.T) {
	y := newYard(t)
	pods := y.pods(2)
	self, legacy := pods[0], pods[1]

	first, err := y.present(self)
	must(t, err)
	names, err := y.count(self)
	if must(t, err); !slices.Equal(names, []string{legacy.Name}) {
		t.Fatalf("%v are left, want %s", names, legacy.Name)
	}
	second, err := y.present(legacy)
	must(t, err)
	if names, err = y.count(self); err != nil || len(names) > 0 {
		t.Fatalf("%v, %v are left, and all are candidates", names, err)
	}

	m, seal := y.place("lock"), y.place("sealed")
	r := y.armed(m, first)
	_, err = m.Update(y.t.Context(), shield(r, 1, record.PhaseDual, first, second))
	if !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), `needs verb "delete" on configmaps`) {
		t.Fatalf("with the admission plugin and without the verb: %v", err)
	}
	y.grantDelete()
	r, err = m.Update(y.t.Context(), shield(r, 1, record.PhaseDual, first, second))
	must(t, err)
	_, err = seal.Update(y.t.Context(), shield(y.armed(seal, first), 2, record.PhaseSealed))
	must(t, err)

	// One goes, and its successor is not a candidate.
	must(t, y.client.CoreV1().Pods(y.namespace).Delete(y.t.Context(), self.Name, metav1.DeleteOptions{}))
	until(y.t, "the presence to be collected", func() bool {
		_, err := y.client.CoordinationV1().Leases(y.namespace).Get(y.t.Context(), first.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	y.pods(2)
	if names, err = y.count(legacy, self); err != nil || len(names) != 1 || names[0] == self.Name {
		t.Fatalf("%v, %v are left, want the successor", names, err)
	}
	if now, err := m.Read(y.t.Context()); err != nil || now.UID != r.UID || !now.Armed || !now.Has(second) {
		t.Fatalf("the shield of the other candidate is %+v, %v", now, err)
	}

	// All go.
	gone, watched := make(chan time.Time, 1), make(chan error, 1)
	go func() {
		see := func(_ context.Context, r ownerref.Record, bookmark bool) error {
			if !bookmark && r.Kind == ownerref.Absent {
				gone <- time.Now()
				return errSeen
			}
			return nil
		}
		watched <- m.ConfigMap.Watch(y.t.Context(), record.Number(r.ResourceVersion), func() {}, see)
	}()
	background, deleted := metav1.DeletePropagationBackground, time.Now()
	must(t, y.client.AppsV1().Deployments(y.namespace).Delete(y.t.Context(), "op", metav1.DeleteOptions{PropagationPolicy: &background}))
	y.pods(0)
	if err := <-watched; !errors.Is(err, errSeen) {
		t.Fatal(err)
	}
	t.Logf("the shield went %v after the Deployment was deleted", (<-gone).Sub(deleted).Round(time.Millisecond))
	if now, err := seal.Read(y.t.Context()); err != nil || now.Kind != ownerref.Sealed || !now.Armed {
		t.Errorf("the sealed one is %+v, %v", now, err)
	}
}

var errSeen = errors.New("seen")

// TestWhatWasNotJudgedIsNotDeletedOnARealAPIServer: a deletion of an old version, or of an earlier object, is refused.
// Nor does a shield go up over a legacy lock.
func TestWhatWasNotJudgedIsNotDeletedOnARealAPIServer(t *testing.T) {
	y := newYard(t)
	y.grantDelete()
	pod := y.pods(2)[0]
	me, err := y.present(pod)
	must(t, err)
	m := y.place("lock")
	legacy := func() *corev1.ConfigMap {
		cm := &corev1.ConfigMap{}
		cm.Name, cm.OwnerReferences = "lock", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
		_, err := y.client.CoreV1().ConfigMaps(y.namespace).Create(t.Context(), cm, metav1.CreateOptions{})
		must(t, err)
		r, err := m.Read(t.Context())
		if must(t, err); r.Kind != ownerref.Legacy || r.Owner != pod {
			t.Fatalf("there is %+v, want the lock of %v", r, pod)
		}
		return r.Object
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, locks.ErrConflict) {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
	remove := func(cm *corev1.ConfigMap) error { return m.Delete(t.Context(), cm.UID, cm.ResourceVersion) }
	base := legacy()
	_, err = m.Create(t.Context(), shield(&corev1.ConfigMap{}, 1, record.PhaseDual, me))
	refused("a shield over a legacy lock", err)
	must(t, remove(base))
	refused("removing what is gone", remove(base))
	again := legacy()
	refused("removing another of the name", remove(base))
	must(t, remove(again))

	older := y.armed(m, me)
	newer, err := m.Update(t.Context(), shield(older, 2, record.PhaseDual, me))
	must(t, err)
	refused("removing an older version", remove(older))
	must(t, remove(newer))
}
