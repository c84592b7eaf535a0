// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// asked is what became of the requests to a webhook.
type asked struct {
	mu          sync.Mutex
	sent, wrong int
}

// ask asks a webhook ten times a second until the test ends.
func ask(t *testing.T, address string, ca []byte) *asked {
	trusts := x509.NewCertPool()
	trusts.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: soon, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusts}}}
	ctx, end := context.WithCancel(t.Context())
	a, over := &asked{}, make(chan struct{})
	t.Cleanup(func() { end(); <-over })
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			response, err := client.Post("https://"+address+"/validate", "application/json",
				strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"}}`))
			if err == nil {
				_ = response.Body.Close()
			}
			a.mu.Lock()
			if a.sent++; err != nil || response.StatusCode != http.StatusOK {
				a.wrong++
			}
			a.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return a
}

// TestAnOutageEndsNoLastingManagerAndNoTermOfAPatientOne: the API server is away for 30 s. No process ends, every
// request to a webhook is answered, and what was made meanwhile is reconciled. A manager with the timing 60/54/6
// leads on.
func TestAnOutageEndsNoLastingManagerAndNoTermOfAPatientOne(t *testing.T) {
	g := ownGround(t, plain)
	locks := map[string][]string{"lasting": {"--lasting"}, "patient": {"--lasting", "--patient"}}
	seats, serving, hooks := map[string][]*trial.Seat{}, map[string][]byte{}, []*asked{}
	for lock, args := range locks {
		for i := range 2 {
			address, certs, ca := trial.Webhook(t)
			s, err := trial.Start(t.Context(), g.Testbed, trial.Manager, "za", lock, fmt.Sprint(lock, "-", i), append(args, "--webhook", address, "--certs", certs)...)
			must(t, err)
			await(t, s, "started", time.Time{})
			seats[lock] = append(seats[lock], s)
			serving[address] = ca
		}
		awaitAny(t, seats[lock], "leading", time.Time{})
	}
	for lock := range locks {
		g.reconciled(t, lock)
	}
	for address, ca := range serving {
		hooks = append(hooks, ask(t, address, ca))
	}
	must(t, g.Parts.Pause(testbed.APIServer))
	time.Sleep(2 * lease)
	must(t, g.Parts.Resume(testbed.APIServer))
	over := time.Now()
	for lock, all := range seats {
		g.reconciled(t, lock)
		must(t, durations.Record(t.Name(), lock+" works again after an outage", time.Since(over)))
		for _, s := range all {
			stopped := slices.ContainsFunc(s.Events(), func(e events.Event) bool { return e.Event == "stopping" })
			select {
			case <-s.Done():
				t.Errorf("%s ended", s.Identity)
			default:
				if lock == "patient" && stopped {
					t.Errorf("%s lost its term", s.Identity)
				}
			}
		}
		judgeOverlaps(t, termsOf(all, nil))
	}
	for i, a := range hooks {
		a.mu.Lock()
		if a.sent < 10 || a.wrong > 0 {
			t.Errorf("of %d requests to webhook %d %d were not answered", a.sent, i, a.wrong)
		}
		a.mu.Unlock()
	}
}

// TestTheWorkOfALostTermNeverRunsBesideTheNext: only the leader is cut off from the API, and its
// reconciler ignores its context. It writes every 50 ms, and prints each write.
func TestTheWorkOfALostTermNeverRunsBesideTheNext(t *testing.T) {
	g := ownGround(t, testbed.Config{WithoutControllers: true, WithoutNodes: true})
	const lock = "overlap"
	_, err := g.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lock, Labels: map[string]string{"lock": lock}}}, metav1.CreateOptions{})
	must(t, err)
	must(t, g.Network.SteerVIP("za", "zc"))
	old, err := trial.Start(t.Context(), g.Testbed, trial.Manager, "za", lock, lock+"-a", "--lasting", "--deaf")
	must(t, err)
	await(t, old, "wrote", time.Time{})
	next, err := trial.Start(t.Context(), g.Testbed, trial.Manager, "zb", lock, lock+"-b", "--lasting")
	must(t, err)
	await(t, next, "started", time.Time{})
	time.Sleep(3 * time.Second)
	cut := time.Now()
	must(t, g.Network.Partition("za", "zc"))
	led := await(t, next, "leading", cut)
	if err := old.Wait(t.Context()); err == nil {
		t.Error("the process whose work did not stop ended as if nothing had happened")
	}
	last := cut
	for _, e := range old.Events() {
		if e.Event == "wrote" {
			last = e.Time
		}
	}
	if !last.Before(led.Time) || last.Equal(cut) {
		t.Errorf("the old work wrote until %v, the next leader's work began at %v", last, led.Time)
	}
}
