// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// podResync is how soon a pod is retried whose status could not be set.
const podResync = 2 * time.Second

// runPods gives every pod of the node the status that a kubelet would, until
// ctx ends.
func (k *kubelet) runPods(ctx context.Context) {
	mine := fields.OneTermEqualSelector("spec.nodeName", NodeName(k.zone))
	pods := cache.NewListWatchFromClient(k.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, mine)
	informer := cache.NewSharedInformer(pods, new(corev1.Pod), podResync)
	sync := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			// A failure is retried at the next resync.
			_ = k.syncPod(ctx, pod.DeepCopy())
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    sync,
		UpdateFunc: func(_, object any) { sync(object) },
	})
	if err != nil {
		return // it fails only on an informer that has been stopped
	}
	informer.RunWithContext(ctx)
}

// syncPod removes a pod that is being deleted, and sets any other to running
// and Ready. It leaves a pod alone that somebody has declared finished.
func (k *kubelet) syncPod(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletBudget)
	defer cancel()
	pods := k.client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	}
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if finished || pod.Status.Phase == corev1.PodRunning && podReady(pod) {
		return nil
	}
	pod.Status = podStatus(pod)
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// podReady reports whether a pod's status says that it is Ready.
func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podStatus is the status of a pod that runs and is Ready.
func podStatus(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: pod.Status.StartTime}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	started := true
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image,
			ContainerID: "testbed://" + string(pod.UID) + "-" + container.Name, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

// PodManifest is the pod that Cluster.AddPod creates, for a caller that wants to
// add to it first: one container, bound to the zone's node.
func PodManifest(zone, name, namespace string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName:   NodeName(zone),
			Containers: []corev1.Container{{Name: "main", Image: "testbed"}},
		},
	}
}

// AddPod creates a pod on a zone's node and returns it once it is Running and
// Ready. The namespace must exist. No program runs for it: see
// Testbed.StartProcess. Pods that are created by other means behave the same,
// once they have the node's name. A deleted pod is gone at once while its zone
// has power.
func (c *Cluster) AddPod(ctx context.Context, zone, name, namespace string, labels map[string]string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout) // without a kubelet it never gets ready
	defer cancel()
	client, err := kubernetes.NewForConfig(c.restConfig(zone))
	if err != nil {
		return nil, fmt.Errorf("add pod %s/%s: make a client: %w", namespace, name, err)
	}
	pods := client.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, PodManifest(zone, name, namespace, labels), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add pod %s/%s: %w", namespace, name, err)
	}
	uid := pod.UID
	err = poll(ctx, fmt.Sprintf("wait until pod %s/%s is ready", namespace, name), func(ctx context.Context) error {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.UID != uid || !podReady(pod) {
			return fmt.Errorf("its phase is %s", pod.Status.Phase)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pod, nil
}
