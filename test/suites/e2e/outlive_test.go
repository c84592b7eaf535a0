// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// asked is what became of the requests to a webhook.
type asked struct{ sent, wrong atomic.Int64 }

// ask asks a webhook ten times a second until the test ends.
func ask(t *testing.T, address string, ca []byte) *asked {
	trusts := x509.NewCertPool()
	trusts.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: soon, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusts}}}
	a := &asked{}
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
			response, err := client.Post("https://"+address+"/validate", "application/json",
				strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"}}`))
			if err == nil {
				_ = response.Body.Close()
			}
			if a.sent.Add(1); err != nil || response.StatusCode != http.StatusOK {
				a.wrong.Add(1)
			}
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
		if sent, wrong := a.sent.Load(), a.wrong.Load(); sent < 10 || wrong > 0 {
			t.Errorf("of %d requests to webhook %d %d were not answered", sent, i, wrong)
		}
	}
}
