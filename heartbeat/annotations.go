// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// never is the duration on a lock's Lease that a heartbeat keeps. A candidate that does not
// know heartbeats would otherwise take the lock, for it sees no renewals.
const never = 365 * 24 * time.Hour

// epoch names the span for which one process has held the Lease of its heartbeat without a
// break. It is never used twice: it is made of the nonce of the process and of the time of
// the acquisition. The empty epoch is none.
type epoch string

// epochOf returns the epoch of a heartbeat's Lease. One that was withdrawn is over, whoever
// put the holder's name back (L3).
func epochOf(lease *coordinationv1.Lease) epoch {
	e := epochIn(record.Read(lease))
	if note, noted := withdrawalOf(lease); noted && note.epoch == e {
		return ""
	}
	return e
}

// epochIn returns the epoch that a heartbeat's record belongs to.
func epochIn(r locks.Record) epoch {
	if r.Holder == "" || r.Details.Holder != r.Holder || r.Details.Nonce == "" {
		return ""
	}
	return epoch(r.Details.Nonce + "." + strconv.FormatInt(r.AcquireTime.UnixMicro(), 36))
}

// attachment says which heartbeat keeps a lock.
type attachment struct {
	name  string // of the heartbeat's Lease
	uid   types.UID
	epoch epoch
	lease time.Duration // how long others leave the lock alone after a heartbeat
}

func (a attachment) String() string {
	return fmt.Sprintf("%s %s %s %d", a.name, a.uid, a.epoch, a.lease/time.Second)
}

// attachmentOf returns what a lock's Lease says of its heartbeat, see [record.AttachmentOf].
func attachmentOf(lease *coordinationv1.Lease) (attachment, bool) {
	a, attached := record.AttachmentOf(lease)
	return attachment{name: a.Name, uid: types.UID(a.UID), epoch: epoch(a.Epoch), lease: a.Lasts}, attached
}

// attach returns a copy of a lock's Lease that a heartbeat keeps.
func attach(lease *coordinationv1.Lease, a attachment) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, record.AnnotationHeartbeat, a.String())
	lease.Spec.LeaseDurationSeconds = seconds(never)
	return lease
}

func seconds(d time.Duration) *int32 {
	n := int32(d / time.Second)
	return &n
}

// detach returns a copy of a lock's Lease that no heartbeat keeps. Its duration is one that
// may be written already.
func detach(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	delete(lease.Annotations, record.AnnotationHeartbeat)
	return lease
}

// withdrawal notes how an epoch ended.
type withdrawal struct {
	epoch epoch
	last  uint64    // the resourceVersion that the heartbeat's Lease had until then
	renew time.Time // of the epoch's last heartbeat; zero if it was not known any more
}

// unknown says in the annotation that renew is zero.
const unknown = "-"

func (w withdrawal) String() string {
	renew := unknown
	if !w.renew.IsZero() {
		renew = strconv.FormatInt(w.renew.UnixMicro(), 10)
	}
	return fmt.Sprintf("%s %d %s", w.epoch, w.last, renew)
}

// withdrawalOf returns the withdrawal that a heartbeat's Lease notes.
func withdrawalOf(lease *coordinationv1.Lease) (withdrawal, bool) {
	parts := strings.Split(lease.Annotations[record.AnnotationWithdrawn], " ")
	if len(parts) != 3 {
		return withdrawal{}, false
	}
	last, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil || last == 0 || last > math.MaxInt64 {
		return withdrawal{}, false
	}
	w := withdrawal{epoch: epoch(parts[0]), last: last}
	if parts[2] != unknown {
		var micro int64
		micro, err = strconv.ParseInt(parts[2], 10, 64)
		w.renew = time.UnixMicro(micro).UTC()
	}
	return w, err == nil && w.epoch != ""
}

// withdraw returns a copy of a heartbeat's Lease on which that epoch is withdrawn. Another
// epoch goes on.
func withdraw(lease *coordinationv1.Lease, e epoch) *coordinationv1.Lease {
	w := withdrawal{epoch: e, last: record.Number(lease.ResourceVersion)}
	is := epochOf(lease) == e
	if is {
		w.renew = record.Read(lease).RenewTime
	}
	lease = lease.DeepCopy()
	if is {
		lease.Spec.HolderIdentity = new(string)
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, record.AnnotationWithdrawn, w.String())
	return lease
}

// detached returns a copy of a lock's Lease that the heartbeat a kept until now.
func detached(lease *coordinationv1.Lease, a attachment, now time.Time) *coordinationv1.Lease {
	lease = detach(lease)
	lease.Spec.LeaseDurationSeconds = seconds(a.lease)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	return lease
}
