// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// pod returns the options with which the examples run outside of a pod. In a pod, the zero
// Options are enough.
func pod() (o operator.Options, stop func()) {
	cfg, stop := apitest.Run()
	return operator.Options{
		Config: cfg, Namespace: "default", NoEvents: true,
		Self: operator.SelfOptions{PodName: "my-operator-1", PodUID: "p1", Zone: "zone-a", Identity: "my-operator-1_p1_3f9a"},
	}, stop
}

func ExampleRun() {
	o, end := pod()
	defer end()
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, in a program
	defer stop()
	err := operator.Run(ctx, "my-operator", func(ctx context.Context, term election.Term) error {
		fmt.Println(term.Holder, "leads by", term.Lock)
		stop()
		<-ctx.Done() // the work goes here
		return nil   // and now the next candidate leads
	}, o)
	fmt.Println(err)
	// Output:
	// my-operator-1_p1_3f9a leads by Lease default/my-operator
	// <nil>
}

// A program with a lock for each of its tenants.
func ExampleNewGroup() {
	o, end := pod()
	defer end()
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, in a program
	defer stop()
	all, err := operator.NewGroup(ctx, "my-operator", o)
	if err != nil {
		panic(err)
	}
	tenants := []string{"blue", "green", "red"}
	leading := make(chan string)
	var running sync.WaitGroup
	for _, tenant := range tenants {
		running.Go(func() {
			err := all.Run(ctx, "my-operator-"+tenant, func(ctx context.Context, _ election.Term) error {
				leading <- tenant
				<-ctx.Done() // the work for that tenant goes here
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	for range tenants {
		fmt.Println("leading for", <-leading)
	}
	stop()
	running.Wait()
	// Unordered output:
	// leading for blue
	// leading for green
	// leading for red
}

// For a program that called leader.Become of operator-sdk. LEADER_ELECT_MODE=auto
// in its environment makes it wait for pods of the old version.
func ExampleBecome() {
	ctx := context.Background() // signal.NotifyContext, in a program
	leading, done, err := operator.Become(ctx, "my-operator-lock")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	term, _ := election.TermFromContext(leading)
	fmt.Println("leading with token", term.Token)
	<-leading.Done() // the work goes here
	done()
}

func ExampleOptions_AddFlags() {
	var o operator.Options
	flags := pflag.NewFlagSet("my-operator", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=20s"}); err != nil {
		panic(err)
	}
	t := o.Timing.WithDefaults()
	fmt.Println(t.LeaseDuration, t.RenewDeadline, t.RenewInterval)
	// Output: 30s 20s 2s
}

// A leader that cannot reach its queue makes room for a replica that can, and a kubelet
// restarts a process that is stuck.
func ExampleElection_LivenessHandler() {
	o, end := pod()
	defer end()
	o.Health.Check = func(context.Context) error { return nil } // ask the queue, in a program
	e, err := operator.New(context.Background(), "my-operator", o)
	if err != nil {
		panic(err)
	}
	probes := httptest.NewServer(e.LivenessHandler()) // http.Handle("/livez", e.LivenessHandler()), in a program
	defer probes.Close()
	err = e.Run(context.Background(), func(context.Context, election.Term) error {
		answer, err := http.Get(probes.URL)
		if err == nil {
			fmt.Println(answer.Status)
			err = answer.Body.Close()
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// 200 OK
	// <nil>
}

// A client for the work that writes only while this process leads.
func ExampleGuardConfig() {
	o, end := pod()
	defer end()
	e, err := operator.New(context.Background(), "my-operator", o)
	if err != nil {
		panic(err)
	}
	cfg, err := operator.GuardConfig(o.Config, e.Term)
	if err != nil {
		panic(err)
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		panic(err)
	}
	write := func(ctx context.Context) error {
		result := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "result"}}
		_, err := clients.CoreV1().ConfigMaps("default").Create(ctx, result, metav1.CreateOptions{})
		return err
	}
	err = write(context.Background())
	fmt.Println("before it leads:", errors.Is(err, election.ErrUntrusted))
	err = e.Run(context.Background(), func(ctx context.Context, _ election.Term) error { return write(ctx) })
	fmt.Println("while it leads:", err)
	// Output:
	// before it leads: true
	// while it leads: <nil>
}
