// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/zone"
)

func ExampleLookup() {
	cfg, stop := apitest.Run(map[string]any{"/api/v1/nodes/node-7": &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-7", Labels: map[string]string{corev1.LabelTopologyZone: "europe-west1-b"}},
	}})
	defer stop()
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	name, err := zone.Lookup(ctx, clients.CoreV1().RESTClient(), "node-7") // NODE_NAME, in a pod
	if err != nil {
		fmt.Println("going on without a zone:", err)
	}
	fmt.Println(name)
	// Output: europe-west1-b
}
