// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
)

// Object is one candidate's presence. Texts that are not known are empty.
type Object struct {
	Lock string // the name of the lock's Lease
	Pod  Pod    // that owns it; none if the presence must be renewed

	Identity string // required without a Pod
	Zone     string
	Node     string
	Mode     string
	Waiting  string // what the candidate waits for, in words
	// Unhealthy is why it should not lead, in words; empty if it is healthy.
	Unhealthy string
	// Stop is its timing's StopTimeout, as time.Duration writes it.
	Stop string
	// Renewed is when it was renewed, by the candidate's wall clock, in seconds since 1970. It is zero
	// for a presence that a pod owns.
	Renewed int64

	// Name, UID and resourceVersion of the presence's own Lease, set by Ensure and List.
	Name   string
	UID    types.UID
	Number uint64
}

// StopTimeout is how long the candidate's work may take to stop; zero if it does not say.
func (o Object) StopTimeout() time.Duration {
	d, _ := time.ParseDuration(o.Stop)
	return max(0, d)
}

// Ensure makes the presence say what o says, and returns it with its name and UID. It creates
// the presence, updates it where it differs, or writes nothing if it is as it should be.
// Additions by others are kept. labels are set on it too. client must be one for coordination.k8s.io/v1.
// The error wraps locks.ErrConflict if somebody else wrote the presence meanwhile.
//
// A Lease of that name that does not belong to this very pod, by UID, is left alone: that is
// an error.
//
// Before it creates the presence of a pod it calls confirm, which says whether the API server knows the
// pod, see [Pod.Confirm]. If confirm fails, Ensure creates nothing and returns that error.
func Ensure(
	ctx context.Context, client rest.Interface, namespace string, o Object, labels map[string]string, confirm func(context.Context) error,
) (Object, error) {
	o.Name = o.name()
	object := o.object(client, namespace)
	lease, err := object.Get(ctx)
	absent := object.Name().Absent(err)
	switch {
	case absent && o.Pod != (Pod{}):
		err = confirm(ctx)
	case absent:
		err = nil
	case err == nil && !o.isOn(lease):
		err = fmt.Errorf("another object has its name, %s: remove that object", object.Name())
	}
	if err != nil {
		return Object{}, fmt.Errorf("presence of %s: %w", o.Identity, err)
	}
	if absent {
		lease = &coordinationv1.Lease{}
	}
	wanted := o.written(lease)
	record.SetLabels(wanted, labels)
	switch {
	case absent:
		lease, err = object.Create(ctx, wanted)
	case !equality.Semantic.DeepEqual(wanted, lease):
		lease, err = object.Update(ctx, wanted)
	}
	if err != nil {
		return Object{}, fmt.Errorf("presence of %s: %w", o.Identity, err)
	}
	o.UID, o.Number = lease.UID, record.Number(lease.ResourceVersion)
	return o, nil
}

// object is the presence in the API.
func (o Object) object(client rest.Interface, namespace string) rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease] {
	return rawapi.New[coordinationv1.Lease](client, apierror.Object{Resource: apierror.Leases, Namespace: namespace, Name: o.Name})
}

// isOn reports whether a Lease of its name is this very pod's presence, or that of this candidate
// without a pod.
func (o Object) isOn(lease *coordinationv1.Lease) bool {
	there := read(lease, o.Lock)
	return there.Pod.UID == o.Pod.UID && (o.Pod != (Pod{}) || there.Identity == o.Identity && len(lease.OwnerReferences) == 0)
}

// period is how often a presence without a pod is renewed, at most. It counts for so long as lasts says
// after it was renewed.
const period, lasts = time.Minute, 5 * period

// Lapsed reports whether a presence without a pod has not been renewed for so long that its candidate
// has ended, as far as two wall clocks tell: that of the candidate, and now.
func (o Object) Lapsed(now time.Time) bool {
	age := now.Sub(time.Unix(o.Renewed, 0)).Abs() // one that is renewed in the future says nothing
	return o.Pod == (Pod{}) && age > lasts
}

// List returns the presences of a lock, by name, with one linearizable request. It leaves out
// objects that neither belong to exactly one pod nor are renewed, or do not have the name that Ensure
// gives such a presence.
func List(ctx context.Context, client rest.Interface, namespace, lock string) ([]Object, error) {
	all, err := rawapi.List[coordinationv1.Lease](ctx, client, apierror.Leases, namespace, selector(lock))
	if err != nil {
		return nil, fmt.Errorf("presences at lock %s: %w", lock, err)
	}
	return Among(all, lock), nil
}

// Among returns the presences of a lock that are among leases, which are of its namespace, in
// their order. It leaves out what List leaves out.
func Among(leases []coordinationv1.Lease, lock string) []Object {
	var all []Object
	for i := range leases {
		if leases[i].Labels[Label] != labelOf(lock) {
			continue
		}
		o := read(&leases[i], lock)
		renewed := len(leases[i].OwnerReferences) == 0 && o.Identity != "" && o.Renewed != 0
		if (o.Pod.UID != "" || renewed) && o.Name == o.name() {
			all = append(all, o)
		}
	}
	return all
}
