// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/trial"
)

var recordAnswers = flag.Bool("record-answers", false, "write what the API server answers to internal/apierror/testdata/answers.json")

// seenAnswer is an answer of a real API server, as internal/apierror/answers_test.go reads it.
type seenAnswer struct {
	What   string        `json:"what"`
	Verb   string        `json:"verb"`
	Kind   string        `json:"kind"` // refused, unanswered, conflict, missing or other
	Status metav1.Status `json:"status"`
}

// refusals provokes answers in a namespace of its own.
type refusals struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
	mu        *sync.Mutex
	seen      *[]seenAnswer
}

const (
	refused  = "refused"
	conflict = "conflict"
	missing  = "missing"
	other    = "other"
	// unanswered is a webhook that must be asked and does not answer.
	unanswered = "unanswered"
)

// try makes a request and checks what the answer is taken for.
func (r *refusals) try(what, verb, kind string, err error) {
	r.Helper()
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		r.Fatalf("%s, %s: %v is not an answer of a server", what, verb, err)
	}
	r.mu.Lock()
	*r.seen = append(*r.seen, seenAnswer{what, verb, kind, answer.Status()})
	r.mu.Unlock()
	got := apierror.Object{Resource: apierror.Leases, Namespace: r.namespace, Name: "lock"}.Explain(verb, err)
	_, lacks := apierror.MissingIn(got)
	says, forbidden := strings.Contains(got.Error(), "refused by an admission rule"), errors.Is(got, locks.ErrForbidden)
	is := map[string]bool{
		refused: says && forbidden && !lacks, unanswered: says && !forbidden,
		conflict: errors.Is(got, locks.ErrConflict), missing: forbidden && lacks && !says,
	}
	for each, is := range is {
		if is != (each == kind) {
			r.Errorf("%s, %s: %d %q is %s: %v, want %s:\n%v", what, verb, answer.Status().Code, answer.Status().Message, each, is, kind, got)
		}
	}
}

func (r *refusals) create(name string) error {
	_, err := r.client.CoordinationV1().Leases(r.namespace).Create(r.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (r *refusals) update(change func(*coordinationv1.Lease)) error {
	leases := r.client.CoordinationV1().Leases(r.namespace)
	lease, err := leases.Get(r.Context(), "lock", metav1.GetOptions{})
	must(r.T, err)
	change(lease)
	_, err = leases.Update(r.Context(), lease, metav1.UpdateOptions{})
	return err
}

// all tries each kind of write, once an admission rule refuses them. A rule counts only a moment
// after it was made.
func (r *refusals) all(what, kind string) {
	r.Helper()
	name := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") }
	for deadline := time.Now().Add(soon); r.create("probe") == nil; time.Sleep(50 * time.Millisecond) {
		must(r.T, r.client.CoordinationV1().Leases(r.namespace).Delete(r.Context(), "probe", metav1.DeleteOptions{}))
		if time.Now().After(deadline) {
			r.Fatalf("%s: it refuses nothing", what)
		}
	}
	r.try(what, apierror.Create, kind, r.create("probe"))
	r.try(what, apierror.Update, kind, r.update(name))
}

func (r *refusals) inNamespace() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.namespace}}
}

var writes = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}

var theLeases = admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}}

// policy makes a policy with that expression.
func (r *refusals) policy(expression string, reason *metav1.StatusReason) {
	policies := r.client.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(r.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: r.inNamespace(),
				ResourceRules:     []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{Operations: writes, Rule: theLeases}}},
			},
			Validations: []admissionv1.Validation{{Expression: expression, Message: "you cannot create a Lease without a team", Reason: reason}},
		},
	}, metav1.CreateOptions{})
	must(r.T, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(r.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: r.namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}, metav1.CreateOptions{})
	must(r.T, err)
	r.Cleanup(func() {
		ctx := context.WithoutCancel(r.Context())
		_ = policies.ValidatingAdmissionPolicyBindings().Delete(ctx, r.namespace, metav1.DeleteOptions{})
		_ = policies.ValidatingAdmissionPolicies().Delete(ctx, r.namespace, metav1.DeleteOptions{})
	})
}

// webhook makes a webhook that answers with that status; zero means that nobody answers.
func (r *refusals) webhook(code int32, reason metav1.StatusReason) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := admissionapi.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			r.Error(err)
		}
		review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: code, Reason: reason, Message: "you cannot create a Lease without a team"}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	r.Cleanup(server.Close)
	if code == 0 {
		server.Close()
	}
	webhooks := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(r.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "team.example.com", FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: r.inNamespace(),
			Rules:             []admissionv1.RuleWithOperations{{Operations: writes, Rule: theLeases}},
		}},
	}, metav1.CreateOptions{})
	must(r.T, err)
	r.Cleanup(func() {
		_ = webhooks.Delete(context.WithoutCancel(r.Context()), r.namespace, metav1.DeleteOptions{})
	})
}

