// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// well makes a cluster without a fault: three candidates, three API servers, and zonelect's
// FlowSchema.
func (w *world) well() {
	w.three()
	w.putLease(led())
	w.serves("default", "kubernetes", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	w.server.Put("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/operator-leases", &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "operator-leases"}})
}

// serves puts up the endpoints of a Service.
func (w *world) serves(namespace, service string, addresses ...string) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Port: ptr.To(int32(6443))}},
	}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	w.server.Put("/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices/"+service, slice)
}

// guards puts a webhook before the writes of Leases.
func (w *world) guards(changes ...func(*admissionv1.ValidatingWebhook)) {
	hook := admissionv1.ValidatingWebhook{
		Name:         "leases.policy.test",
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "webhook"}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
		}},
	}
	for _, change := range changes {
		change(&hook)
	}
	w.server.Put("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/policy", &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Webhooks: []admissionv1.ValidatingWebhook{hook},
	})
}

// waits is the timeout of a webhook that need not answer.
func waits(seconds int32) func(*admissionv1.ValidatingWebhook) {
	return func(hook *admissionv1.ValidatingWebhook) {
		hook.FailurePolicy, hook.TimeoutSeconds = ptr.To(admissionv1.Ignore), &seconds
	}
}

// mutates puts another webhook before them, which may change them and need not answer.
func (w *world) mutates(seconds int32) {
	w.server.Put("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/defaults", &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "defaults"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "leases.defaults.test", FailurePolicy: ptr.To(admissionv1.Ignore), TimeoutSeconds: &seconds,
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "webhook"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
			}},
		}},
	})
}

// limits puts up a quota of Leases that is used up.
func (w *world) limits(name corev1.ResourceName) {
	four := corev1.ResourceList{name: resource.MustParse("4")}
	w.server.Put("/api/v1/namespaces/ns/resourcequotas/objects", &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "objects"}, Status: corev1.ResourceQuotaStatus{Hard: four, Used: four},
	})
}

// answers makes the server answer certain requests otherwise.
func (w *world) answers(to string, with func(verb, path string) (int, apitest.Object)) {
	w.server.Before = func(verb, path string) (int, apitest.Object) {
		if strings.Contains(verb+" "+path, to) {
			return with(verb, path)
		}
		return 0, nil
	}
}

