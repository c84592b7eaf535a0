// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

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
	"github.com/zonelect/zonelect/election/timing"
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

// handOver stops the leader, and returns how long nobody worked.
func (m *managers) handOver(t *testing.T) time.Duration {
	t.Helper()
	leader, _, err := trial.AwaitAny(m.ctx, m.seats, "leading", time.Time{})
	must(t, err)
	m.start(t, "za")
	time.Sleep(time.Second) // so that all know the leader
	told := time.Now()
	must(t, leader.Terminate())
	stopped, err := leader.Await(m.ctx, "stopped", told)
	must(t, err)
	m.seats = others(m.seats, leader)
	_, led, err := trial.AwaitAny(m.ctx, m.seats, "leading", told)
	must(t, err)
	must(t, leader.Wait(m.ctx))
	return led.Time.Sub(stopped.Time)
}

// managerRounds is how many handovers of each kind are measured.
// ZONELECT_MANAGER_ROUNDS sets another number.
const managerRounds = 5

func TestAManagerHandsItsWorkOverSooner(t *testing.T) {
	rounds := fromEnv(t, "ZONELECT_MANAGER_ROUNDS", managerRounds)
	b := trial.Bed(t, plain)
	ctx := patience(t, time.Minute+time.Duration(rounds)*20*time.Second)
	gaps := map[string][]time.Duration{}
	for _, kind := range []string{"zonelect", "controller-runtime"} {
		m := &managers{Testbed: b, ctx: ctx, lock: kind}
		if kind != "zonelect" {
			m.args = []string{"--plain"}
		}
		m.start(t, "za")
		for range rounds {
			gaps[kind] = append(gaps[kind], m.handOver(t))
		}
		for _, s := range m.seats {
			must(t, s.Kill())
		}
		slices.Sort(gaps[kind])
		t.Logf("%s: from work stopped to work started, %d rounds: p50 %v, max %v", kind, rounds, gaps[kind][rounds/2], gaps[kind][rounds-1])
	}
	// Processes outside of pods know no others, and spread their attempts.
	most := 150*time.Millisecond + timing.DefaultRenewInterval*31/100
	if p50 := gaps["zonelect"][rounds/2]; p50 > most {
		t.Errorf("p50 is %v, want %v at most", p50, most)
	}
}

func TestAManagerThatLosesItsLeadershipStopsWithinItsStopGrace(t *testing.T) {
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
	took, most := told.Time.Sub(resumed), timing.WithDefaults().StopGrace
	t.Logf("the manager ended %v after its process ran again", took)
	if took > most {
		t.Errorf("it ended %v after its process ran again, want %v at most, though its work would take 20s to stop", took, most)
	}
	if !strings.Contains(told.Error, "leadership lost") || !strings.Contains(told.Error, "leader election lost") {
		t.Errorf("it said %q", told.Error)
	}
}

func TestWhenTheZoneOfAManagersLeaderLosesPowerTheNextLeadsAsTheLeaseEnds(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: network(), WithoutControllers: true})
	m := &managers{Testbed: b, ctx: patience(t, 3*time.Minute), lock: "power"}
	must(t, b.Network.SteerVIP("za", "za"))
	leader := m.start(t, "za")
	_, err := leader.Await(m.ctx, "leading", time.Time{})
	must(t, err)
	must(t, b.Network.SteerVIP("zb", "za"))
	follower := m.start(t, "zb")
	time.Sleep(time.Second)
	must(t, b.Network.SteerVIP("zb"))
	observer, err := trial.Observe(m.ctx, b.Cluster.RESTConfig("zc"), m.lock)
	must(t, err)
	s := &stage{Testbed: b, ctx: m.ctx, leader: leader, observer: observer}
	cut := s.lose(t, "za")
	last := observer.Last()
	led, err := follower.Await(m.ctx, "leading", cut)
	must(t, err)
	lag := led.Time.Sub(last.Seen.Add(lease))
	t.Logf("the follower's work began %v after the lease had ended", lag)
	if lag > busy || led.Time.Before(last.Sent.Add(lease)) {
		t.Errorf("the follower's work began %v after the lease had ended, want %v at most", lag, busy)
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
