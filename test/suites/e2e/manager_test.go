// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// managers are the replicas of one controller-runtime operator.
type managers struct {
	*testbed.Testbed
	ctx   context.Context
	lock  string
	args  []string
	seats []*trial.Seat
	count int
}

func (m *managers) start(t *testing.T, zone string, args ...string) *trial.Seat {
	t.Helper()
	m.count++
	s, err := trial.Start(m.ctx, m.Testbed, trial.Manager, zone, m.lock, fmt.Sprintf("%s-%d", m.lock, m.count), slices.Concat(m.args, args)...)
	must(t, err)
	m.seats = append(m.seats, s)
	_, err = s.Await(m.ctx, "started", time.Time{})
	must(t, err)
	return s
}

func TestAManagerThatLosesItsLeadershipDoesNotWaitForItsWork(t *testing.T) {
	timing := election.Timing{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second}
	m := &managers{Testbed: trial.Bed(t, plain), ctx: patience(t, 2*time.Minute), lock: "lost",
		args: []string{"--lease-duration", timing.LeaseDuration.String(), "--renew-deadline", timing.RenewDeadline.String(), "--renew-interval", timing.RenewInterval.String(), "--stop-delay", "20s"}}
	old := m.start(t, "za")
	_, err := old.Await(m.ctx, "leading", time.Time{})
	must(t, err)
	next := m.start(t, "za")
	must(t, old.Pause())
	paused := time.Now()
	_, err = next.Await(m.ctx, "leading", paused)
	must(t, err)
	time.Sleep(time.Until(paused.Add(2 * timing.LeaseDuration)))
	resumed := time.Now()
	must(t, old.Resume())
	if err := old.Wait(m.ctx); err == nil {
		t.Error("it ended as if nothing had happened")
	}
	told, err := old.Await(m.ctx, "error", resumed)
	must(t, err)
	must(t, durations.Record(t.Name(), "a manager ends after its process runs again", told.Time.Sub(resumed)))
	if slices.ContainsFunc(old.Events(), func(e events.Event) bool { return e.Event == "stopped" }) {
		t.Error("it waited for its work, which takes 20s to stop")
	}
	if !strings.Contains(told.Error, "leadership lost") || !strings.Contains(told.Error, "leader election lost") {
		t.Errorf("it said %q", told.Error)
	}
}

func TestOfAManagersReplicasAllServeWebhooksAndOneReconciles(t *testing.T) {
	b := trial.Bed(t, plain)
	m := &managers{Testbed: b, ctx: patience(t, time.Minute), lock: "reconciled"}
	leader := m.start(t, "za")
	_, err := leader.Await(m.ctx, "leading", time.Time{})
	must(t, err)
	address, certs, ca := trial.Webhook(t)
	follower := m.start(t, "za", "--webhook", address, "--certs", certs)

	heard := &warnings{}
	cfg := rest.CopyConfig(b.Cluster.RESTConfig("za"))
	cfg.WarningHandler = heard
	client, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(m.ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "manager.test.zonelect.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			ClientConfig:   admissionv1.WebhookClientConfig{URL: new("https://" + address + "/validate"), CABundle: ca},
			FailurePolicy:  new(admissionv1.Ignore),
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"lock": m.lock}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	maps := client.CoreV1().ConfigMaps("default")
	made := func() (string, error) {
		cm, err := maps.Create(m.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "thing-", Labels: map[string]string{"lock": m.lock}}}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return cm.Name, nil
	}
	name, err := made()
	for err == nil && !heard.has("seen by "+follower.Identity) && m.ctx.Err() == nil { // the API server learns of webhooks after a while
		time.Sleep(50 * time.Millisecond)
		name, err = made()
	}
	must(t, err)
	by := ""
	for by == "" && m.ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		cm, err := maps.Get(m.ctx, name, metav1.GetOptions{})
		must(t, err)
		by = cm.Annotations["test.zonelect.dev/reconciled-by"]
	}
	if by != leader.Identity {
		t.Errorf("it was reconciled by %q, want the leader, %s", by, leader.Identity)
	}
}