// TestDoctorFindsWhatIsWrong in set-ups that differ from a healthy one in one respect. The
// golden files have all that it says; this has the one line that matters, and the exit code.
func TestDoctorFindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(w *world)
		want   string // the beginning of a line, with single spaces
		code   int
	}{
		"healthy": {func(*world) {}, "ok lock op-a_1 (za) has led for 5m, with token 4711", exitOK},
		"silent": {func(w *world) {
			w.putLease(led(renewed(time.Minute)))
		}, "problem lock op-a_1 (za) holds the lock and does not renew it", exitError},
		"released": {func(w *world) {
			w.putLease(led(releasedBy(time.Hour)))
		}, "problem lock nobody leads: the lock is released and has been for 60m", exitError},
		"just-released": {func(w *world) {
			w.putLease(led(releasedBy(time.Second)))
		}, "warning lock nobody leads: the lock became released 1s ago", exitOK},
		"cleared": {func(w *world) {
			w.putLease(led(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") }))
		}, "problem lock nobody leads: somebody removed the holder's name", exitError},
		"no-lease": {func(w *world) {
			w.server.Delete(leasesPath + "op")
		}, "problem lock there is no Lease, although candidates have announced themselves", exitError},
		"all-gone": {func(w *world) {
			w.putLease(led(renewed(time.Minute)))
			for _, pod := range []string{"op-a", "op-b", "op-c"} {
				w.deletePod(pod)
			}
		}, "problem candidates the pods of all 3 candidates that announced themselves are gone", exitError},
		"one-zone": {func(w *world) {
			for _, pod := range []string{"op-b", "op-c"} {
				w.announce("op", pod, "za", "", inModeLease)
			}
		}, "warning candidates all 3 candidates are in zone za", exitOK},
		"unfit": {func(w *world) {
			w.putLease(led(releasedBy(time.Hour)))
			w.announce("op", "op-a", "za", "", inModeLease, func(o *presence.Object) { o.Unhealthy = "no disk\n\x1b[2J" })
			w.hosts("op-b", "zb", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Phase = corev1.PodPending })
			w.hosts("op-c", "zc", func(_ *corev1.Pod, n *corev1.Node) { n.Status.Conditions = nil })
		}, "problem candidates no candidate is ready, healthy and on a ready node", exitError},
		"no-downward-api": {func(w *world) {
			w.announce("op", "op-b", "", "", inModeLease, func(o *presence.Object) { o.Node = "" })
			w.announce("op", "op-c", "", "", inModeLease, func(o *presence.Object) { o.Version, o.Node = "v1.1.0", "node-zc" })
			w.putLease(led(func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationPod] = "" }))
		}, "warning environment these candidates know neither their node nor their zone: op-b_1", exitOK},
		"clock-of-this-machine": {func(w *world) {
			w.skew = 10 * time.Minute
		}, "warning clock this machine's clock is 10m0s behind the API server's", exitOK},
		"clock-of-the-holder": {func(w *world) {
			w.putLease(led(renewed(-5 * time.Second)))
		}, "warning clocks the Lease's renewTime is 5s in the future by the API server's clock", exitOK},
		"rights": {func(w *world) {
			w.lacks = map[string]bool{"update leases": true, "list leases": true}
		}, "problem rights service account default may not update leases.coordination.k8s.io/op", exitError},
		"slow": {func(w *world) {
			w.slow = map[string]time.Duration{"/leases": 1200 * time.Millisecond}
			w.putLease(led(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(3)) }))
		}, "warning timing a lease of 3s is short for requests of 1.2s", exitOK},
		"no-servers-known": {func(w *world) {
			w.answers("endpointslices", apitest.Forbidden)
		}, "note servers how many API servers there are is not known: endpointslices in namespace default: list: needs verb", exitOK},
		"webhook": {func(w *world) {
			w.guards()
		}, "problem webhooks webhook leases.policy.test of ValidatingWebhookConfiguration policy (service policy/webhook) is asked before leases and configmaps are written, it must answer, and its service has no endpoint that is ready", exitError},
		"webhook-that-answers": {func(w *world) {
			w.serves("policy", "webhook", "10.1.0.1")
			w.guards()
		}, "warning webhooks webhook leases.policy.test", exitOK},
		"policy": {func(w *world) {
			w.forbids("no-leases")
		}, "note policies ValidatingAdmissionPolicy no-leases may refuse writes of leases (bound by everywhere)", exitOK},
		"quota": {func(w *world) {
			w.server.Delete(leasesPath + "op")
			w.limits("count/leases.coordination.k8s.io")
		}, "problem quotas quota objects allows 4 Leases, and all are used: the lock cannot be created", exitError},
		"sheds-load": {func(w *world) {
			w.server.Delete("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/operator-leases")
			n := 0
			w.answers("list /apis/coordination", func(string, string) (int, apitest.Object) {
				if n++; n < 2 { // the presences
					return 0, nil
				}
				return http.StatusTooManyRequests, apitest.Status(http.StatusTooManyRequests, "TooManyRequests", "too many requests", "", "")
			})
		}, "problem flowcontrol the API server sheds load", exitError},
		"endless": {func(w *world) {
			w.putLease(led(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(365 * 24 * 3600)) }))
		}, "problem timing the Lease says that it lasts 365d", exitError},
		"legacy-leads": {func(w *world) {
			for path := range maps.Clone(w.server.Objects) {
				if strings.HasPrefix(path, leasesPath) { // the lock, and those who have announced themselves
					w.server.Delete(path)
				}
			}
			w.hosts("old-0", "za")
			w.putConfigMap("op", nil, byPod("old-0"))
		}, "note candidates no candidate has announced itself, as before a migration", exitOK},
		"wrong-mode": {func(w *world) {
			const why = "the phase on the Lease is dual, and this candidate knows the Lease alone: run it in mode auto"
			w.putLease(led(releasedBy(time.Hour), phased(record.PhaseDual, 1)))
			for _, pod := range []string{"op-a", "op-b", "op-c"} {
				w.announce("op", pod, "z"+pod[3:], why, inModeLease)
			}
		}, "problem lock nobody leads: the lock is released and has been for 60m, and no candidate took it: all candidates wait: the phase on the Lease is dual, and this candidate knows the Lease alone: run it in mode auto", exitError},
		"nobody-may-write": {func(w *world) {
			w.lacks = map[string]bool{"update leases": true}
			w.putLease(led(releasedBy(time.Hour), phased(record.PhaseDual, 1)))
		}, "problem lock nobody leads: the lock is released and has been for 60m, and no candidate took it: service account default may not update leases.coordination.k8s.io/op", exitError},
		"legacy-pod-gone": {func(w *world) {
			w.putLease(led(phased(record.PhaseDual, 1)))
			w.putConfigMap("op", nil, byPod("old-0"))
		}, "warning legacy configmap/op belongs to pod/old-0, which does not exist", exitOK},
		"stuck-migration": {func(w *world) {
			w.announce("op", "op-a", "za", "legacy pod old-0 may still lead: its node is silent")
			w.putLease(led(phased(record.PhaseDual, 1)))
			w.hosts("old-0", "zd", func(p *corev1.Pod, _ *corev1.Node) { p.Status.Conditions = nil })
			w.putConfigMap("op", nil, byPod("old-0"))
		}, "problem lock op-a_1 (za) has had the lock for 5m, and its work has not begun: legacy pod old-0 may still lead", exitError},
		"garbage": {func(w *world) {
			w.putLease(led(func(l *coordinationv1.Lease) {
				l.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("\x1b[2J"), LeaseDurationSeconds: ptr.To(int32(-7)), LeaseTransitions: ptr.To(int32(-1))}
				for key := range l.Annotations {
					l.Annotations[key] = "\x00 garbage=;\n,"
				}
			}))
		}, "problem lock \ufffd[2J holds the lock and does not renew it", exitError},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				tc.breaks(w)
				r := w.run("doctor", "op")
				golden(t, "doctor-"+name, r)
				if r.code != tc.code || !saysLine(r.out, tc.want) {
					t.Errorf("exit code %d, want %d and %q:\n%s%s", r.code, tc.code, tc.want, r.out, r.errors)
				}
			})
		})
	}
}

