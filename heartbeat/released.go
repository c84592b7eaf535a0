// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// The annotation of released locks is on a heartbeat's Lease: an epoch, and the locks that its process
// has released by this note, each with the version of its Lease and the time (L8).

// mostNoted is how long the note may be, in bytes. All annotations of an object may have 256
// KiB together.
const mostNoted = 96 << 10

// errNotNoted says that a note cannot release the lock now.
var errNotNoted = errors.New("the heartbeat's Lease cannot note a release now")

// noted is one release in a note.
type noted struct {
	name    string
	version uint64 // of the lock's Lease
	at      time.Time
}

func (n noted) String() string {
	return n.name + "@" + strconv.FormatUint(n.version, 10) + "@" + strconv.FormatInt(n.at.UnixMicro(), 10)
}

// releasedAt reports whether a heartbeat's Lease notes that a lock of that epoch was released
// at that version of its own Lease, and when. The note may be long, and is asked for each of
// the locks at each heartbeat: it is sorted by name.
func releasedAt(heart *coordinationv1.Lease, e epoch, name string, version uint64) (time.Time, bool) {
	of, list, _ := strings.Cut(heart.Annotations[record.AnnotationReleasedLocks], " ")
	if epoch(of) != e {
		return time.Time{}, false
	}
	for list != "" {
		middle := len(list) / 2
		begin, end := strings.LastIndexByte(list[:middle], ' ')+1, len(list)
		if i := strings.IndexByte(list[middle:], ' '); i >= 0 {
			end = middle + i
		}
		is, rest, _ := strings.Cut(list[begin:end], "@")
		switch order := strings.Compare(name, is); {
		case order < 0:
			list = list[:max(0, begin-1)]
		case order > 0:
			list = list[min(len(list), end+1):]
		default:
			of, at, _ := strings.Cut(rest, "@")
			micro, err := strconv.ParseInt(at, 10, 64)
			return time.UnixMicro(micro).UTC(), err == nil && of == strconv.FormatUint(version, 10)
		}
	}
	return time.Time{}, false
}

// released is the record of a lock that a note has released, at that version of its Lease.
func released(r locks.Record, version uint64, at time.Time) locks.Record {
	r.Holder, r.LeaseDuration = "", time.Second
	r.AcquireTime, r.RenewTime = at, at
	d := &r.Details
	d.Token = cmp.Or(d.Token, version)
	d.Released, d.Handover, d.Request, d.Refused, d.Waits = d.Token, locks.Handover{}, "", "", ""
	return r
}

// releaseWithOthers releases a lock of this process's heartbeat by a note on that, together
// with others that are to be released (L8). It reports false if it has not tried: when there
// are not many others, or when the release says more than a note can.
func (l *lock) releaseWithOthers(ctx context.Context, was *state, r locks.Record) (s locks.Snapshot, tried bool, err error) {
	at := time.UnixMicro(r.RenewTime.UnixMicro()).UTC()
	if r.AcquireTime.UnixMicro() != at.UnixMicro() || !l.heart.unlike(at, false).Equal(at) || !l.writes.crowded() {
		return locks.Snapshot{}, false, nil
	}
	r.AcquireTime, r.RenewTime = at, at
	if released(record.Read(was.lease), was.number(), at) != r {
		return locks.Snapshot{}, false, nil
	}
	back := l.writes.lend() // others join the same note
	defer back()
	now, err := l.heart.release(ctx, was, noted{l.name, was.number(), at})
	if errors.Is(err, errNotNoted) {
		return locks.Snapshot{}, false, nil
	}
	if err == nil {
		s, err = now.released(was)
	}
	if err != nil {
		return locks.Snapshot{}, true, fmt.Errorf("%v: releasing it together with others: %w", l.Describe(), err)
	}
	l.heart.wrote(l.name, attachment{})
	return s, true, nil
}

// errWrittenSince says that a lock was written after a note on it had landed, most likely by a
// successor.
var errWrittenSince = errors.New("the note has landed, but the lock was written since, and perhaps before")

// released returns a lock that a note has released. The note is void if the lock was written
// before it landed.
func (l landed) released(was *state) (locks.Snapshot, error) {
	s, at := compose(was.lease, l.state()).Snapshot, l.state().Number
	now, _ := l.leases.GetSince(was.lease.Name, at)
	switch {
	case s.Record.Holder != "":
		return s, locks.ErrConflict
	case l.holds(was), l.firstWrite(was) > at:
		return s, nil
	case now.Number > at:
		return s, errWrittenSince
	}
	return s, locks.ErrConflict
}

// firstWrite is the version of the first write of a lock since was; zero if it is not known.
func (l landed) firstWrite(was *state) uint64 {
	if view, is := l.leases.(*leasewatch.View); is {
		return view.NextAfter(was.lease.Name, was.number())
	}
	return 0
}
