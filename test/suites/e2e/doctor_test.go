// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// doctor is a person with the rights of config/doctor, and no others.
func (s *shift) doctor(t *testing.T) plugin {
	t.Helper()
	grant(t, s.ctx, s.client, "doctor", "doctor")
	return plugin{s.plugin.path, s.Cluster.Kubeconfig("zc"), []string{"--as", "doctor"}}
}

// The doctor finds nothing wrong with a healthy lock, and names what keeps a lock from being led.
func TestDoctorNamesWhatIsWrongOnARealControlPlane(t *testing.T) {
	s := newShift(t, "op", 4*time.Minute)
	d := s.doctor(t)
	d.run(t, s.ctx, exitError, "doctor op", "problem", "there is no Lease")
	s.start(t, "za")
	s.leads(t, "op", time.Time{})
	d.run(t, s.ctx, exitError, "doctor op", "problem", "rights", "service account default", "only one candidate")
	_, err := s.client.RbacV1().ClusterRoleBindings().Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "candidates"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
	}, metav1.CreateOptions{})
	must(t, err)
	s.start(t, "zb")
	s.start(t, "zc")
	s.announced(t, 3)
	d.run(t, s.ctx, exitOK, "doctor op", "ok", "lock", "latency")
	d.run(t, s.ctx, exitOK, "doctor op -o json", `"kind": "`)
	d.run(t, s.ctx, exitOK, "doctor")

	quotas := s.client.CoreV1().ResourceQuotas("default")
	few := corev1.ResourceList{"count/leases.coordination.k8s.io": resource.MustParse("4")}
	quota, err := quotas.Create(s.ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: few}}, metav1.CreateOptions{})
	must(t, err)
	quota.Status = corev1.ResourceQuotaStatus{Hard: few, Used: few} // as the quotas' controller would count
	_, err = quotas.UpdateStatus(s.ctx, quota, metav1.UpdateOptions{})
	must(t, err)
	d.run(t, s.ctx, exitOK, "doctor op", "warning", "quotas", "few") // the lock itself exists
	must(t, quotas.Delete(s.ctx, "few", metav1.DeleteOptions{}))

	webhooks := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = webhooks.Create(s.ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "blocks"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "blocks.example.com", FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "absent"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}},
			}},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	d.run(t, s.ctx, exitError, "doctor op", "problem", "webhooks", "blocks")
	must(t, webhooks.Delete(s.ctx, "blocks", metav1.DeleteOptions{}))

	for _, seat := range s.seats {
		must(t, seat.Kill())
	}
	time.Sleep(20 * time.Second) // a lease
	d.run(t, s.ctx, exitError, "doctor op", "problem", "does not renew it")
}
