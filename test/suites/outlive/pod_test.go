// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

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

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pod is a replica whose container is restarted as the kubelet does it: at once, and then after 10 s,
// 20 s, 40 s and so on, up to 300 s.
type pod struct {
	bed     *testbed.Testbed
	kind    trial.Kind
	lock    string
	name    string
	args    []string
	address string         // of its webhook; empty for none
	trusts  *x509.CertPool // who asks that

	mu    sync.Mutex
	runs  []*trial.Seat // of its container, the last one now
	ended []time.Time   // of runs
	asked []answer
}

// answer is what became of a request to the webhook.
type answer struct {
	at time.Time
	ok bool
}

// start starts the pod, which runs until the test ends.
func (p *pod) start(t *testing.T) {
	t.Helper()
	must(t, p.run(t.Context()))
	ctx, end := context.WithCancel(t.Context())
	var kubelet sync.WaitGroup
	t.Cleanup(func() { end(); kubelet.Wait() })
	kubelet.Go(func() { p.restart(ctx, t) })
}

// run runs the container once more.
func (p *pod) run(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	identity := fmt.Sprint(p.name, "-", len(p.runs))
	s, err := trial.Start(ctx, p.bed, p.kind, "za", p.lock, identity, p.args...)
	if err == nil {
		p.runs = append(p.runs, s)
	}
	return err
}

// restart runs the container again whenever it has ended.
func (p *pod) restart(ctx context.Context, t *testing.T) {
	backoff := time.Duration(0)
	for {
		p.mu.Lock()
		s := p.runs[len(p.runs)-1]
		p.mu.Unlock()
		select {
		case <-s.Done():
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		p.ended = append(p.ended, time.Now())
		p.mu.Unlock()
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
		if err := p.run(ctx); err != nil {
			t.Error(err)
			return
		}
		backoff = min(max(10*time.Second, 2*backoff), 5*time.Minute)
	}
}

// events returns what the pod has printed since then, with the end of each run as the event "ended".
func (p *pod) events(since time.Time) (all []events.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.runs {
		all = append(all, s.Events()...)
		if i < len(p.ended) {
			all = append(all, events.Event{Event: "ended", Identity: s.Identity, Time: p.ended[i]})
		}
	}
	return slices.DeleteFunc(all, func(e events.Event) bool { return e.Time.Before(since) })
}

// serve gives the pod's webhook an address and a certificate.
func (p *pod) serve(t *testing.T) {
	t.Helper()
	address, certs, ca := trial.Webhook(t)
	p.address, p.trusts = address, x509.NewCertPool()
	p.trusts.AppendCertsFromPEM(ca)
	p.args = append(p.args, "--webhook", address, "--certs", certs)
}

// ask asks the pod's webhook ten times a second until the test ends.
func (p *pod) ask(t *testing.T) {
	const patience = 10 * time.Second // an API server's, unless a webhook's configuration says otherwise
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.trusts}}}
	ctx, end := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	t.Cleanup(func() { end(); asking.Wait() })
	asking.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			at := time.Now()
			response, err := client.Post("https://"+p.address+"/validate", "application/json",
				strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"}}`))
			if err == nil {
				_ = response.Body.Close()
			}
			p.mu.Lock()
			p.asked = append(p.asked, answer{at, err == nil && response.StatusCode == http.StatusOK})
			p.mu.Unlock()
		}
	})
}

// answered is how many requests to the webhook there were from then on, and how many were answered.
func (p *pod) answered(since time.Time) (all, ok int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.asked {
		if a.at.Before(since) {
			continue
		}
		if all++; a.ok {
			ok++
		}
	}
	return all, ok
}
