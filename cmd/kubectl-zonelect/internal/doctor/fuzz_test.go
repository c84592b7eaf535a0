// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/inspect"
)

// advice is what a hint may consist of. What a shell does not take for a letter is in what this package
// writes, and in no command.
var advice, copied = regexp.MustCompile(`^[A-Za-z0-9 .,:;/#=()'?_-]*$`), regexp.MustCompile(`'(kubectl [^']*)'`)

// whole says what is wrong with findings: each has a result, a text and a check, and a hint in which
// nothing is more than a word to a shell.
func whole(t *testing.T, all []Finding) {
	t.Helper()
	for _, f := range all {
		f.Hint = strings.ReplaceAll(f.Hint, " | kubectl apply -f -'", "'") // the one pipe that this package writes
		if !slices.Contains([]Result{OK, Note, Warning, Problem}, f.Result) || f.Text == "" || f.Check == "" || !advice.MatchString(f.Hint) {
			t.Errorf("%+v", f)
		}
		for _, command := range copied.FindAllString(f.Hint, -1) {
			if strings.ContainsAny(command[1:len(command)-1], ";()?'#") {
				t.Errorf("%q is a command to copy", command)
			}
		}
	}
}

// FuzzCheck examines a lock of which anybody wrote anything. Each finding is whole, the same facts give
// the same findings in whatever order candidates were read, and a lock that is renewed is never said
// to be without a leader.
func FuzzCheck(f *testing.F) {
	seed, _ := json.Marshal(lockOf(func(*coordinationv1.Lease) {}).Lease) // it has a JSON form
	f.Add(seed, "pod/old", int64(0))
	f.Add([]byte(`{"metadata":{"annotations":{"zonelect.dev/phase":"dual","zonelect.dev/legacy-lock":"annotation/endpoints/"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":-1}}`), "", int64(-1))
	f.Add([]byte(`{"spec":{"leaseDurationSeconds":2147483647,"holderIdentity":"a"}}`), "x", int64(1)<<62)
	f.Add([]byte(`{"metadata":{"name":"$(touch x)","namespace":"$(touch y)"},"spec":{"holderIdentity":"a; b","leaseDurationSeconds":15}}`), "pod/a'; b `c` | d & e", int64(time.Second))
	f.Fuzz(func(t *testing.T, one []byte, text string, n int64) {
		var lease coordinationv1.Lease
		if json.Unmarshal(one, &lease) != nil {
			t.Skip("no Lease")
		}
		l := Lock{Now: midnight, RoundTrip: time.Duration(n), LegacyPod: Fact[string]{Value: text}, Offset: ptr.To(time.Duration(n))}
		l.Election = inspect.Election{NamespacedName: inspect.KeyOf(&lease), Lease: &lease, Watched: inspect.Watched{For: time.Duration(n)}}
		l.Candidates = []inspect.Candidate{{Identity: text, Zone: text}, {Identity: "b", Pod: text, PodState: text, Node: text, NodeState: text, Part: &inspect.Part{ServiceAccount: text}}}
		l.Legacy = &inspect.Legacy{Object: "configmap/old", Kind: "legacy", Holder: text}
		l.Rights.Value = l.Needs()
		said := l.Check()
		whole(t, said)
		slices.Reverse(l.Candidates)
		if again := l.Check(); !reflect.DeepEqual(again, said) {
			t.Errorf("then %+v\nbefore %+v", again, said)
		}
		l.Watched.Renewed = true
		for _, found := range l.Check() {
			if s := l.Status(midnight).State; found.Check == "lock" && found.Result == Problem && s == inspect.Held {
				t.Errorf("it is renewed, and %+v", found)
			}
		}
		c := Cluster{Offset: l.Offset, Gets: []time.Duration{l.RoundTrip}}
		whole(t, c.Check())
		before := Pre{
			Namespace: text, Lock: text, Account: text, Taken: Fact[string]{Value: text}, Minor: Fact[int]{Value: int(n % 50)}, Zones: Fact[[]string]{Value: []string{text}},
			Outside: Fact[bool]{Value: true}, Refused: text, Rights: Fact[[]Right]{Value: LeaseRights(text, text, text, false)},
		}
		whole(t, before.Check())
	})
}

