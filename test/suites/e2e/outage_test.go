// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestALastingManagerOutlivesAnOutageOfTheAPI: all API servers stand still for longer than a lease, and are then
// started anew. No process ends, every request to a webhook is answered, and what was made after that is reconciled.
func TestALastingManagerOutlivesAnOutageOfTheAPI(t *testing.T) {
	g := newGround(t, losesTheAPI, "outage")
	const lock = "lasting"
	var managers, runs []*trial.Seat
	var hooks []string
	for _, zone := range threeZones {
		ip, err := g.Network.Address(zone)
		must(t, err)
		hooks = append(hooks, net.JoinHostPort(ip, freePort(t)))
		managers = append(managers, g.seat(t, trial.Manager, zone, lock, "lasting-"+zone, "--lasting", "--webhook", hooks[len(hooks)-1]))
		runs = append(runs, g.inPod(t, zone, "run", "run-"+zone))
	}
	for _, s := range append(managers, runs...) {
		await(t, s, "started", time.Time{})
	}
	awaitAny(t, managers, "leading", time.Time{})
	before, _ := awaitAny(t, runs, "leading", time.Time{})
	g.reconciled(t, lock)
	token := func(lock string) (token uint64) {
		until(t, "the token of "+lock+" can be read", func() bool {
			var err error
			token, err = strconv.ParseUint(leaseOf(t, g.client, g.namespace, lock).Annotations["zonelect.dev/token"], 10, 64)
			return err == nil
		})
		return token
	}
	was, ran := token(lock), token("run")

	answered := ask(t, hooks)
	began := time.Now()
	must(t, g.Parts.Pause(testbed.APIServer))
	time.Sleep(timing.DefaultLeaseDuration + 5*time.Second)
	var all sync.WaitGroup
	for _, zone := range threeZones {
		all.Go(func() {
			if err := g.Parts.RestartAPIServer(t.Context(), zone); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	over := time.Now()
	await(t, before, "stopping", began)
	_, e := awaitAny(t, runs, "leading", began)
	g.reconciled(t, lock)
	if now := token(lock); e.Token <= ran || now < was {
		t.Errorf("after the outage the tokens are %d and %d, and were %d and %d", e.Token, now, ran, was)
	}
	must(t, durations.Record(t.Name(), "a lasting manager works again after an outage", time.Since(over)))
	if wrong, n := answered(); n < 10 || len(wrong) > 0 {
		t.Errorf("of %d requests to webhooks these were not answered: %v", n, wrong)
	}
	judgeOverlaps(t, termsOf(managers, nil))
	judgeOverlaps(t, termsOf(runs, nil))
	for _, s := range append(managers, runs...) {
		select {
		case <-s.Done():
			t.Errorf("%s ended", s.Identity)
		default:
		}
	}
}

// ask sends requests to webhooks, ten times a second in turn. The returned function ends that, and returns how many
// were sent, and what went wrong.
func ask(t *testing.T, addresses []string) func() (wrong []error, sent int) {
	const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"}}`
	client := &http.Client{Timeout: soon, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ctx, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var wrong []error
	sent := 0
	asking.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			address := addresses[sent%len(addresses)]
			sent++
			response, err := client.Post("https://"+address+"/validate", "application/json", strings.NewReader(review))
			if err == nil {
				_ = response.Body.Close()
			}
			if err == nil && response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
			if err != nil {
				wrong = append(wrong, err)
			}
		}
	})
	return func() ([]error, int) {
		end()
		asking.Wait()
		return wrong, sent
	}
}

// reconciled makes something that a manager must reconcile, and waits for that.
func (g *ground) reconciled(t *testing.T, lock string) {
	t.Helper()
	maps, made := g.client.CoreV1().ConfigMaps(g.namespace), ""
	until(t, "something is made", func() bool {
		meta := metav1.ObjectMeta{GenerateName: "thing-", Labels: map[string]string{"lock": lock}}
		cm, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
		if err == nil {
			made = cm.Name
		}
		return err == nil
	})
	until(t, made+" is reconciled", func() bool {
		cm, err := maps.Get(t.Context(), made, metav1.GetOptions{})
		return err == nil && cm.Annotations["test.zonelect.dev/reconciled-by"] != ""
	})
}
