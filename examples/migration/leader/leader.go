// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader stands in for the package of that name in operator-sdk and operator-lib,
// github.com/operator-framework/operator-lib/leader, which an operator imports. It keeps only
// the essence: the program that creates the ConfigMap leads until its pod is gone and the
// garbage collector has removed the ConfigMap.
package leader

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Become blocks until this pod, named by POD_NAME and POD_NAMESPACE, leads for
// life.
func Become(ctx context.Context, lockName string) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	namespace := os.Getenv("POD_NAMESPACE")
	pod, err := clients.CoreV1().Pods(namespace).Get(ctx, os.Getenv("POD_NAME"), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look up this pod: %w", err)
	}
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lockName, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}}
	for pause := time.Second; ; pause = min(2*pause, 16*time.Second) {
		_, err := clients.CoreV1().ConfigMaps(namespace).Create(ctx, lock, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