// FuzzCluster examines any objects that stand before a lock's writes, as people and operators make them. Each
// finding is whole. Only what concerns Leases or ConfigMaps is told of, and whoever knows the labels
// of the namespace is told of nothing that others are not.
func FuzzCluster(f *testing.F) {
	const rules = `[{"operations":["*"],"apiGroups":["coordination.k8s.io",""],"apiVersions":["*"],"resources":["leases","configmaps/*"]}]`
	webhooks := []byte(`{"metadata":{"name":"c"},"webhooks":[{"name":"w","clientConfig":{"service":{"namespace":"n","name":"s"}},"rules":` + rules + `,"namespaceSelector":{"matchLabels":{"a":"b"}}},{"clientConfig":{"url":"https://x"},"rules":` + rules + `,"timeoutSeconds":-1,"failurePolicy":"Ignore"}]}`)
	policy := []byte(`{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"],"matchConstraints":{"namespaceSelector":{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]},"resourceRules":` + rules + `}}}`)
	other := []byte(`{"metadata":{"name":"q"},"status":{"hard":{"count/configmaps":"1e3","count/leases.coordination.k8s.io":"-1"},"used":{"count/configmaps":"1k"},"conditions":[{"type":"Dangling","status":"True"}]},"endpoints":[{"addresses":["10.0.0.1"]},{"conditions":{"ready":false}}],"ports":[{"port":443}]}`)
	f.Add(webhooks, policy, other, "a", "b", true)
	f.Add(webhooks, policy, other, "a", "$(touch x)", false)
	f.Add([]byte(strings.ReplaceAll(string(webhooks), `"matchLabels":{"a":"b"}`, `"matchExpressions":[{"operator":"x"}]`)), []byte(`{}`), []byte(`{"status":{"hard":{"":""}}}`), "", "", true)
	f.Fuzz(func(t *testing.T, a, b, c []byte, key, value string, legacy bool) {
		var validating admissionv1.ValidatingWebhookConfiguration
		var mutating admissionv1.MutatingWebhookConfiguration
		var policy admissionv1.ValidatingAdmissionPolicy
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		var quota corev1.ResourceQuota
		var slice discoveryv1.EndpointSlice
		var schema flowcontrolv1.FlowSchema
		read := func(text []byte, objects ...any) (n int) {
			for _, o := range objects {
				if json.Unmarshal(text, o) == nil {
					n++
				}
			}
			return n
		}
		if read(a, &validating, &mutating)*read(b, &policy, &binding)*read(c, &quota, &slice, &schema) == 0 {
			t.Skip("no objects")
		}
		examined := func(labels map[string]string) Cluster {
			c := Cluster{Namespace: value, Address: value, Failed: []string{value}, Denied: key, Creates: legacy, Legacy: legacy}
			c.Webhooks.Value = append(Validating([]admissionv1.ValidatingWebhookConfiguration{validating}, labels), Mutating([]admissionv1.MutatingWebhookConfiguration{mutating}, labels)...)
			c.Policies.Value = Policies([]admissionv1.ValidatingAdmissionPolicy{policy}, []admissionv1.ValidatingAdmissionPolicyBinding{binding}, labels)
			c.Quotas.Value, c.Slices.Value, c.FlowSchema.Value = []corev1.ResourceQuota{quota}, []discoveryv1.EndpointSlice{slice}, &schema
			whole(t, c.Check())
			return c
		}
		known, unknown := examined(map[string]string{key: value}), examined(nil)
		for _, w := range known.Webhooks.Value {
			if len(w.Of) == 0 || !slices.ContainsFunc(unknown.Webhooks.Value, func(u Webhook) bool { return reflect.DeepEqual(u, w) }) {
				t.Errorf("%+v is told of, and without labels %+v", w, unknown.Webhooks.Value)
			}
			if f := w.finding(time.Second); f.Result == Problem && (!w.Fails || w.Service == nil || w.Conditional) {
				t.Errorf("%+v is %+v", w, f)
			}
		}
		for _, p := range known.Policies.Value {
			if len(p.Of) == 0 || len(p.Denied) == 0 || !slices.ContainsFunc(unknown.Policies.Value, func(u Policy) bool { return reflect.DeepEqual(u, p) }) {
				t.Errorf("%+v is told of, and without labels %+v", p, unknown.Policies.Value)
			}
		}
	})
}
