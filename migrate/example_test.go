// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/migrate"
)

// One step forward, if it is safe. Then wait until the candidates have followed.
func ExampleMigration_Advance() {
	var clients kubernetes.Interface // see kubernetes.NewForConfig
	ctx := context.Background()
	m, err := migrate.New(migrate.Config{
		Core:         clients.CoreV1().RESTClient(),
		Coordination: clients.CoordinationV1().RESTClient(),
		Apps:         clients.AppsV1().RESTClient(),
		Namespace:    "default", Lock: "my-operator-lock", Selector: "app=my-operator",
	})
	if err != nil {
		panic(err)
	}
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
