// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/events"
)

// A leader-for-life's waits, which are the same in all versions.
const (
	backoffFirst     = time.Second
	backoffDoublings = 4   // up to 16s, and so on
	backoffJitter    = 0.2 // added at most, as a share
)

// containerRestart is how long the program stays away after an error that makes
// the real ones exit. The kubelet starts those again.
const containerRestart = time.Second

// ForLife becomes leader once, by a ConfigMap that its pod owns, and never
// looks at that again.
type ForLife struct {
	Client          kubernetes.Interface
	Variant         Variant
	Namespace, Lock string
	PodName         string
	PodUID          types.UID // looked up if empty
	Print           func(events.Event)

	told string // the owner that was printed last
}

// Run starts over after each error until it leads, and then works until ctx ends.
// It leaves the lock in place; the lock is deleted with the pod.
func (f *ForLife) Run(ctx context.Context, work Work) {
	for {
		f.Print(events.Event{Event: "started"})
		token, err := f.become(ctx)
		if err == nil {
			work(ctx, token)
			return
		}
		if ctx.Err() != nil {
			return
		}
		f.Print(events.Event{Event: "error", Error: err.Error()})
		if sleep.For(ctx, containerRestart) != nil {
			return
		}
	}
}

// become returns the token when the pod leads. On an error it forgets all that it knows,
// as a process that exits does.
func (f *ForLife) become(ctx context.Context) (uint64, error) {
	f.told = ""
	uid, err := f.whoAmI(ctx)
	if err != nil {
		return 0, err
	}
	lock, err := f.read(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err == nil && ours(lock, f.PodName) {
		return version(lock), nil
	}
	pause := wait.Backoff{Duration: backoffFirst, Factor: 2, Steps: backoffDoublings, Jitter: backoffJitter}
	for {
		created, err := f.create(ctx, uid)
		if err == nil {
			return version(created), nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return 0, err
		}
		if f.Variant != Stale {
			if lock, err = f.read(ctx); err != nil {
				continue // without a pause, like the real ones
			}
		}
		if err := f.treat(ctx, lock); err != nil {
			return 0, err
		}
		if err := sleep.For(ctx, pause.Step()); err != nil {
			return 0, err
		}
	}
}

// whoAmI returns the UID of the pod with this pod's name.
func (f *ForLife) whoAmI(ctx context.Context) (types.UID, error) {
	if f.PodUID != "" {
		return f.PodUID, nil
	}
	pod, err := f.Client.CoreV1().Pods(f.Namespace).Get(ctx, f.PodName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("look this pod up: %w", err)
	}
	return pod.UID, nil
}

func (f *ForLife) read(ctx context.Context) (*corev1.ConfigMap, error) {
	lock, err := f.Client.CoreV1().ConfigMaps(f.Namespace).Get(ctx, f.Lock, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	return lock, nil
}

func (f *ForLife) create(ctx context.Context, uid types.UID) (*corev1.ConfigMap, error) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: f.PodName, UID: uid}
	created, err := f.Client.CoreV1().ConfigMaps(f.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: f.Lock, OwnerReferences: []metav1.OwnerReference{owner}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create the lock: %w", err)
	}
	return created, nil
}

// treat judges the lock's owner and carries out the verdict. It returns the
// errors that make the real program exit. The lock is nil if there was none to
// judge.
func (f *ForLife) treat(ctx context.Context, lock *corev1.ConfigMap) error {
	f.tell(lock)
	pod, node, err := f.look(ctx, lock)
	if err != nil {
		return err
	}
	// By bare name only: it deletes whatever has the name by then.
	deletePod := func() error {
		return f.Client.CoreV1().Pods(f.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	}
	deleteLock := func() error {
		return f.Client.CoreV1().ConfigMaps(f.Namespace).Delete(ctx, f.Lock, metav1.DeleteOptions{})
	}
	switch judge(f.Variant, lock, pod, node) {
	case justPod:
		f.warn(deletePod())
	case podThenLock:
		// That another one deleted it first is an error too, and ends the
		// program.
		if err := deletePod(); err != nil {
			return fmt.Errorf("delete the leader's pod: %w", err)
		}
		if err := deleteLock(); err != nil {
			return fmt.Errorf("delete the lock: %w", err)
		}
	case lockThenPod:
		f.warn(deleteLock())
		f.warn(deletePod())
	}
	return nil
}

// look reads what the lock is judged by. A node that cannot be read is nil, and
// counts as Ready.
func (f *ForLife) look(ctx context.Context, lock *corev1.ConfigMap) (*corev1.Pod, *corev1.Node, error) {
	name := ownerPod(lock)
	if name == "" {
		return nil, nil, nil
	}
	pod, err := f.Client.CoreV1().Pods(f.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the leader's pod: %w", err)
	}
	if f.Variant != NotReady {
		return pod, nil, nil
	}
	node, err := f.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return pod, nil, nil // as the real one treats it
	}
	return pod, node, nil
}

// tell prints the owner that the program waits for, when that has changed.
func (f *ForLife) tell(lock *corev1.ConfigMap) {
	if lock == nil {
		return
	}
	var owners []string
	for _, owner := range lock.OwnerReferences {
		owners = append(owners, owner.Name)
	}
	now := strings.Join(owners, ",")
	if now != "" && now != f.told {
		f.Print(events.Event{Event: "following", Leader: now})
	}
	f.told = now
}

// warn prints an error that the real program only logs.
func (f *ForLife) warn(err error) {
	if err != nil {
		f.Print(events.Event{Event: "error", Error: err.Error()})
	}
}

// version returns the resourceVersion as a number.
func version(object metav1.Object) uint64 {
	n, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64) // zero in tests
	return n
}
