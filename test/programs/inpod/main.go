// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command inpod runs a program as if it were in a pod: it makes the pod's
// object, which nothing but this program is behind, gives the program the
// environment that the downward API would, and deletes the object when the
// program has ended.
//
//	inpod my-operator-1 go run ./examples/migration/after
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: inpod POD COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2:])
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		os.Exit(ended.ExitCode()) // the program has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inpod:", err)
		os.Exit(1)
	}
}

func run(name string, command []string) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	pods := clients.CoreV1().Pods(namespace)
	pod, err := pods.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "my-operator"}},
		Spec:       corev1.PodSpec{NodeName: "node-za", Containers: []corev1.Container{{Name: "manager", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make the pod: %w", err)
	}
	// Ctrl-C reaches the command by itself, like all programs in the terminal's foreground.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "POD_NAME="+pod.Name, "POD_UID="+string(pod.UID), "POD_NAMESPACE="+pod.Namespace,
		"NODE_NAME="+pod.Spec.NodeName)
	ran := cmd.Run()
	// At once, as a kubelet does when the containers have stopped.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return errors.Join(ran, fmt.Errorf("remove the pod: %w", err))
	}
	return ran
}
