// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Webhook is one that is asked before a Lease or a ConfigMap of the namespace is written.
type Webhook struct {
	Configuration string // such as "ValidatingWebhookConfiguration policy"
	Name          string
	Of            []string // leases, configmaps
	Mutates       bool     // it may change what is written
	Fails         bool     // a write fails if the webhook does not answer
	Conditional   bool     // it has matchConditions or an objectSelector, which are not evaluated
	Timeout       int32    // in seconds
	Service       *admissionv1.ServiceReference
	URL           string
	// Backends is how many ready endpoints its Service has; of no use without one.
	Backends Fact[int]
}

// Validating returns the webhooks of configurations that concern a namespace with these labels.
// Labels that are not known, nil, fit every selector.
func Validating(all []admissionv1.ValidatingWebhookConfiguration, namespace map[string]string) []Webhook {
	var found []Webhook
	for _, c := range all {
		for _, w := range c.Webhooks {
			found = append(found, concerned("ValidatingWebhookConfiguration "+c.Name, admissionv1.MutatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, TimeoutSeconds: w.TimeoutSeconds, MatchConditions: w.MatchConditions,
			}, namespace)...)
		}
	}
	return found
}

// Mutating does the same for the other kind.
func Mutating(all []admissionv1.MutatingWebhookConfiguration, namespace map[string]string) []Webhook {
	var found []Webhook
	for _, c := range all {
		for _, w := range c.Webhooks {
			for _, one := range concerned("MutatingWebhookConfiguration "+c.Name, w, namespace) {
				one.Mutates = true
				found = append(found, one)
			}
		}
	}
	return found
}

// concerned returns a webhook if it concerns a namespace, or nothing.
func concerned(configuration string, w admissionv1.MutatingWebhook, namespace map[string]string) []Webhook {
	of := concerns(w.Rules, w.MatchPolicy != nil && *w.MatchPolicy == admissionv1.Exact)
	if len(of) == 0 || !selects(w.NamespaceSelector, namespace) {
		return nil
	}
	one := Webhook{
		Configuration: configuration, Name: w.Name, Of: of, Service: w.ClientConfig.Service,
		Fails:       w.FailurePolicy == nil || *w.FailurePolicy == admissionv1.Fail,
		Conditional: len(w.MatchConditions) > 0 || !everything(w.ObjectSelector),
		Timeout:     10,
	}
	if w.ClientConfig.URL != nil {
		one.URL = *w.ClientConfig.URL
	}
	if w.TimeoutSeconds != nil {
		one.Timeout = *w.TimeoutSeconds
	}
	return []Webhook{one}
}

// everything reports whether a selector is empty.
func everything(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// selects reports whether a selector fits, or may fit.
func selects(s *metav1.LabelSelector, of map[string]string) bool {
	if everything(s) || of == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err != nil || selector.Matches(labels.Set(of))
}

// concerns returns which of leases and configmaps a webhook's rules match when they are created
// or updated. Unless exact, the version of a rule does not matter: the server converts.
func concerns(rules []admissionv1.RuleWithOperations, exact bool) []string {
	var of []string
	for _, r := range []struct{ group, resource string }{{"coordination.k8s.io", "leases"}, {"", "configmaps"}} {
		if slices.ContainsFunc(rules, func(rule admissionv1.RuleWithOperations) bool {
			return writes(rule.Operations) && has(rule.APIGroups, r.group) && (!exact || has(rule.APIVersions, "v1")) &&
				(rule.Scope == nil || *rule.Scope != admissionv1.ClusterScope) && slices.ContainsFunc(rule.Resources, func(p string) bool { return fits(p, r.resource) })
		}) {
			of = append(of, r.resource)
		}
	}
	return of
}

func writes(all []admissionv1.OperationType) bool {
	return slices.ContainsFunc(all, func(o admissionv1.OperationType) bool {
		return o == admissionv1.OperationAll || o == admissionv1.Create || o == admissionv1.Update
	})
}

func has(all []string, one string) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}

// fits reports whether a pattern such as "leases", "*" or "*/*" means a resource itself.
func fits(pattern, resource string) bool {
	name, sub, _ := strings.Cut(pattern, "/")
	return (name == "*" || name == resource) && (sub == "" || sub == "*")
}

// where says where a webhook is.
func (w Webhook) where() string {
	if w.Service != nil {
		return fmt.Sprintf("service %s/%s", w.Service.Namespace, w.Service.Name)
	}
	return cmp.Or(w.URL, "an unknown place")
}

