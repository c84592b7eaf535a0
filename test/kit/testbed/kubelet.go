// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A kubelet's heartbeat, with the timing of a real one.
const (
	beatInterval  = 10 * time.Second
	beatRetry     = time.Second
	leaseSeconds  = 40
	kubeletBudget = 5 * time.Second // for one request
)

// kubelet plays the kubelet of a zone's only node. It talks to the zone's own
// apiserver, so it is cut off when that is.
type kubelet struct {
	zone   string
	boot   int // counts the zone's starts; after each one the containers are new
	client kubernetes.Interface
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NodeName is the name of a zone's node.
func NodeName(zone string) string { return "node-" + zone }

// startKubelet registers the node, which is Ready when it returns, and starts
// the kubelet. ctx is for registering only.
func startKubelet(ctx context.Context, zone string, boot int, config *rest.Config) (*kubelet, error) {
	config.Timeout = kubeletBudget
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of the kubelet in zone %s: %w", zone, err)
	}
	k := &kubelet{zone: zone, boot: boot, client: client}
	if err := poll(ctx, "register the node of zone "+zone, k.beat); err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.wg.Go(func() { k.beatAlways(background) })
	// The informer of the pods has no timeout: its watch is meant to last.
	watcher := rest.CopyConfig(config)
	watcher.Timeout = 0
	watching, err := kubernetes.NewForConfig(watcher)
	if err != nil {
		k.stop()
		return nil, fmt.Errorf("make the client of the kubelet in zone %s: %w", zone, err)
	}
	k.wg.Go(func() { k.runPods(background, watching) })
	return k, nil
}

// stop ends the kubelet without a word to the API, as a power cut does, and
// waits for it.
func (k *kubelet) stop() {
	k.cancel()
	k.wg.Wait()
}

// beatAlways keeps the node alive until ctx ends.
func (k *kubelet) beatAlways(ctx context.Context) {
	timer := time.NewTimer(beatInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		// A failed beat is retried soon; the controllers decide what too many
		// mean.
		if err := k.beat(ctx); err != nil {
			timer.Reset(beatRetry)
		} else {
			timer.Reset(beatInterval)
		}
	}
}

// beat makes the node and its lease what they should be now.
func (k *kubelet) beat(ctx context.Context) error {
	if err := k.beatNode(ctx); err != nil {
		return fmt.Errorf("keep node %s ready: %w", NodeName(k.zone), err)
	}
	if err := k.beatLease(ctx); err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", NodeName(k.zone), err)
	}
	return nil
}

// beatNode makes sure that the node exists and is Ready.
func (k *kubelet) beatNode(ctx context.Context) error {
	nodes := k.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, NodeName(k.zone), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = nodes.Create(ctx, k.node(), metav1.CreateOptions{})
		return err
	}
	if err != nil || nodeReady(node) {
		return err
	}
	node.Status.Conditions = k.node().Status.Conditions
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// nodeReady reports whether a node's status says that it is Ready.
func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// node is the zone's node, Ready.
func (k *kubelet) node() *corev1.Node {
	now := metav1.Now()
	labels := map[string]string{
		corev1.LabelHostname:     NodeName(k.zone),
		corev1.LabelTopologyZone: k.zone,
		corev1.LabelOSStable:     "linux",
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName(k.zone), Labels: maps.Clone(labels)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "played by the testbed", LastHeartbeatTime: now, LastTransitionTime: now,
		}}},
	}
}

// beatLease renews the node's lease, or makes it.
func (k *kubelet) beatLease(ctx context.Context) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	name, seconds, now := NodeName(k.zone), int32(leaseSeconds), metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
