// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Hooks are webhooks that allow each write of a Lease, late. Each namespace has its own. The methods
// are safe for concurrent use.
type Hooks struct {
	*httptest.Server
	mu     sync.Mutex
	delays map[string]Delay // by path
	asked  map[string]bool  // the same
}

// StartHooks starts the backend of all webhooks. Close it at the end.
func StartHooks() *Hooks {
	h := &Hooks{delays: map[string]Delay{}, asked: map[string]bool{}}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	return h
}

// ServeHTTP allows what an API server asks about, late.
func (h *Hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.asked[r.URL.Path] = true
	delay := h.delays[r.URL.Path]
	h.mu.Unlock()
	if !delay.Wait(r.Context()) {
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// Begin has the webhooks of a namespace be as late as this from now on: the one that may change a
// write, and the one that judges it last.
func (h *Hooks) Begin(namespace string, mutates, validates Delay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delays["/mutate/"+namespace], h.delays["/validate/"+namespace] = mutates, validates
}

// Add makes the webhooks of a namespace, which may be up to most late, and waits until they are
// called. They are not late before Begin.
func (h *Hooks) Add(ctx context.Context, client kubernetes.Interface, namespace string, mutates, validates bool, most time.Duration) error {
	to := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{
			URL:      new(h.URL + path + namespace),
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}),
		}
	}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}},
	}}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	ignore, none := new(admissionregistrationv1.Ignore), new(admissionregistrationv1.SideEffectClassNone)
	limit := new(int32(math.Ceil(most.Seconds())) + 2)
	name := "late." + namespace + ".example.com"
	if mutates {
		_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: name, ClientConfig: to("/mutate/"), Rules: rules, NamespaceSelector: here,
				FailurePolicy: ignore, SideEffects: none, TimeoutSeconds: limit, AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making a webhook: %w", err)
		}
	}
	if !validates {
		return nil
	}
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name, ClientConfig: to("/validate/"), Rules: rules, NamespaceSelector: here,
			FailurePolicy: ignore, SideEffects: none, TimeoutSeconds: limit, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a webhook: %w", err)
	}
	return h.await(ctx, client, namespace)
}

// await waits until the API server calls the webhook that it learned of last.
func (h *Hooks) await(ctx context.Context, client kubernetes.Interface, namespace string) error {
	for range 100 {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		if _, err := client.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return fmt.Errorf("trying the webhook of %s: %w", namespace, err)
		}
		h.mu.Lock()
		called := h.asked["/validate/"+namespace]
		h.mu.Unlock()
		if called {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the API server does not call the webhook of %s", namespace)
}