// saysLine reports whether a line, with single spaces between its words, begins like that.
func saysLine(out, want string) bool {
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(strings.Join(strings.Fields(line), " "), strings.Join(strings.Fields(want), " ")) {
			return true
		}
	}
	return false
}

// forbids puts up a policy for Leases that denies.
func (w *world) forbids(name string) {
	const path = "/apis/admissionregistration.k8s.io/v1/"
	w.server.Put(path+"validatingadmissionpolicies/"+name, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}},
			},
		}}}},
	})
	w.server.Put(path+"validatingadmissionpolicybindings/everywhere", &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	})
}

func TestDoctorLooksAtAllLocksInEveryFormat(t *testing.T) {
	for name, args := range map[string][]string{
		"doctor-all":      {"doctor"},
		"doctor-json":     {"doctor", "op", "-o", "json"},
		"doctor-yaml":     {"doctor", "op", "-o", "yaml"},
		"doctor-template": {"doctor", "-o", "jsonpath={.problems} {.findings[?(@.result==\"problem\")].lock}"},
		"doctor-absent":   {"doctor", "none"},
		"doctor-nowhere":  {"doctor", "-n", "nss"},
		"doctor-format":   {"doctor", "-o", "wide"},
		"doctor-legacy":   {"doctor", "--legacy-name", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				w.putLease(newLease("other", "other-a_1", "za", renewed(time.Hour)))
				w.putConfigMap("old", nil, byPod("old-0"))
				golden(t, name, w.run(args...))
			})
		})
	}
}

