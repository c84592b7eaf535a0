// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"net"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// doctor is a person with the rights of config/people/doctor, and no others.
func (s *shift) doctor(t *testing.T) plugin {
	t.Helper()
	grant(t, s.ctx, s.client, "doctor", "doctor")
	return plugin{s.plugin.path, s.Cluster.Kubeconfig("zc"), []string{"--as", "doctor"}}
}

// The doctor finds nothing wrong with a healthy lock, and names what keeps a lock from being led.
func TestDoctorNamesWhatIsWrongOnARealControlPlane(t *testing.T) {
	s := newShift(t, "op", 4*time.Minute)
	d := s.doctor(t)
	admin := plugin{s.plugin.path, s.Cluster.Kubeconfig("zc"), nil}
	admin.run(t, s.ctx, exitOK, "doctor --pre op", "no Lease has the name op", "you may grant what the candidates need", "may not yet get leases", "trial write: ")
	d.run(t, s.ctx, exitOK, "doctor --pre op", "roles.rbac.authorization.k8s.io", "was refused", "trial write: ")
	d.run(t, s.ctx, exitError, "doctor op", "problem", "there is no Lease")
	s.start(t, "za")
	s.leads(t, "op", time.Time{})
	s.announced(t, 1)
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
	before := func(name string, policy admissionv1.FailurePolicyType, at admissionv1.WebhookClientConfig) {
		t.Helper()
		_, err = webhooks.Create(s.ctx, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: name + ".example.com", FailurePolicy: &policy, SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				ClientConfig: at, TimeoutSeconds: new(int32(5)),
				Rules: []admissionv1.RuleWithOperations{{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"leases"}},
				}},
			}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	before("blocks", admissionv1.Fail, admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "absent"}})
	d.run(t, s.ctx, exitError, "doctor op", "problem", "webhooks", "blocks")
	must(t, webhooks.Delete(s.ctx, "blocks", metav1.DeleteOptions{}))

	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and answers nothing
	must(t, err)
	defer func() { must(t, silent.Close()) }()
	before("late", admissionv1.Ignore, admissionv1.WebhookClientConfig{URL: new("https://" + silent.Addr().String())})
	s.until(t, "the webhook is asked", func() bool {
		began := time.Now()
		_, err := s.client.CoordinationV1().Leases("default").Create(s.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "trial"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		must(t, err)
		return time.Since(began) > 4*time.Second
	})
	d.run(t, s.ctx, exitOK, "doctor op", "trial write: ", "use 30/20/5", "set its timeoutSeconds to 4 or less")
	must(t, webhooks.Delete(s.ctx, "late", metav1.DeleteOptions{}))

	for _, seat := range s.seats {
		must(t, seat.Kill())
	}
	time.Sleep(20 * time.Second) // a lease
	d.run(t, s.ctx, exitError, "doctor op", "problem", "does not renew it")
}
