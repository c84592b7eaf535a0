// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// An election with your own clients. operator.New makes better ones: their connections
// serve the election alone, and leave a dead server at once.
func ExampleNew() {
	cfg, stop := apitest.Run() // rest.InClusterConfig, in a pod
	defer stop()
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		panic(err)
	}
	lock, err := lease.New(lease.Config{
		Client:    clients.CoordinationV1().RESTClient(),
		Namespace: "default", Name: "my-operator",
	})
	if err != nil {
		panic(err)
	}
	elector, err := election.New(election.Config{
		Lock:      lock,
		Candidate: locks.Candidate{Identity: "my-operator-1_3f9a", Zone: "zone-a"},
	})
	if err != nil {
		panic(err)
	}
	err = elector.Run(context.Background(), func(ctx context.Context, _ election.Term) error {
		l, err := clients.CoordinationV1().Leases("default").Get(ctx, "my-operator", metav1.GetOptions{})
		if err != nil {
			return err
		}
		fmt.Println("held by", *l.Spec.HolderIdentity, "in", l.Annotations["zonelect.dev/zone"])
		return nil
	})
	fmt.Println(err)
	// Output:
	// held by my-operator-1_3f9a in zone-a
	// <nil>
}
