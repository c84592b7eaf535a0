// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/migrate"
)

func migration(cfg *rest.Config) *migrate.Migration {
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		panic(err)
	}
	m, err := migrate.New(migrate.Config{
		Core:         clients.CoreV1().RESTClient(),
		Coordination: clients.CoordinationV1().RESTClient(),
		Apps:         clients.AppsV1().RESTClient(),
		Namespace:    "default", Lock: "my-operator-lock", Selector: "app=my-operator",
	})
	if err != nil {
		panic(err)
	}
	return m
}

// Before the first pod of the new version exists.
func ExampleMigration_Inspect() {
	cfg, stop := apitest.Run(map[string]any{
		"/api/v1/namespaces/default/pods/my-operator-1": &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "my-operator-1", Namespace: "default", UID: "p1", Labels: map[string]string{"app": "my-operator"},
		}},
		"/api/v1/namespaces/default/configmaps/my-operator-lock": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "my-operator-lock", Namespace: "default", UID: "c1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "my-operator-1", UID: "p1"}},
		}},
	})
	defer stop()
	report, err := migration(cfg).Inspect(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println("the ConfigMap is", report.ConfigMap.Kind, "and owned by", report.ConfigMap.Owner)
	for _, pod := range report.LegacyPods {
		fmt.Println(pod.Pod, "may lead:", pod.Why)
	}
	// Output:
	// the ConfigMap is legacy and owned by my-operator-1/p1
	// my-operator-1 may lead: it is not scheduled yet and will start
}

// One step forward, if it is safe. Then wait until the candidates have followed.
func ExampleMigration_Advance() {
	var m *migrate.Migration // see New
	ctx := context.Background()
	out, err := m.Advance(ctx, migrate.Options{})
	var refused *migrate.RefusedError
	if errors.As(err, &refused) {
		for _, check := range refused.Failed {
			fmt.Println(check.Name, check.Detail, check.ToDo)
		}
		return
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("from", out.From, "to", out.To)
	if _, err := m.Await(ctx, func(why []string) { fmt.Println("waiting for", why) }); err != nil {
		panic(err)
	}
}
