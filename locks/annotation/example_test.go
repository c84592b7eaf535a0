// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/annotation"
)

// Read the holder of the lock of an operator that was built with an old client-go. To
// move the lock to a Lease, see package twin of multilock.
func ExampleLock_Read() {
	cfg, stop := apitest.Run(map[string]any{"/api/v1/namespaces/default/configmaps/my-operator": &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "my-operator", UID: "c1", Annotations: map[string]string{
			annotation.AnnotationRecord: `{"holderIdentity":"my-operator-1","leaseDurationSeconds":15,` +
				`"acquireTime":"2020-01-01T00:00:00Z","renewTime":"2020-01-01T00:10:00Z","leaderTransitions":2}`,
		}},
	}})
	defer stop()
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		panic(err)
	}
	lock, err := annotation.New(annotation.Config{
		Client: clients.CoreV1().RESTClient(), Kind: annotation.ConfigMaps,
		Namespace: "default", Name: "my-operator",
	})
	if err != nil {
		panic(err)
	}
	s, err := lock.Read(context.Background())
	fmt.Println(s.Record.Holder, s.Record.LeaseDuration, s.Record.Transitions, err)
	// Output: my-operator-1 15s 2 <nil>
}
