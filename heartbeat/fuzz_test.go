// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
)

// FuzzReleasedLocks reads any note of releases (L8). A lock is released only by a note that says so
// of that lock, that version and that epoch. A note that this package writes says it of each lock in
// it, and of no other.
func FuzzReleasedLocks(f *testing.F) {
	f.Add("n.0 a@7@1 b@8@2 c@9@3", "n.0", "b", uint64(8), int64(2))
	f.Add("n.0 b@8@2 a@7@1", "n.0", "a", uint64(7), int64(-1))
	f.Add("n.0  a@7@1 a@8@1 ", "n.1", "a.b", uint64(0), int64(1)<<62)
	f.Add("n.0", "n.0", "a", uint64(1)<<63, int64(0))
	f.Fuzz(func(t *testing.T, note, of, name string, version uint64, micro int64) {
		if of == "" || name == "" || strings.ContainsAny(of, " ") || strings.ContainsAny(name, " @") {
			t.Skip("no epoch, or no name of a Lease")
		}
		heart := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{record.AnnotationReleasedLocks: note}}}
		if at, is := releasedAt(heart, epoch(of), name, version); is {
			said := name + "@" + strconv.FormatUint(version, 10) + "@"
			if parts := strings.Split(note, " "); parts[0] != of || !slices.ContainsFunc(parts[1:], func(part string) bool { return strings.HasPrefix(part, said) }) {
				t.Errorf("%q is read as %s of %s at version %d, at %v", note, of, name, version, at)
			}
		}

		all := map[string]noted{name: {name, version, time.UnixMicro(micro).UTC()}}
		for i, part := range strings.FieldsFunc(note, func(r rune) bool { return r == ' ' || r == '@' }) {
			all[part] = noted{part, uint64(i), time.UnixMicro(int64(i)).UTC()}
		}
		var names, texts []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			texts = append(texts, all[name].String())
		}
		heart.Annotations[record.AnnotationReleasedLocks] = of + " " + strings.Join(texts, " ")
		for _, n := range all {
			if at, is := releasedAt(heart, epoch(of), n.name, n.version); !is || !at.Equal(n.at) {
				t.Errorf("%q is not read as the release of %+v: %v, %v", heart.Annotations[record.AnnotationReleasedLocks], n, at, is)
			}
			if _, is := releasedAt(heart, epoch(of), n.name, n.version+1); is {
				t.Errorf("%+v is released at another version", n)
			}
			if _, is := releasedAt(heart, epoch(of)+"x", n.name, n.version); is {
				t.Errorf("%+v is released in another epoch", n)
			}
		}
	})
}

// FuzzWithdrawal withdraws the epoch of any heartbeat's Lease that keeps any lock's. The epoch is
// over then, and nobody's wait starts again: the lock was renewed last when the last heartbeat was
// (L3). What was noted reads the same after it was written.
func FuzzWithdrawal(f *testing.F) {
	const (
		lock  = `{"metadata":{"name":"l","resourceVersion":"7","annotations":{"zonelect.dev/heartbeat":"h u n.0 15"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":31536000,"renewTime":"2000-01-01T00:00:00.000000Z"}}`
		heart = `{"metadata":{"name":"h","uid":"u","resourceVersion":"9","annotations":{"zonelect.dev/holder":"a","zonelect.dev/nonce":"n"}},"spec":{"holderIdentity":"a","acquireTime":"1970-01-01T00:00:00.000000Z","renewTime":"2000-01-01T00:00:01.000000Z"}}`
		ended = `{"metadata":{"name":"h","uid":"u","resourceVersion":"9","annotations":{"zonelect.dev/holder":"a","zonelect.dev/nonce":"n","zonelect.dev/withdrawn-epoch":"m.0 8 946684801000000"}},"spec":{"holderIdentity":"a","acquireTime":"1970-01-01T00:00:00.000000Z"}}`
	)
	f.Add([]byte(lock), []byte(heart))
	f.Add([]byte(lock), []byte(ended))
	f.Add([]byte(strings.Replace(lock, `"7"`, `"8"`, 1)), []byte(strings.Replace(heart, "2000-01-01T00:00:01", "1999-12-31T23:59:59", 1)))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		lock, heart := &coordinationv1.Lease{}, &coordinationv1.Lease{}
		if json.Unmarshal(a, lock) != nil || json.Unmarshal(b, heart) != nil {
			t.Skip("no Leases")
		}
		if kept, attached := attachmentOf(lock); attached {
			if again, is := attachmentOf(attach(lock, kept)); !is || again != kept || kept.lease <= 0 || kept.name == lock.Name {
				t.Errorf("read %+v, then %+v", kept, again)
			}
		}
		if note, noted := withdrawalOf(heart); noted {
			again := heart.DeepCopy()
			again.Annotations[record.AnnotationWithdrawn] = note.String()
			if read, is := withdrawalOf(again); !is || read != note {
				t.Errorf("read %+v, then %+v", note, read)
			}
		}
		own, number := record.Number(lock.ResourceVersion), record.Number(heart.ResourceVersion)
		before := compose(lock, leasewatch.State{Lease: heart, Number: number})
		st := stateOf(before.Version)
		if own == 0 || number == 0 || own == number || !before.Kept || before.void != "" || !st.mayBeat || epochOf(heart) != st.epoch {
			t.Skip("no heartbeat keeps the lock")
		}
		over := withdraw(heart, st.epoch)
		if note, noted := withdrawalOf(over); !noted || note.epoch != st.epoch || note.last != number || epochOf(over) == st.epoch {
			t.Fatalf("the withdrawal of %q is noted as %+v", st.epoch, note)
		}
		after := compose(lock, leasewatch.State{Lease: over, Number: max(own, number) + 1})
		if after.void == "" || stateOf(after.Version).mayBeat {
			t.Errorf("after its withdrawal the epoch goes on: %+v", after)
		}
		if at := before.Record.RenewTime; !at.IsZero() && !record.Read(heart).RenewTime.IsZero() && !after.Record.RenewTime.Equal(at) {
			t.Errorf("renewed last at %v, and after the withdrawal at %v", at, after.Record.RenewTime)
		}
	})
}
