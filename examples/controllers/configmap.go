// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers is the work of the operators that the examples move to zonelect.
// It knows nothing of leader election.
package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ConfigMapReconciler sets the annotation example.zonelect.dev/legacy-pods on each
// ConfigMap that has the label app=example.
type ConfigMapReconciler struct {
	client.Client
}

// Reconcile handles one ConfigMap.
func (r *ConfigMapReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &cm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cm.Labels["app"] != "example" || cm.Annotations["example.zonelect.dev/legacy-pods"] != "" {
		return ctrl.Result{}, nil
	}
	before := cm.DeepCopy()
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Annotations["example.zonelect.dev/legacy-pods"] = "yes"
	return ctrl.Result{}, r.Patch(ctx, &cm, client.MergeFrom(before))
}

// SetupWithManager adds the reconciler to the manager.
func (r *ConfigMapReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(tell)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(r)
}

// tell prints a line when the manager starts the work, and another when it stops the work.
func tell(ctx context.Context) error {
	fmt.Println("leading")
	<-ctx.Done()
	fmt.Println("stopped")
	return nil
}
