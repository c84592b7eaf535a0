// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/events"
)

// registerInterval is how often a leader writes the register.
const registerInterval = 100 * time.Millisecond

// work is what the leader does: it writes the register, if there is one.
type work struct {
	options
	printer *events.Printer
	maps    typedcorev1.ConfigMapInterface
}

func newWork(cfg *rest.Config, o options, identity string) (*work, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for the register: %w", err)
	}
	return &work{
		options: o,
		printer: &events.Printer{Identity: identity, Lock: o.lock},
		maps:    client.CoreV1().ConfigMaps(o.namespace),
	}, nil
}

// lead is the work of one term.
func (w *work) lead(ctx context.Context, term election.Term) error {
	w.printer.Print(events.Event{Event: "leading", Token: term.Token, Cause: string(term.Cause), Previous: term.Previous})
	w.write(ctx, term)
	w.printer.Print(events.Event{Event: "stopping", Cause: context.Cause(ctx).Error()})
	time.Sleep(w.stopDelay)
	w.printer.Print(events.Event{Event: "stopped"})
	return ctx.Err()
}

// write keeps writing the register until ctx ends.
func (w *work) write(ctx context.Context, term election.Term) {
	if w.register == "" {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(registerInterval)
	defer tick.Stop()
	for sequence := 1; ; sequence++ {
		if err := w.patch(ctx, term, sequence); err != nil && ctx.Err() == nil {
			w.printer.Print(events.Event{Event: "error", Error: err.Error()})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// patch writes blindly, so that two leaders at a time show.
func (w *work) patch(ctx context.Context, term election.Term, sequence int) error {
	data := map[string]string{"token": fmt.Sprint(term.Token), "identity": term.Holder, "sequence": fmt.Sprint(sequence)}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("write the register: %w", err)
	}
	_, err = w.maps.Patch(ctx, w.register, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.register}, Data: data}, metav1.CreateOptions{})
	}
	return err
}

// tell prints the elector's transitions that the work does not see, until the
// returned function is called, which waits for the last.
func (w *work) tell(elector *election.Elector) func() {
	ctx, cancel := context.WithCancel(context.Background())
	transitions := elector.Subscribe(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t := range transitions {
			w.print(t)
			if t.Change == election.ChangeEnded {
				return
			}
		}
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(time.Second): // Run never began
		}
		cancel()
	}
}

func (w *work) print(t election.Transition) {
	switch t.Change {
	case election.ChangeFollowing:
		if t.Status.Holder != "" && t.Status.Holder != t.Status.Identity {
			w.printer.Print(events.Event{Event: "following", Leader: t.Status.Holder, LeaderZone: t.Status.HolderZone})
		}
	case election.ChangeReleased:
		w.printer.Print(events.Event{Event: "released"})
	case election.ChangeProblem:
		w.printer.Print(events.Event{Event: "error", Error: t.Status.Problem.Error()})
	case election.ChangeOverrun:
		w.printer.Print(events.Event{Event: "error", Error: "the work did not stop in time: the lease is left to run out"})
	}
}
