// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// ward has the candidates for one lock. Each is unhealthy while its file
// exists.
type ward struct {
	t    *testing.T
	bed  *testbed.Testbed
	ctx  context.Context
	lock string
	dir  string
	// kubeconfig is of a user with rights for the lock alone, as a Role by resourceNames gives them: its
	// candidates have no presences, and know nobody.
	kubeconfig string
}

// narrows makes a kubeconfig for that user.
func (w *ward) narrows() {
	config, err := clientcmd.LoadFromFile(w.bed.Cluster.Kubeconfig("za"))
	must(w.t, err)
	for _, user := range config.AuthInfos {
		user.Impersonate = w.lock
	}
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	must(w.t, clientcmd.WriteToFile(*config, w.kubeconfig))
	client, err := kubernetes.NewForConfig(w.bed.Cluster.RESTConfig("za"))
	must(w.t, err)
	lease := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}}
	create, rest := lease, lease
	create.Verbs, rest.Verbs, rest.ResourceNames = []string{"create"}, []string{"get", "update", "watch"}, []string{w.lock}
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: w.lock}
	_, err = client.RbacV1().Roles(meta.Namespace).Create(w.ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{create, rest}}, metav1.CreateOptions{})
	must(w.t, err)
	_, err = client.RbacV1().RoleBindings(meta.Namespace).Create(w.ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: w.lock},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: w.lock}},
	}, metav1.CreateOptions{})
	must(w.t, err)
}

func (w *ward) admit(name string, args ...string) *trial.Seat {
	w.t.Helper()
	args = append(args, "--unhealthy-file", w.file(name), "--lease-duration", "6s", "--renew-deadline", "4s", "--renew-interval", "1s")
	if w.kubeconfig != "" {
		args = append(args, "--kubeconfig", w.kubeconfig)
	}
	s := start(w.t, w.bed, "za", w.lock, w.lock+"-"+name, args...)
	w.t.Cleanup(func() { _ = s.Kill() })
	return s
}

func (w *ward) file(name string) string { return filepath.Join(w.dir, name) }

func (w *ward) sicken(name string) { must(w.t, os.WriteFile(w.file(name), nil, 0o600)) }
func (w *ward) cure(name string)   { must(w.t, os.Remove(w.file(name))) }

func (w *ward) await(s *trial.Seat, event string, since time.Time) events.Event {
	w.t.Helper()
	e, err := s.Await(w.ctx, event, since)
	must(w.t, err)
	return e
}

func TestAnUnhealthyLeaderMakesRoomForAnother(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true})
	atOnce(t, map[string]func(*ward){
		"for a well one, and stays back": staysBack,
		"if nobody is well for a while":  nobodyWell,
		"if another is known to be well": nobodyElseWell,
	}, func(t *testing.T, run func(*ward)) {
		run(&ward{t: t, bed: b, ctx: patience(t, 2*time.Minute), lock: nameOf(t), dir: t.TempDir()})
	})
}

const (
	shortLease = 6 * time.Second
	slack      = 5 * time.Second // how long a busy machine may take for a check and a write
)

func staysBack(w *ward) {
	w.narrows()
	a := w.admit("a")
	w.await(a, "leading", time.Time{})
	b := w.admit("b")
	w.await(b, "following", time.Time{})
	sick := time.Now()
	w.sicken("a")
	stopping := w.await(a, "stopping", sick)
	if !strings.Contains(stopping.Cause, election.ErrUnhealthy.Error()) {
		w.t.Errorf("a stopped for %s", stopping.Cause)
	}
	if took := stopping.Time.Sub(sick); took < shortLease || took > shortLease+slack {
		w.t.Errorf("a stopped %v after it was unhealthy", took)
	}
	led := w.await(b, "leading", sick)
	if took := led.Time.Sub(stopping.Time); took > slack || led.Cause != string(status.CauseReleased) {
		w.t.Errorf("b led %v after a had stopped, for %s", took, led.Cause)
	}
	w.cure("a")
	w.await(a, "healthy", sick)
	must(w.t, b.Terminate())
	again := w.await(a, "leading", sick)
	if took := again.Time.Sub(stopping.Time); took < 2*shortLease || took > 2*shortLease+slack {
		w.t.Errorf("a led again %v after it had given up", took)
	}
}

func nobodyWell(w *ward) {
	w.narrows()
	a := w.admit("a")
	w.await(a, "leading", time.Time{})
	b := w.admit("b")
	w.await(b, "following", time.Time{})
	sick := time.Now()
	w.sicken("b")
	w.await(b, "unhealthy", sick)
	w.sicken("a")
	released := w.await(a, "released", sick)
	led := w.await(b, "leading", sick)
	if took := led.Time.Sub(released.Time); took < shortLease-time.Second || took > shortLease+slack {
		w.t.Errorf("b, which is unhealthy too, led %v after a had given up", took)
	}
	time.Sleep(3 * shortLease)
	for _, e := range b.Events() {
		if e.Event == "stopping" {
			w.t.Errorf("b stopped: %s", e.Cause)
		}
	}
}

func nobodyElseWell(w *ward) {
	a := w.admit("a")
	w.await(a, "leading", time.Time{})
	pod, err := w.bed.Cluster.AddPod(w.ctx, "za", w.lock+"-b", "default", nil)
	must(w.t, err)
	b := w.admit("b", "--pod-name", pod.Name, "--pod-uid", string(pod.UID))
	w.await(b, "following", time.Time{})
	sick := time.Now()
	w.sicken("b")
	w.await(b, "unhealthy", sick)
	time.Sleep(3 * time.Second) // until its presence says so
	w.sicken("a")
	for since := sick; ; {
		said := w.await(a, "unhealthy", since)
		if strings.Contains(said.Error, "leads on") {
			break
		}
		since = said.Time.Add(1)
	}
	time.Sleep(3 * shortLease)
	for _, e := range a.Events() {
		if e.Event == "stopping" {
			w.t.Fatalf("a stopped while nobody else was well: %s", e.Cause)
		}
	}
	well := time.Now()
	w.cure("b")
	w.await(a, "stopping", well)
	led := w.await(b, "leading", well)
	if took := led.Time.Sub(well); took > slack {
		w.t.Errorf("b led %v after it was well again", took)
	}
}
