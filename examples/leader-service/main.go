// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command leader-service labels the leader's pod, and a Service selects that label: see
// manifests.yaml. It runs only in a cluster. All replicas should be Ready: if only the leader is, a
// rolling update waits forever for its first new pod.
//
// A dead pod keeps the label. Connections to it hang until its node is NotReady, or until the next
// leader takes the label away.
//
// This is not a lock. Clients learn late that the leader has changed, so for a while they may talk to
// a former leader. Let it refuse requests once Term.TrustedFor is zero (docs/fencing.md).
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

// app selects the pods of this operator, and leads is the label of the one that leads.
const app, leads = "app=my-operator", "my-operator.example.com/leads"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := operator.Run(ctx, "my-operator", work, operator.Options{}); err != nil {
		log.Fatal(err)
	}
}

// work labels this pod, and then serves until ctx ends.
func work(ctx context.Context, term election.Term) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	// The guard refuses the writes of a term that is over. They would label a former leader.
	config, err = operator.GuardConfig(config, func() election.Term { return term })
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := label(ctx, client.CoreV1().Pods(os.Getenv("POD_NAMESPACE")), os.Getenv("POD_NAME")); err != nil {
		return err
	}
	fmt.Println("the Service selects this pod with token", term.Token)
	<-ctx.Done()
	return nil
}

// label takes the label from every other pod, and then labels this one.
func label(ctx context.Context, pods corev1.PodInterface, self string) error {
	labeled, err := pods.List(ctx, metav1.ListOptions{LabelSelector: app + "," + leads})
	if err != nil {
		return err
	}
	for _, pod := range labeled.Items {
		if pod.Name != self {
			if err := set(ctx, pods, pod.Name, "null"); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return set(ctx, pods, self, `"true"`)
}

func set(ctx context.Context, pods corev1.PodInterface, pod, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, leads, value)
	_, err := pods.Patch(ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
