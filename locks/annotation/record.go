// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// AnnotationRecord is the annotation that holds the record.
const AnnotationRecord = "control-plane.alpha.kubernetes.io/leader"

// The annotations that hold the record's times to the microsecond.
const (
	AnnotationAcquired = "zonelect.dev/acquired"
	AnnotationRenewed  = "zonelect.dev/renewed"
)

// Errors for an object that holds something other than a record. See the package comment.
var (
	// ErrNoRecord: the annotation cannot be read.
	ErrNoRecord = errors.New("the annotation " + AnnotationRecord + " holds no record of a leader election")
	// ErrOtherLock: the object is a lock of another kind.
	ErrOtherLock = errors.New("the object is a lock of another kind")
)

// read returns the record on an object. Without the annotation it is empty except for the
// details.
func read(object metav1.Object) (locks.Record, error) {
	annotations := object.GetAnnotations()
	r := locks.Record{Details: record.ReadDetails(annotations)}
	value, found := annotations[AnnotationRecord]
	if !found {
		return r, otherLock(object)
	}
	w, err := record.ParseElected(value)
	if err != nil {
		return locks.Record{}, fmt.Errorf("%w: nobody can take the lock until it is mended; "+
			"remove the annotation if no leader is alive: %w", ErrNoRecord, err)
	}
	r.Holder = record.Identity(w.HolderIdentity)
	r.LeaseDuration = w.LeaseDuration()
	r.AcquireTime = precise(w.AcquireTime.Time, annotations[AnnotationAcquired])
	r.RenewTime = precise(w.RenewTime.Time, annotations[AnnotationRenewed])
	r.Transitions = int32(min(max(0, w.LeaderTransitions), math.MaxInt32))
	return r, nil
}

// precise returns the time in the annotation if it is within the record's second, else
// that second.
func precise(second time.Time, annotation string) time.Time {
	t, err := time.Parse(metav1.RFC3339Micro, annotation)
	if err != nil || t.Unix() != second.Unix() {
		return second
	}
	return t
}

// otherLock recognizes an object that has no record but is a lock of another kind.
func otherLock(object metav1.Object) error {
	owners := object.GetOwnerReferences()
	if len(owners) == 1 && owners[0].Kind == "Pod" {
		return fmt.Errorf("%w: it has no record but one owner, the pod %.253s, which is how a leader-for-life lock names its leader: "+
			"use the ownerref lock to move off it, or another name", ErrOtherLock, owners[0].Name)
	}
	_, shield := object.GetAnnotations()[record.AnnotationPhase]
	for _, owner := range owners {
		shield = shield || owner.Kind == "Lease"
	}
	if shield {
		return fmt.Errorf("%w: it shields a leader-for-life lock that zonelect has moved to a Lease: use the Lease of that name", ErrOtherLock)
	}
	return nil
}

// write replaces the record on an object with r, and keeps the rest. It returns an error
// if the annotations cannot hold r without loss.
func write(object metav1.Object, r locks.Record) error {
	if err := record.Check(r); err != nil {
		return err
	}
	value, err := json.Marshal(record.Elected{
		HolderIdentity:       r.Holder,
		LeaseDurationSeconds: int64(r.LeaseDuration / time.Second),
		AcquireTime:          metav1.Time{Time: r.AcquireTime},
		RenewTime:            metav1.Time{Time: r.RenewTime},
		LeaderTransitions:    int64(r.Transitions),
	})
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	annotations := record.WriteDetails(object.GetAnnotations(), r.Details)
	annotations[AnnotationRecord] = string(value)
	annotate(annotations, AnnotationAcquired, r.AcquireTime)
	annotate(annotations, AnnotationRenewed, r.RenewTime)
	object.SetAnnotations(annotations)
	return nil
}

// strip removes the record and all that belongs to it from an object, and keeps the rest.
func strip(object metav1.Object) {
	annotations := record.WriteDetails(object.GetAnnotations(), locks.Details{})
	for _, key := range []string{AnnotationRecord, AnnotationAcquired, AnnotationRenewed} {
		delete(annotations, key)
	}
	object.SetAnnotations(annotations)
}

func annotate(annotations map[string]string, key string, t time.Time) {
	if t.IsZero() {
		delete(annotations, key)
		return
	}
	annotations[key] = t.UTC().Format(metav1.RFC3339Micro)
}
