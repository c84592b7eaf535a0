// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/durations"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestAnAdmissionThatRaisesDurationsDelaysNoHandover: the API server raises the duration of each write of the Lease to
// a minute, that of a release, too.
func TestAnAdmissionThatRaisesDurationsDelaysNoHandover(t *testing.T) {
	g := newGround(t, harmless, "raised")
	policies := g.client.AdmissionregistrationV1()
	_, err := policies.MutatingAdmissionPolicies().Create(t.Context(), &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: g.namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": g.namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{
					ResourceNames: []string{"lock"},
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
						Rule:       admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}},
					},
				}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "Object{spec: Object.spec{leaseDurationSeconds: 60}}"},
			}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = policies.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: g.namespace},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: g.namespace},
	}, metav1.CreateOptions{})
	must(t, err)
	leases := g.client.CoordinationV1().Leases(g.namespace)
	leader := g.seat(t, trial.Zonelect, "za", "lock", "0")
	await(t, leader, "leading", time.Time{})
	raised := func() bool {
		l, err := leases.Get(t.Context(), "lock", metav1.GetOptions{})
		must(t, err)
		return *l.Spec.LeaseDurationSeconds == 60
	}
	until(t, "the policy is in force", raised)
	for round := range 5 {
		next := g.seat(t, trial.Zonelect, threeZones[(round+1)%len(threeZones)], "lock", fmt.Sprint(round+1))
		await(t, next, "following", time.Time{})
		time.Sleep(3 * time.Second) // the leader renews
		asked := time.Now()
		must(t, leader.Terminate())
		took := await(t, next, "leading", asked).Time.Sub(asked)
		if !raised() {
			t.Error("the policy changed nothing: this test shows nothing")
		}
		t.Logf("SIGTERM until the next one leads: %v", took)
		must(t, durations.Record(t.Name(), "SIGTERM until the next one leads", took))
		leader = next
	}
}

// TestAfterASuspensionOnlyWorkThatHangsIsOverdue: a leader is stopped for 25 s. What is left of StopGrace then is
// nothing.
func TestAfterASuspensionOnlyWorkThatHangsIsOverdue(t *testing.T) {
	g := newGround(t, harmless, "suspended")
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			for what, delay := range map[string]string{"hangs": "1m", "returns": "0s"} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					name := fmt.Sprint(what, "-", round)
					s := g.seat(t, trial.Zonelect, "za", name, name, "--stop-delay", delay)
					await(t, s, "leading", time.Time{})
					time.Sleep(3 * time.Second)
					must(t, s.Pause())
					time.Sleep(25 * time.Second)
					resumed := time.Now()
					must(t, s.Resume())
					await(t, s, "stopping", resumed)
					if what == "returns" {
						await(t, s, "stopped", resumed)
						time.Sleep(time.Second)
					} else {
						took := await(t, s, "error", resumed).Time.Sub(resumed)
						t.Logf("SIGCONT until OnOverrun: %v", took)
						must(t, durations.Record(t.Name(), "SIGCONT until OnOverrun", took))
					}
					overdue := false
					for _, e := range s.Events() {
						overdue = overdue || strings.Contains(e.Error, "did not stop in time")
					}
					if overdue != (what == "hangs") {
						t.Errorf("the work was overdue: %v", overdue)
					}
				})
			}
		})
	}
}
