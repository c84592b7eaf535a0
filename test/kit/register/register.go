// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package register is the ConfigMap that the leader of the test programs keeps
// writing. The leader writes it blindly, so that two leaders at a time show.
package register

import (
	"cmp"
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
)

// Interval is how often a leader writes the register, unless told otherwise.
const Interval = 100 * time.Millisecond

// requestTimeout bounds one write.
const requestTimeout = time.Second

// Pace is how a register is written. The zero value is a write each Interval.
type Pace struct {
	Interval time.Duration
	// Deaf is how many writes the work makes before it checks its context
	// again, like work that was not written to be stopped. Below two the
	// context ends it at any time.
	Deaf int
}

// Register is one ConfigMap, or none. It is safe for concurrent use.
type Register struct {
	maps typedcorev1.ConfigMapInterface
	name string
	pace Pace
}

// New returns the register of that name, which has connections of its own. With
// an empty name nothing is written.
func New(cfg *rest.Config, namespace, name string, pace Pace) (*Register, error) {
	pace.Interval = cmp.Or(pace.Interval, Interval)
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout, cfg.QPS = requestTimeout, -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for the register: %w", err)
	}
	return &Register{maps: client.CoreV1().ConfigMaps(namespace), name: name, pace: pace}, nil
}

// Write is one write of a term.
type Write struct {
	Sequence int       // starts at 1
	Sent     time.Time // when it began
	Version  string    // the resourceVersion in the API server's answer
	Err      error     // the error; the write may have landed all the same
	Over     bool      // ctx had ended when the write did
}

// Keep writes the register until ctx ends: the term's token, its holder, and
// the number of the write. It calls tell for each write.
func (r *Register) Keep(ctx context.Context, token uint64, identity string, tell func(Write)) {
	if r.name == "" {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(r.pace.Interval)
	defer tick.Stop()
	writing, deaf := ctx, max(r.pace.Deaf, 1)
	if deaf > 1 {
		writing = context.WithoutCancel(ctx)
	}
	for sequence := 1; ; sequence++ {
		w := Write{Sequence: sequence, Sent: time.Now()}
		w.Version, w.Err = r.write(writing, token, identity, sequence)
		w.Over = writing.Err() != nil
		tell(w)
		if sequence%deaf != 0 {
			<-tick.C
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Register) write(ctx context.Context, token uint64, identity string, sequence int) (version string, err error) {
	data := map[string]string{"token": fmt.Sprint(token), "identity": identity, "sequence": fmt.Sprint(sequence)}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return "", fmt.Errorf("write the register: %w", err)
	}
	written, err := r.maps.Patch(ctx, r.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		written, err = r.maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.name}, Data: data}, metav1.CreateOptions{})
	}
	if err != nil {
		return "", err
	}
	return written.ResourceVersion, nil
}
