// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/applyconfigurations/coordination/v1"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/sleep"
)

// A kubelet's heartbeat, with the timing of a real one.
const (
	beatInterval  = 10 * time.Second
	beatRetry     = time.Second
	leaseSeconds  = 40
	kubeletBudget = 5 * time.Second // for a beat, or a change of a pod
)

// kubelet plays the kubelet of a zone's only node. It talks to the zone's own
// apiserver, so it is cut off when that is.
type kubelet struct {
	zone   string
	client kubernetes.Interface
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NodeName is the name of a zone's node.
func NodeName(zone string) string { return "node-" + zone }

// startKubelet registers the node, which is Ready when it returns, and starts
// the kubelet. ctx is for registering only.
func startKubelet(ctx context.Context, zone string, config *rest.Config) (*kubelet, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of the kubelet in zone %s: %w", zone, err)
	}
	k := &kubelet{zone: zone, client: client}
	if err := poll(ctx, "register the node of zone "+zone, k.beat); err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.wg.Go(func() { k.beatAlways(background) })
	k.wg.Go(func() { k.runPods(background) })
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
	for pause := beatInterval; sleep.For(ctx, pause) == nil; {
		// A failed beat is retried soon; the controllers decide what too many
		// mean.
		if pause = beatInterval; k.beat(ctx) != nil {
			pause = beatRetry
		}
	}
}

// beat makes the node Ready, and renews its lease. It creates what is not there.
func (k *kubelet) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletBudget)
	defer cancel()
	name, now, force := NodeName(k.zone), metav1.Now(), metav1.ApplyOptions{FieldManager: "kubelet", Force: true}
	node := core.Node(name).WithLabels(map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: k.zone, corev1.LabelOSStable: "linux",
	})
	ready := core.NodeCondition().WithType(corev1.NodeReady).WithStatus(corev1.ConditionTrue).WithReason("KubeletReady").
		WithMessage("played by the testbed").WithLastHeartbeatTime(now).WithLastTransitionTime(now)
	lease := coordination.Lease(name, corev1.NamespaceNodeLease).WithSpec(
		coordination.LeaseSpec().WithHolderIdentity(name).WithLeaseDurationSeconds(leaseSeconds).WithRenewTime(metav1.NowMicro()))
	_, err := k.client.CoreV1().Nodes().Apply(ctx, node, force)
	if err == nil {
		_, err = k.client.CoreV1().Nodes().ApplyStatus(ctx, core.Node(name).WithStatus(core.NodeStatus().WithConditions(ready)), force)
	}
	if err == nil {
		_, err = k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Apply(ctx, lease, force)
	}
	if err != nil {
		return fmt.Errorf("keep node %s ready: %w", name, err)
	}
	return nil
}
