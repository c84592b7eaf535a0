// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// A candidate runs beside pods that lead for life by a ConfigMap. It waits until none of
// them is left, and then keeps new ones waiting. Package operator does this in ModeAuto, with
// better connections.
func Example_shield() {
	self := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "my-operator-1", Namespace: "default", UID: "p1", Labels: map[string]string{"app": "my-operator"},
	}}
	cfg, stop := apitest.Run(map[string]any{"/api/v1/namespaces/default/pods/my-operator-1": self})
	defer stop()
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		panic(err)
	}
	lock, err := shield.New(shield.Config{
		Config: multilock.Config{
			Lease:     lease.Config{Client: clients.CoordinationV1().RESTClient(), Namespace: "default", Name: "my-operator-lock"},
			Core:      clients.CoreV1().RESTClient(),
			Candidate: locks.Candidate{Identity: "my-operator-1_3f9a", Pod: locks.Pod{Name: self.Name, UID: string(self.UID)}},
			Pod:       ownerref.Owner{Name: self.Name, UID: self.UID},
			Timing:    election.Timing{}.WithDefaults(),
		},
		PodSelector: "app=my-operator",
	})
	if err != nil {
		panic(err)
	}
	elector, err := election.New(election.Config{Lock: lock, Candidate: locks.Candidate{Identity: "my-operator-1_3f9a"}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = elector.Run(ctx, func(ctx context.Context, _ election.Term) error {
		cm, err := clients.CoreV1().ConfigMaps("default").Get(ctx, "my-operator-lock", metav1.GetOptions{})
		if err != nil {
			return err
		}
		r := ownerref.Recognize(cm)
		fmt.Println("leading behind a", r.Kind, "that is armed:", r.Armed)
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading behind a shield that is armed: true
	// <nil>
}