func TestDoctorOfAnEmptyNamespaceAndOfTooManyLocks(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		if r := w.run("doctor"); r.code != exitOK || !saysLine(r.out, "warning lock no locks were found in namespace ns") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		for _, line := range []string{"doctor", "doctor op"} {
			w.server.Before = nil
			if r := w.run(append(strings.Fields(line), "-n", "nss")...); r.code != exitError || !strings.HasPrefix(r.errors, "error: namespace nss does not exist") {
				t.Errorf("%s: exit code %d: %s%s", line, r.code, r.out, r.errors)
			}
			w.answers("get /api/v1/namespaces/ns", apitest.Forbidden)
			if r := w.run(strings.Fields(line)...); !strings.Contains(r.out, "cannot tell whether namespace ns exists") {
				t.Errorf("%s: exit code %d: %s%s", line, r.code, r.out, r.errors)
			}
		}
		w.server.Before = nil
		for i := range mostLocks + 3 {
			w.putLease(newLease(fmt.Sprint("op-", i), "a_1", "za"))
		}
		if r := w.run("doctor"); r.code != exitOK || !saysLine(r.out, "note lock 3 locks more are not checked") || strings.Count(r.out, "a_1 (za) has led") != mostLocks {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
	})
}

// TestDoctorReadsEachPodAndNodeOnce, however many locks have the same candidates: those of a
// Group, and those of a program with several elections.
func TestDoctorReadsEachPodAndNodeOnce(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		const locks, candidates = 40, 10
		for i := range candidates {
			pod := fmt.Sprint("op-", i)
			w.announce("program", pod, "za", "", inModeLease)
			w.announce("lock-0", pod, "za", "", inModeLease)
		}
		for i := range locks {
			w.putLease(newLease(fmt.Sprint("lock-", i), "op-0_1", "za", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationShared] = "program" }))
		}
		read := map[string]int{}
		w.before(func(_, path string) (int, apitest.Object) {
			for _, of := range []string{"/pods/", "/nodes"} {
				if strings.Contains(path, of) {
					read[of]++
				}
			}
			return 0, nil
		})
		r := w.run("doctor")
		if n := strings.Count(r.out, "op-0_1 (za) has led"); n != locks {
			t.Errorf("%d locks are led, want %d:\n%s%s", n, locks, r.out, r.errors)
		}
		if read["/pods/"] != candidates || read["/nodes"] > 3 { // one node, and lists of zones
			t.Errorf("%d candidates: reads are %v", candidates, read)
		}
	})
}

// TestDoctorSaysWhatMayNotBeReadAndGoesOn, with the role that grants it.
func TestDoctorSaysWhatMayNotBeReadAndGoesOn(t *testing.T) {
	const role = "; ClusterRole zonelect-doctor grants that"
	for right, want := range map[string]string{
		"get /apis/coordination.k8s.io":         "problem lock the Lease could not be read:",
		"list /apis/coordination.k8s.io":        "note lock the candidates are not known:",
		"/pods/":                                "note lock whether the candidates' pods run is not known:",
		"/nodes":                                "note lock whether the candidates' nodes are ready is not known:",
		"validatingwebhookconfigurations":       "note webhooks whether webhooks stand before Leases is not known:",
		"validatingadmissionpolicybindings":     "note policies whether policies stand before Leases is not known:",
		"resourcequotas":                        "note quotas whether a quota is used up is not known:",
		"flowschemas":                           "note flowcontrol whether requests for Leases have a FlowSchema of their own is not known:",
		"endpointslices":                        "note servers how many API servers there are is not known:",
		"no subject access review may be made!": "note rights whether the candidates may write the lock is not known:",
	} {
		t.Run(right, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				w.answers(right, apitest.Forbidden)
				w.denied = strings.HasSuffix(right, "!")
				r := w.run("doctor", "op")
				if !saysLine(r.out, want) || !strings.Contains(r.out, role) || !strings.Contains(r.out, "  quotas  ") {
					t.Errorf("want %q%s:\n%s%s", want, role, r.out, r.errors)
				}
			})
		})
	}
	inABubble(t, func(t *testing.T, w *world) {
		w.well()
		w.answers("", apitest.Forbidden)
		w.denied = true
		golden(t, "doctor-nothing-permitted", w.run("doctor", "op"))
		w.absent = fmt.Errorf("no route to host")
		golden(t, "doctor-no-server", w.run("doctor", "op"))
	})
}

