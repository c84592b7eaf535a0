// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// annotationKey is the annotation that holds the record.
const annotationKey = "control-plane.alpha.kubernetes.io/leader"

// record is the annotation's JSON as client-go wrote it while it had these
// locks. Today's type has two more fields, which it would write too.
type record struct {
	HolderIdentity       string      `json:"holderIdentity"`
	LeaseDurationSeconds int         `json:"leaseDurationSeconds"`
	AcquireTime          metav1.Time `json:"acquireTime"` // whole seconds
	RenewTime            metav1.Time `json:"renewTime"`
	LeaderTransitions    int         `json:"leaderTransitions"`
}

// objects is a client for one kind of object.
type objects[T metav1.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
}

// annotationLock is the lock on the annotation of one object. Like the original
// that it replaces, it keeps the object that it read or wrote last, and is not
// for concurrent use.
type annotationLock[T metav1.Object] struct {
	objects        objects[T]
	name, identity string
	empty          func() T

	last T
}

// Get reads the record; an object without one reads as an empty record.
func (l *annotationLock[T]) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var err error
	if l.last, err = l.objects.Get(ctx, l.name, metav1.GetOptions{}); err != nil {
		return nil, nil, err
	}
	text, found := l.last.GetAnnotations()[annotationKey]
	if !found {
		return &resourcelock.LeaderElectionRecord{}, nil, nil
	}
	r := &resourcelock.LeaderElectionRecord{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, nil, fmt.Errorf("read the annotation %s: %w", annotationKey, err)
	}
	return r, []byte(text), nil
}

// Create makes the object.
func (l *annotationLock[T]) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	object := l.empty()
	object.SetName(l.name)
	err := annotate(object, r)
	if err == nil {
		l.last, err = l.objects.Create(ctx, object, metav1.CreateOptions{})
	}
	return err
}

// Update writes the record into the object that was read or written last; it
// fails with a conflict if that object has changed, and always if the last read failed.
func (l *annotationLock[T]) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := annotate(l.last, r); err != nil {
		return err
	}
	object, err := l.objects.Update(ctx, l.last, metav1.UpdateOptions{})
	if err == nil {
		l.last = object
	}
	return err
}

// RecordEvent does nothing: no Events are posted.
func (l *annotationLock[T]) RecordEvent(string) {}

// Identity returns the candidate's identity.
func (l *annotationLock[T]) Identity() string { return l.identity }

// Describe returns the object's name.
func (l *annotationLock[T]) Describe() string { return l.name }

// token returns the version of the object that was read or written last.
func (l *annotationLock[T]) token() uint64 { return version(l.last) }

func annotate(object metav1.Object, r resourcelock.LeaderElectionRecord) error {
	text, err := json.Marshal(record{
		HolderIdentity: r.HolderIdentity, LeaseDurationSeconds: r.LeaseDurationSeconds,
		AcquireTime: r.AcquireTime, RenewTime: r.RenewTime, LeaderTransitions: r.LeaderTransitions,
	})
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationKey] = string(text)
	object.SetAnnotations(annotations)
	return nil
}

// Lock is one candidate's access to a lock.
type Lock struct {
	resourcelock.Interface
	token func() uint64 // the version that was read or written last
}

// NewLock returns the lock of a kind. The MultiLocks hold the legacy object
// first and a Lease of the same name second.
func NewLock(client kubernetes.Interface, k Kind, namespace, name, identity string) (Lock, error) {
	var legacy Lock
	switch k {
	case ConfigMap, MultiConfigMap:
		l := &annotationLock[*corev1.ConfigMap]{
			objects: client.CoreV1().ConfigMaps(namespace), name: name, identity: identity,
			empty: func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		}
		legacy = Lock{l, l.token}
	case Endpoints, MultiEndpoints:
		//nolint:staticcheck // deprecated, and still where old operators have their lock
		l := &annotationLock[*corev1.Endpoints]{
			objects: client.CoreV1().Endpoints(namespace), name: name, identity: identity,
			empty: func() *corev1.Endpoints { return &corev1.Endpoints{} },
		}
		legacy = Lock{l, l.token}
	default:
		return Lock{}, fmt.Errorf("%s is not a kind of lock that keeps a record", k)
	}
	if k == ConfigMap || k == Endpoints {
		return legacy, nil
	}
	//nolint:staticcheck // deprecated, and unchanged since it was in use
	return Lock{&resourcelock.MultiLock{
		Primary: legacy.Interface,
		Secondary: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
	}, legacy.token}, nil
}
