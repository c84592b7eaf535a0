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

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
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

func ExampleOrder() {
	order := zone.Order{Preferred: []string{"zb"}}
	lost := election.Takeover{
		Cause: status.CauseExpired, Previous: "op-1", PreviousZone: "za",
		Peers: []locks.Peer{
			{Candidate: locks.Candidate{Identity: "op-1", Zone: "za"}},
			{Candidate: locks.Candidate{Identity: "op-2", Zone: "zb"}},
			{Candidate: locks.Candidate{Identity: "op-3", Zone: "zc"}},
			{Candidate: locks.Candidate{Identity: "op-4", Zone: "za"}},
		},
	}
	for _, peer := range lost.Peers[1:] {
		lost.Candidate = peer.Candidate // each candidate asks for itself
		fmt.Println(peer.Identity, "in", peer.Zone, "goes", order.TakeoverDelay(lost), "after the lease's end")
	}
	// Output:
	// op-2 in zb goes 0s after the lease's end
	// op-3 in zc goes 2s after the lease's end
	// op-4 in za goes 4s after the lease's end
}
