// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package presence keeps the presence objects of candidates: one small Lease for each
// candidate. The candidate's pod owns it, so that it is deleted with the pod. It is written
// at the start and on change, and never renewed.
//
// It needs the verbs get, create and update on leases and, unless the server tells by the token
// which pod this is, get on pods in the lock's namespace. A reader of all presences needs list, or
// list and watch.
package presence

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// Object is one candidate's presence. Texts that are not known are empty.
type Object struct {
	Lock string // the name of the lock's Lease
	Pod  Pod    // required

	Identity string
	Zone     string
	Node     string
	Version  string // of the program
	Mode     string
	Waiting  string // what the candidate waits for, in words
	// Unhealthy is why it should not lead, in words; empty if it is healthy.
	Unhealthy string
	// TakeoverDelay is how it finds its takeover delay, as ByZones writes it; empty if unknown.
	TakeoverDelay string

	// Name, UID and resourceVersion of the presence's own Lease, set by Ensure
	// and List.
	Name   string
	UID    types.UID
	Number uint64
	// Created is when the server made the presence, in seconds since 1970. Only List, Among and
	// a Roster set it.
	Created int64
}

// attempts bounds how often Ensure starts again because another client wrote the same object
// meanwhile.
const attempts = 3

// Ensure makes the presence say what o says, and returns it with its name and UID. It creates
// the presence, updates it where it differs, or writes nothing if it is as it should be.
// Additions by others are kept. labels are set on it too, but not in the place of its own.
//
// A Lease of that name that does not belong to this very pod, by UID, is left alone: that is
// an error. client must be one for coordination.k8s.io/v1.
//
// Before it creates the presence it calls confirm, which says whether the API server knows the
// pod, see [Pod.Confirm]. If confirm fails, Ensure creates nothing and returns that error.
func Ensure(ctx context.Context, client rest.Interface, namespace string, o Object, labels map[string]string, confirm func(context.Context) error) (Object, error) {
	o.Name = nameOf(o.Lock, o.Pod)
	name := apierror.Object{Resource: apierror.Leases, Namespace: namespace, Name: o.Name}
	if err := errors.Join(rawapi.Check(client, name), o.check()); err != nil {
		return Object{}, fmt.Errorf("presence of pod %s at lock %q: %w", o.Pod.Name, o.Lock, err)
	}
	object := rawapi.New[coordinationv1.Lease](client, name)
	var lease *coordinationv1.Lease
	err := locks.ErrConflict
	for i := 0; i < attempts && errors.Is(err, locks.ErrConflict); i++ {
		lease, err = ensure(ctx, object, o, labels, confirm)
	}
	if err != nil {
		return Object{}, fmt.Errorf("presence of pod %s: %w", o.Pod.Name, err)
	}
	o.UID, o.Number = lease.UID, record.Number(lease.ResourceVersion)
	return o, nil
}

func (o Object) check() error {
	if o.Lock == "" || o.Pod.Name == "" || o.Pod.UID == "" {
		return errors.New("a presence needs a lock, and a pod with its name and its UID")
	}
	return nil
}

func ensure(ctx context.Context, object rawapi.Object[coordinationv1.Lease, *coordinationv1.Lease], o Object, labels map[string]string, confirm func(context.Context) error) (*coordinationv1.Lease, error) {
	lease, err := object.Get(ctx)
	if object.Name().Absent(err) {
		if err := confirm(ctx); err != nil {
			return nil, err
		}
		lease = &coordinationv1.Lease{}
		record.SetLabels(lease, labels)
		return object.Create(ctx, o.written(lease))
	}
	if err != nil {
		return nil, err
	}
	if owner := podOf(lease); owner.UID != o.Pod.UID {
		return nil, fmt.Errorf("%s stands in its place and belongs to %s, not to this pod (%s): remove it", object.Name(), owner.orNobody(), o.Pod.UID)
	}
	labeled := lease.DeepCopy()
	record.SetLabels(labeled, labels)
	wanted := o.written(labeled)
	if equality.Semantic.DeepEqual(wanted, lease) {
		return lease, nil
	}
	return object.Update(ctx, wanted)
}

func (p Pod) orNobody() string {
	if p.UID == "" {
		return "no pod, or several"
	}
	return fmt.Sprintf("pod %s (%s)", p.Name, p.UID)
}

// List returns the presences of a lock, by name, with one linearizable request. It leaves out
// objects that do not belong to exactly one pod, or do not have the name that Ensure gives
// that pod's presence.
func List(ctx context.Context, client rest.Interface, namespace, lock string) ([]Object, error) {
	var all []Object
	q := rawapi.Query{Resource: apierror.Leases, Namespace: namespace, Selector: selector(lock)}
	_, err := rawapi.ListEach(ctx, client, q, func() { all = nil }, func(e rawapi.Event[*coordinationv1.Lease]) {
		all = append(all, Among([]coordinationv1.Lease{*e.Object}, lock)...)
	})
	if err != nil {
		return nil, fmt.Errorf("presences at lock %s: %w", lock, err)
	}
	return all, nil
}

// Among returns the presences of a lock that are among leases, which are of its namespace, in
// their order. It leaves out what List leaves out.
func Among(leases []coordinationv1.Lease, lock string) []Object {
	var all []Object
	for i := range leases {
		if leases[i].Labels[Label] != labelOf(lock) {
			continue
		}
		if o := read(&leases[i], lock); o.Pod.UID != "" && o.Name == nameOf(lock, o.Pod) {
			all = append(all, o)
		}
	}
	return all
}
