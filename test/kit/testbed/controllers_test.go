// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collects checks that the garbage collector runs: it deletes a ConfigMap whose
// owner, a pod in this zone, is gone.
func collects(t *testing.T, bed *Testbed, zone string) {
	t.Helper()
	owner, err := bed.Cluster.AddPod(t.Context(), zone, "owner", "default", nil)
	must(t, err)
	c := client(t, bed.Cluster.RESTConfig(zone)).CoreV1()
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID},
	}}}
	_, err = c.ConfigMaps("default").Create(t.Context(), owned, metav1.CreateOptions{})
	must(t, err)
	must(t, c.Pods("default").Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
	eventually(t, "wait for the garbage collector", func(ctx context.Context) error {
		_, err := c.ConfigMaps("default").Get(ctx, owned.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the ConfigMap is still there"), err)
	})
}
