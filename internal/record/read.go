// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/locks"
)

// MaxDuration is the longest plausible lease duration. A longer one is read as it is, because
// only its writer knows when it may be taken over; but it blocks the lock for so long after a
// crash that a lock should warn of it.
const MaxDuration = time.Hour

// Snapshot returns the record in lease, at its version. The snapshot keeps the lease itself
// as its opaque version: the caller must not change it afterwards. A nil lease gives the zero
// Snapshot, which does not exist.
func Snapshot(lease *coordinationv1.Lease) locks.Snapshot {
	if lease == nil {
		return locks.Snapshot{}
	}
	return locks.Snapshot{
		Version: locks.Version{
			Number: Number(lease.ResourceVersion),
			UID:    string(lease.UID),
			Opaque: lease,
		},
		Record: Read(lease),
	}
}

// Gone returns the snapshot of a record that was deleted at the given
// resourceVersion: it does not exist, but its place in the order is known.
func Gone(resourceVersion string) locks.Snapshot {
	return locks.Snapshot{Version: locks.Version{Number: Number(resourceVersion)}}
}

// Number returns a resourceVersion as a number, which orders the versions of
// an object since Kubernetes promises that they are comparable integers. It is
// zero for anything else.
func Number(resourceVersion string) uint64 { return parseNumber(resourceVersion) }

// Read returns the record in lease. It never fails: an absent or senseless value reads as
// zero, except the two values in the package comment, which are kept as they are.
func Read(lease *coordinationv1.Lease) locks.Record {
	spec := lease.Spec
	return locks.Record{
		Holder:        Identity(value(spec.HolderIdentity)),
		LeaseDuration: time.Duration(max(0, value(spec.LeaseDurationSeconds))) * time.Second,
		AcquireTime:   value(spec.AcquireTime).Time,
		RenewTime:     value(spec.RenewTime).Time,
		Transitions:   max(0, value(spec.LeaseTransitions)),
		Details:       ReadDetails(lease.Annotations),
		Evacuated:     readText(lease.Annotations[AnnotationEvacuated]),
		Previous:      parsePrevious(lease.Annotations[AnnotationPrevious]),
	}
}

// Identity returns a holder's identity or, if that is longer than MaxText, its beginning and
// a hash. A long one may not read as none, because it holds the lock, and it goes into logs
// and traces.
func Identity(holder string) string {
	if len(holder) <= MaxText {
		return holder
	}
	sum := sha256.Sum256([]byte(holder))
	end := "..." + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(holder[:MaxText-len(end)], "") + end
}

func value[T string | int32 | metav1.MicroTime](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// LongWarning warns of a lease that blocks a lock for long after a crash, or for good, once per
// value as long as it stays the same. The zero value is ready to use, also concurrently.
type LongWarning struct {
	warned atomic.Int64 // the duration that was last warned of; -1 for a missing one
}

// See warns of r's duration if that is above [MaxDuration], or if there is none although the
// record has a holder, and it was not warned of just before.
func (w *LongWarning) See(log logr.Logger, lock locks.Description, r locks.Record) {
	d := int64(r.LeaseDuration)
	if d <= 0 && r.Holder != "" {
		d = -1
	}
	if d >= 0 && d <= int64(MaxDuration) || w.warned.Swap(d) == d {
		return
	}
	log.Info("the record says no lease duration or an unusually long one: so long nobody takes the lock after its holder has died; "+
		"if no holder is alive, set leaseDurationSeconds to 1 and renewTime to the present time by hand",
		"lock", lock.String(), "leaseDuration", r.LeaseDuration)
}
