// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
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

// HeartbeatOf returns the name of the heartbeat's Lease that keeps a lock's Lease; empty if none
// does. Anybody may have written it.
func HeartbeatOf(lease *coordinationv1.Lease) string {
	name, _, _ := strings.Cut(lease.Annotations[AnnotationHeartbeat], " ")
	if name == lease.Name {
		return ""
	}
	return name
}

// IsHeartbeat reports whether a Lease is that of a heartbeat, which is not a lock.
func IsHeartbeat(lease *coordinationv1.Lease) bool { return lease.Labels[LabelRole] == RoleHeartbeat }

// Attachment says which heartbeat keeps a lock's Lease.
type Attachment struct {
	Name  string // of the heartbeat's Lease
	UID   string
	Epoch string
	Lasts time.Duration // how long others leave the lock alone after a heartbeat
}

// AttachmentOf returns what a lock's Lease says of its heartbeat. If it says nothing that can be
// read, no heartbeat keeps the lock.
func AttachmentOf(lease *coordinationv1.Lease) (Attachment, bool) {
	parts := strings.Split(lease.Annotations[AnnotationHeartbeat], " ")
	if len(parts) != 4 {
		return Attachment{}, false
	}
	seconds, err := strconv.ParseInt(parts[3], 10, 32)
	a := Attachment{parts[0], parts[1], parts[2], time.Duration(seconds) * time.Second}
	return a, err == nil && seconds > 0 && a.Name != "" && a.Name != lease.Name && a.UID != "" && a.Epoch != ""
}

// BarredByHeartbeat returns why a candidate without a heartbeat may not campaign for a Lease: the
// heartbeat of another process keeps it, and the candidate cannot see the renewals. why is empty if no
// heartbeat keeps the Lease, such as after a holder that has none: the annotation counts for the holder
// that zonelect.dev/holder names. lasts is how long a process may lead after the last heartbeat, also
// if somebody has emptied the record since; zero if no heartbeat is known.
func BarredByHeartbeat(lease *coordinationv1.Lease) (why string, lasts time.Duration) {
	r := Read(lease)
	a, attached := AttachmentOf(lease)
	switch {
	case !attached || r.Holder != "" && r.Details.Holder != r.Holder:
		return "", 0
	case r.Holder == "":
		return "", a.Lasts
	}
	return fmt.Sprintf("the heartbeat %.253q keeps the Lease, and this candidate has none: run all candidates of a lock with heartbeats, or all without; if no process with that heartbeat will come back, empty holderIdentity", a.Name), a.Lasts
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
	d := r.LeaseDuration
	if d <= 0 && r.Holder != "" {
		d = -1
	}
	if d >= 0 && d <= MaxDuration || w.warned.Swap(int64(d)) == int64(d) {
		return
	}
	mend := "if no holder is alive, set the " + lock.Kind + "'s leaseDurationSeconds to 1 and its renewTime to the present time by hand"
	if d < 0 {
		log.Info("the record names a holder, and not for how long: nobody takes the lock from it, because nobody knows how long it leads; "+mend,
			"lock", lock.String(), "holder", r.Holder)
		return
	}
	log.Info("the lease duration on record is unusually long: it is honored, so that if its holder dies nobody leads for that time; "+mend,
		"lock", lock.String(), "leaseDuration", d)
}