// TestARefusalIsNoOtherWriter: what a real API server answers when an admission rule refuses a
// write, and when somebody else has written.
func TestARefusalIsNoOtherWriter(t *testing.T) {
	b := trial.Bed(t, plain)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	var mu sync.Mutex
	var seen []seenAnswer
	rows := map[string]func(*refusals){
		"policy":                   func(r *refusals) { r.policy("has(object.metadata.labels) && 'team' in object.metadata.labels", nil) },
		"policy-that-fails":        func(r *refusals) { r.policy("object.metadata.labels['team'] == 'x'", nil) },
		"policy-forbidden":         func(r *refusals) { r.policy("false", new(metav1.StatusReasonForbidden)) },
		"policy-too-large":         func(r *refusals) { r.policy("false", new(metav1.StatusReasonRequestEntityTooLarge)) },
		"webhook-without-a-reason": func(r *refusals) { r.webhook(1, "") },
		"webhook-400":              func(r *refusals) { r.webhook(400, metav1.StatusReasonBadRequest) },
		"webhook-401":              func(r *refusals) { r.webhook(401, metav1.StatusReasonUnauthorized) },
		"webhook-403":              func(r *refusals) { r.webhook(403, metav1.StatusReasonForbidden) },
		"webhook-404":              func(r *refusals) { r.webhook(404, metav1.StatusReasonNotFound) },
		"webhook-409":              func(r *refusals) { r.webhook(409, metav1.StatusReasonConflict) },
		"webhook-422":              func(r *refusals) { r.webhook(422, metav1.StatusReasonInvalid) },
		"webhook-429":              func(r *refusals) { r.webhook(429, metav1.StatusReasonTooManyRequests) },
		"webhook-500":              func(r *refusals) { r.webhook(500, metav1.StatusReasonInternalError) },
	}
	atOnce(t, rows, func(t *testing.T, make func(*refusals)) {
		r := newRefusals(t, client, &mu, &seen)
		make(r)
		r.all(nameOf(t), refused)
	})
	atOnce(t, map[string]func(*refusals){
		"webhook-that-is-down": func(r *refusals) {
			r.webhook(0, "")
			r.all("webhook-that-is-down", unanswered)
		},
		"quota": func(r *refusals) {
			quotas := r.client.CoreV1().ResourceQuotas(r.namespace)
			few := corev1.ResourceList{"count/leases.coordination.k8s.io": resource.MustParse("1")}
			quota, err := quotas.Create(r.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: few}}, metav1.CreateOptions{})
			must(r.T, err)
			counted := func(s corev1.ResourceQuotaStatus, says string) { // as the quotas' controller would count
				quota.Status = s
				quota, err = quotas.UpdateStatus(r.Context(), quota, metav1.UpdateOptions{})
				must(r.T, err)
				for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
					if err := r.create("probe"); err == nil {
						must(r.T, r.client.CoordinationV1().Leases(r.namespace).Delete(r.Context(), "probe", metav1.DeleteOptions{}))
					} else if strings.Contains(err.Error(), says) {
						return
					}
				}
			}
			counted(corev1.ResourceQuotaStatus{Hard: few}, "status unknown")
			r.try("quota that is not counted yet", apierror.Create, refused, r.create("probe"))
			counted(corev1.ResourceQuotaStatus{Hard: few, Used: few}, "exceeded quota")
			r.try("quota", apierror.Create, refused, r.create("probe"))
		},
		"other-writers": func(r *refusals) {
			r.try("it exists", apierror.Create, conflict, r.create("lock"))
			r.try("another version", apierror.Update, conflict, r.update(func(l *coordinationv1.Lease) { l.ResourceVersion = "1" }))
			r.try("another UID", apierror.Update, conflict, r.update(func(l *coordinationv1.Lease) { l.UID = "another" }))
			for what, condition := range map[string]metav1.Preconditions{"another version": {ResourceVersion: new("1")}, "another UID": {UID: new(types.UID("another"))}} {
				r.try(what, apierror.Delete, conflict, r.client.CoordinationV1().Leases(r.namespace).Delete(r.Context(), "lock", metav1.DeleteOptions{Preconditions: &condition}))
			}
		},
		"no-sense": func(r *refusals) {
			r.try("a lease of no length", apierror.Update, other, r.update(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32) }))
		},
		"no-permission": func(r *refusals) {
			config := rest.CopyConfig(b.Cluster.RESTConfig("za"))
			config.Impersonate.UserName = "nobody"
			client, err := kubernetes.NewForConfig(config)
			must(r.T, err)
			nobody := *r
			nobody.client = client
			r.try("no permission", apierror.Create, missing, nobody.create("probe"))
		},
	}, func(t *testing.T, run func(*refusals)) { run(newRefusals(t, client, &mu, &seen)) })
	if *recordAnswers {
		writeAnswers(t, seen)
	}
}

func newRefusals(t *testing.T, client kubernetes.Interface, mu *sync.Mutex, seen *[]seenAnswer) *refusals {
	r := &refusals{T: t, client: client, namespace: nameOf(t), mu: mu, seen: seen}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{})
	must(t, err)
	must(t, r.create("lock"))
	return r
}

func writeAnswers(t *testing.T, seen []seenAnswer) {
	slices.SortFunc(seen, func(a, b seenAnswer) int { return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Verb, b.Verb)) })
	text, err := json.MarshalIndent(seen, "", "  ")
	must(t, err)
	must(t, os.WriteFile("../../../internal/apierror/testdata/answers.json", append(text, '\n'), 0o600))
}