// TestDoctorTriesAWriteAndChangesNothing: it is slow where webhooks are, which a read does not show.
func TestDoctorTriesAWriteAndChangesNothing(t *testing.T) {
	message := func(code int, reason, text string) func(string, string) (int, apitest.Object) {
		return func(string, string) (int, apitest.Object) {
			return code, apitest.Status(code, reason, text, "leases", "op")
		}
	}
	for name, tc := range map[string]struct {
		waits   time.Duration                                 // how long the admission takes
		answers func(verb, path string) (int, apitest.Object) // nil if the server admits it
		want    string
		code    int
	}{
		"fast":              {0, nil, "ok latency coordination.k8s.io/v1 is served; requests took get: 0s, 0s, 0s; list: 0s, 0s, 0s; trial write: 0s, 0s, 0s", exitOK},
		"slow":              {5 * time.Second, nil, "warning timing a lease of 15s is short for requests of 5s: beyond 4.5s a leader loses its terms", exitOK},
		"may only read":     {0, apitest.Forbidden, "note latency how long a write takes is not known: lease ns/op: update: needs verb \"update\"", exitOK},
		"side effects":      {0, message(http.StatusBadRequest, "BadRequest", `admission webhook "x.test" does not support dry run`), `note latency how long a write takes is not known: lease ns/op: update: admission webhook "x.test" does not support dry run`, exitOK},
		"refused":           {0, message(http.StatusForbidden, "Forbidden", `admission webhook "x.test" denied the request: no`), "warning latency a trial write of a Lease, which changes nothing, was refused", exitOK},
		"no answer":         {0, message(http.StatusInternalServerError, "InternalError", `Internal error occurred: failed calling webhook "x.test"`), "warning latency a trial write of a Lease, which changes nothing, was refused", exitOK},
		"written meanwhile": {0, message(http.StatusConflict, "Conflict", "the object has been modified"), "ok latency coordination.k8s.io/v1 is served; requests took get: 0s, 0s, 0s; list: 0s, 0s, 0s", exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				w.server.Admitting = func(r *http.Request) bool {
					if r.URL.Query().Get("dryRun") != metav1.DryRunAll || r.URL.Path != leasesPath+"op" || r.Method != http.MethodPut {
						t.Errorf("doctor writes: %s %s", r.Method, r.URL)
					}
					time.Sleep(tc.waits)
					return true
				}
				if tc.answers != nil {
					w.answers("update "+leasesPath, tc.answers)
				}
				before := maps.Clone(w.server.Objects)
				r := w.run("doctor", "op")
				if r.code != tc.code || !saysLine(r.out, tc.want) || !maps.EqualFunc(before, w.server.Objects, func(a, b apitest.Object) bool { return reflect.DeepEqual(a, b) }) {
					t.Errorf("exit code %d, want %d and %q, and nothing changed:\n%s%s", r.code, tc.code, tc.want, r.out, r.errors)
				}
				if tc.waits > 0 && strings.Count(r.out, "5s, 5s") > 0 {
					t.Errorf("a slow write was tried again:\n%s", r.out)
				}
				if name == "may only read" && !strings.Contains(r.out, "; ClusterRole zonelect-doctor-trial grants that") {
					t.Errorf("it does not say who may:\n%s", r.out)
				}
			})
		})
	}
}