func checkWebhooks(c Cluster) []Finding {
	if c.Webhooks.Unknown != "" {
		return unread("whether webhooks stand before Leases", c.Webhooks.Unknown)
	}
	var all []Finding
	_, most := defaults.Bounds()
	most = cmp.Or(c.Answer, most)
	var mutating, validating, longest time.Duration
	for _, w := range c.Webhooks.Value {
		if !slices.Contains(w.Of, "leases") && !c.Legacy {
			continue
		}
		all = append(all, w.finding(most))
		longest = max(longest, w.waits())
		if w.Mutates { // these are asked one by one, the others at once
			mutating += w.waits()
		} else {
			validating = max(validating, w.waits())
		}
	}
	if together := mutating + validating; longest <= most && together > most {
		all = append(all, say(Warning, "together these webhooks can hold up a write for %s, and beyond %s a leader loses its terms", together, most).do("lower their timeoutSeconds; or %s", longer(together)))
	}
	if len(all) == 0 {
		all = append(all, say(OK, "no webhook stands before the writes of a lock"))
	}
	return all
}

// waits is for how long a write that does not need its answer waits for a webhook.
func (w Webhook) waits() time.Duration {
	if w.Fails {
		return 0
	}
	return time.Duration(w.Timeout) * time.Second
}

// finding says what a webhook means for a lock that is lost if answers take longer than most.
func (w Webhook) finding(most time.Duration) Finding {
	text := fmt.Sprintf("webhook %s of %s (%s) is asked before %s are written", w.Name, w.Configuration, w.where(), strings.Join(w.Of, " and "))
	if w.Conditional {
		text += ", under conditions"
	}
	except := "leave leases out of its rules, or the namespace out of its namespaceSelector"
	dead := w.Service != nil && w.Backends.Unknown == "" && w.Backends.Value == 0
	switch {
	case dead && w.Fails && !w.Conditional:
		return say(Problem, "%s, it must answer, and its service has no endpoint that is ready", text).do("no candidate can renew: start its pods, or %s", except)
	case dead && w.Fails:
		return say(Warning, "%s, it must answer, and its service has no endpoint that is ready", text).do("start its pods, or %s", except)
	case w.Fails:
		return say(Warning, "%s, and must answer (failurePolicy Fail, within %ds)", text, w.Timeout).do("no candidate can renew while it is away: %s", except)
	case dead:
		return say(Warning, "%s, and its service has no endpoint that is ready: each write may wait for up to %ds", text, w.Timeout).do("start its pods, or %s", except)
	case w.waits() > most:
		return say(Warning, "%s; if it does not answer each write waits for up to %ds, and beyond %s a leader loses its terms", text, w.Timeout, most).
			do("set its timeoutSeconds to %d or less, or %s; or %s", max(1, most/time.Second), except, longer(w.waits()))
	}
	return say(Note, "%s; if it does not answer each write waits for up to %ds", text, w.Timeout).do("%s", except)
}

// Policy is a ValidatingAdmissionPolicy for Leases or ConfigMaps, with the bindings that deny.
type Policy struct {
	Name   string
	Of     []string
	Denied []string // names of its bindings that deny
}

// Policies returns those that may refuse a write. A rule for single names is left out.
func Policies(all []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding, namespace map[string]string) []Policy {
	var found []Policy
	for _, p := range all {
		one := Policy{Name: p.Name}
		m := p.Spec.MatchConstraints
		if m == nil || !selects(m.NamespaceSelector, namespace) {
			continue
		}
		var rules []admissionv1.RuleWithOperations
		for _, r := range m.ResourceRules {
			if len(r.ResourceNames) == 0 {
				rules = append(rules, r.RuleWithOperations)
			}
		}
		one.Of = concerns(rules, m.MatchPolicy != nil && *m.MatchPolicy == admissionv1.Exact)
		for _, b := range bindings {
			if b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) && (b.Spec.MatchResources == nil || selects(b.Spec.MatchResources.NamespaceSelector, namespace)) {
				one.Denied = append(one.Denied, b.Name)
			}
		}
		if len(one.Of) > 0 && len(one.Denied) > 0 {
			found = append(found, one)
		}
	}
	return found
}

func checkPolicies(c Cluster) []Finding {
	if c.Policies.Unknown != "" {
		return unread("whether policies stand before Leases", c.Policies.Unknown)
	}
	var all []Finding
	for _, p := range c.Policies.Value {
		if slices.Contains(p.Of, "leases") || c.Legacy {
			all = append(all, say(Note, "ValidatingAdmissionPolicy %s may refuse writes of %s (bound by %s)", p.Name, strings.Join(p.Of, " and "), list(p.Denied)).
				do("if candidates log 'refused by an admission rule', this may be it"))
		}
	}
	if len(all) == 0 {
		all = append(all, say(OK, "no policy stands before the writes of a lock"))
	}
	return all
}
