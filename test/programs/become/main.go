// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command become is an operator that is elected by operator-lib's own leader.Become, as operators of
// operator-sdk are. It prints the same lines as the candidate program.
//
// Become reads its namespace from a file at a fixed path. The program makes that file in a mount
// namespace of its own, for which it needs Linux and root.
//
// It is a module of its own, outside the workspace, because nothing else here may depend on
// controller-runtime of that age. The package test/kit/testbed builds it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/stdr"
	"github.com/operator-framework/operator-lib/leader"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	// controller-runtime makes the flag kubeconfig.
	namespace := flag.String("namespace", "default", "namespace of lock and pod")
	lock := flag.String("lock", "", "name of the ConfigMap")
	identity := flag.String("identity", "", "identity of the candidate")
	pod := flag.String("pod-name", "", "name of the pod")
	flag.Parse()
	logf.SetLogger(stdr.New(log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)))
	show := func(event string) {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"time": time.Now(), "identity": *identity, "lock": *lock, "event": event})
	}
	if err := pretend(*namespace, *pod); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	show("started")
	if err := leader.Become(ctx, *lock); err != nil {
		log.Fatal(err)
	}
	show("leading")
	<-ctx.Done()
	show("stopping")
	show("stopped")
}

// pretend makes this thread find the files of a pod. The goroutine stays on it.
func pretend(namespace, pod string) error {
	runtime.LockOSThread()
	const file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	return errors.Join(
		os.Setenv("POD_NAME", pod),
		syscall.Unshare(syscall.CLONE_NEWNS),
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("tmpfs", "/var/run", "tmpfs", 0, ""),
		os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(file, []byte(namespace), 0o600),
	)
}
