// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// moment is what the server has had since a version.
type moment struct {
	number uint64
	lease  string // the one that changed
	leases map[string]*coordinationv1.Lease
}

// composed is what the lock and its heartbeat made together.
func (m moment) composed() composed {
	lock := m.leases["lock"]
	if lock == nil {
		return composed{}
	}
	var heart leasewatch.State
	if a, is := attachmentOf(lock); is && m.leases[a.name] != nil {
		heart = leasewatch.State{Lease: m.leases[a.name], Number: record.Number(m.leases[a.name].ResourceVersion)}
	}
	return compose(lock, heart)
}

// story is what happens to one lock and two heartbeats, at random, and those that follow it.
type story struct {
	*world
	random  *rand.Rand
	moments []moment
	written uint64    // the version of the lock that its holder wrote last
	renewed time.Time // when the holder renewed the lock last; zero if it released the lock
	uids    int
	readers []*reader
}

func newStory(w *world, seed uint64) *story {
	s := &story{world: w, random: rand.New(rand.NewPCG(seed, 27))}
	s.Stored = func(_ *http.Request, path string, _, after apitest.Object) {
		m := moment{lease: strings.TrimPrefix(path, all), leases: map[string]*coordinationv1.Lease{}}
		if len(s.moments) > 0 {
			m.number = s.now().number + 1
			maps.Copy(m.leases, s.now().leases)
		}
		if delete(m.leases, m.lease); after != nil {
			l := s.stored(m.lease)
			m.number, m.leases[m.lease] = record.Number(l.ResourceVersion), l
		}
		s.moments = append(s.moments, m)
	}
	s.newHeart("heart-a")
	s.newHeart("heart-b")
	for _, id := range []string{"v", "w"} {
		p := w.process(id, false)
		for i := range 2 {
			lock, err := p.common.lock("lock")
			if err != nil {
				w.Fatal(err)
			}
			s.readers = append(s.readers, &reader{story: s, name: fmt.Sprint(id, i), lock: lock})
		}
	}
	return s
}

func (s *story) now() moment { return s.moments[len(s.moments)-1] }

// at is what the server had at a version.
func (s *story) at(number uint64) (m moment) {
	for _, one := range s.moments {
		if one.number <= number {
			m = one
		}
	}
	return m
}

func (s *story) uid() types.UID {
	s.uids++
	return types.UID(fmt.Sprint("uid-", s.uids))
}

func (s *story) newHeart(name string) {
	h := leaseOf(name, time.Now())
	h.UID, h.Spec.HolderIdentity, h.Annotations[record.AnnotationHolder] = s.uid(), apitest.Ptr(name), name
	s.Put(all+name, h)
}

// holds reports whether the lock is as its holder wrote it, and who keeps it.
func (s *story) holds() (lock *coordinationv1.Lease, kept attachment, is bool) {
	lock = s.lease("lock")
	if lock == nil || record.Number(lock.ResourceVersion) != s.written || s.now().composed().Record.Holder == "" {
		return nil, attachment{}, false
	}
	if kept, is = attachmentOf(lock); is && (s.lease(kept.name) == nil || epochOf(s.lease(kept.name)) != kept.epoch || s.lease(kept.name).UID != kept.uid) {
		kept = attachment{}
	}
	return lock, kept, true
}

// writes has the holder write the lock.
func (s *story) writes(lock *coordinationv1.Lease) {
	s.Put(all+"lock", lock)
	s.written, s.renewed = s.now().number, time.Now()
}

func (s *story) acquire(name string) {
	now, old, heart := time.Now(), s.lease("lock"), s.lease(name)
	r := locks.Record{Holder: name, LeaseDuration: 15 * time.Second, AcquireTime: now, RenewTime: now, Details: locks.Details{Holder: name, Nonce: "n"}}
	if old != nil {
		r.Transitions = record.Read(old).Transitions + 1
	}
	lock := detach(record.Write(old, r))
	if lock.Name, lock.Namespace = "lock", "ns"; old == nil {
		lock.UID = s.uid()
	}
	if heart != nil && epochOf(heart) != "" {
		lock = attach(lock, attachmentTo(heart))
	}
	s.writes(lock)
}

// happens has one thing happen, and says what.
func (s *story) happens() string {
	name := []string{"heart-a", "heart-b"}[s.random.IntN(2)]
	heart, now := s.lease(name), &metav1.MicroTime{Time: time.Now()}
	lock, kept, holds := s.holds()
	switch s.random.IntN(18) {
	case 0, 1, 2:
		s.acquire(name)
		return "acquisition by " + name
	case 3, 4, 5:
		if heart != nil && epochOf(heart) != "" {
			s.edit(name, func(l *coordinationv1.Lease) { l.Spec.RenewTime = now })
			if holds && kept.name == name {
				s.renewed = time.Now()
			}
		}
		return "beat of " + name
	case 6, 7:
		s.edit("lock", func(l *coordinationv1.Lease) { l.Labels = map[string]string{"x": strconv.Itoa(s.random.Int())} })
		return "edit of the lock"
	case 8:
		if holds {
			metav1.SetMetaDataAnnotation(&lock.ObjectMeta, record.AnnotationToken, strconv.FormatUint(s.written, 10))
			lock.Spec.RenewTime = now
			s.writes(lock)
		}
		return "note of the token"
	case 9:
		if holds {
			s.writes(detach(record.Write(lock, released(record.Read(lock), s.written, time.Now()))))
			s.renewed = time.Time{}
		}
		return "release"
	case 10:
		if holds && kept.name != "" {
			s.edit(kept.name, func(l *coordinationv1.Lease) {
				metav1.SetMetaDataAnnotation(&l.ObjectMeta, record.AnnotationReleasedLocks, string(kept.epoch)+" "+noted{"lock", s.written, time.Now()}.String())
			})
		}
		return "release by a note"
	case 11, 12:
		s.Delete(all + "lock")
		return "deletion of the lock"
	case 13:
		s.edit("lock", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationHeartbeat) })
		return "end of the annotation"
	case 14:
		if heart == nil {
			s.newHeart(name)
			return "creation of " + name
		}
		s.Delete(all + name)
		return "deletion of " + name
	case 15:
		s.edit(name, func(l *coordinationv1.Lease) { *l = *withdraw(l, epochIn(record.Read(l))) })
		return "withdrawal of " + name
	case 16:
		s.edit(name, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.RenewTime = apitest.Ptr(name), now, now
		})
		return "another epoch of " + name
	default:
		s.edit(name, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") })
		return "emptying of " + name
	}
}

// troubles has something happen to a watch or to a reader, and says what.
func (s *story) troubles() string {
	p, r := s.processes[s.random.IntN(len(s.processes))], s.readers[s.random.IntN(len(s.readers))]
	switch s.random.IntN(5) {
	case 0:
		s.Compact()
		return "all watches end, and none goes on"
	case 1:
		p.link.silence(true)
		return p.id + " hears nothing"
	case 2:
		p.link.silence(false)
		return p.id + " hears again"
	case 3:
		if r.feed != nil {
			r.stop()
			r.follow(r.newest.Version)
		}
		return r.name + " follows again"
	default:
		r.stop()
		return r.name + " reads again"
	}
}

// reader is a candidate that reads, and then follows.
type reader struct {
	*story
	name   string
	lock   *lock
	feed   *feed  // nil if it is to read
	from   uint64 // the version that the feed has told all up to; zero if it begins anywhere
	newest locks.Snapshot
	last   locks.Record // the last that there was
	uid    string
	seen   time.Time // first sight of that renewal, or of there being nothing
}

func (r *reader) fails(format string, args ...any) {
	r.Helper()
	r.Errorf("%s %s", r.name, fmt.Sprintf(format, args...))
}

func (r *reader) follow(from locks.Version) {
	r.from = from.Number
	r.feed = r.lock.follow(from)
}

func (r *reader) stop() {
	if r.feed != nil {
		r.feed.close()
		r.feed = nil
	}
}

// steps has the reader read, or take what its feed has.
func (r *reader) steps() {
	if r.feed == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s, err := r.lock.Read(ctx); err == nil {
			r.note("%s reads version %d of %q", r.name, s.Version.Number, s.Record.Holder)
			r.sees(s, true)
			r.follow(s.Version)
		}
		return
	}
	events, err := r.feed.take()
	for i, e := range events {
		if !e.Bookmark {
			r.hears(e, err == nil && i == len(events)-1)
		}
	}
	if err == nil {
		return
	}
	r.note("the feed of %s ends: %v", r.name, err)
	if r.stop(); !errors.Is(err, locks.ErrVersionExpired) {
		r.follow(r.newest.Version)
	}
}

// sees notes a snapshot as an elector does.
func (r *reader) sees(s locks.Snapshot, read bool) {
	now := time.Now()
	if !s.Version.Exists() {
		if read && r.newest.Version.Exists() {
			s.Version.Number, r.seen = r.newest.Version.Number, now
		}
		r.newest = s
		return
	}
	if s.Version.Number <= r.newest.Version.Number {
		return
	}
	hidden := r.newest.Kept && !s.Kept
	if hidden || r.uid != s.Version.UID || !r.last.SameRenewal(s.Record) {
		r.seen = now
	}
	r.newest, r.last, r.uid = s, s.Record, s.Version.UID
}

// hears checks an event against what has happened.
func (r *reader) hears(e locks.Event, last bool) {
	r.Helper()
	s := e.Snapshot
	r.note("%s hears version %d of %q, renewed %v", r.name, s.Version.Number, s.Record.Holder, s.Record.RenewTime.Format("04:05.000000"))
	then := r.at(s.Version.Number)
	truth := then.composed()
	unknown := s.Version.Exists() && stateOf(s.Version) != nil && stateOf(s.Version).mayBeat && stateOf(s.Version).heart == nil
	switch {
	case !e.Gapless, s.Version.Number <= r.from:
		r.fails("hears %+v after version %d", e, r.from)
	case ownOf(s) != ownOf(truth.Snapshot), !s.Version.Exists() && then.lease != "lock":
		r.fails("hears of version %d of the lock at %d, and it was %d", ownOf(s), s.Version.Number, ownOf(truth.Snapshot))
	case unknown && (last || s.Version.Number != ownOf(s)):
		r.fails("hears nothing of the heartbeat at %d", s.Version.Number)
	case !unknown && stateOf(s.Version) != nil && (s.Record != truth.Record || s.Kept != truth.Kept):
		r.fails("hears %+v, and true is %+v", s, truth)
	}
	r.leavesNothingOut(s)
	r.from = s.Version.Number
	r.sees(s, false)
}

// leavesNothingOut checks that a feed has told each change of the lock before one that it tells,
// and the last heartbeats before a deletion.
func (r *reader) leavesNothingOut(s locks.Snapshot) {
	r.Helper()
	if r.from == 0 {
		return
	}
	for _, m := range r.moments {
		if m.lease == "lock" && m.number > max(r.from, ownOf(r.newest)) && m.number < s.Version.Number && ownOf(m.composed().Snapshot) != ownOf(s) {
			r.fails("hears of %d after %d, and not of %d", s.Version.Number, r.from, m.number)
		}
	}
	before := r.at(s.Version.Number - 1).composed().Record
	if !s.Version.Exists() && r.newest.Version.Exists() && before.Holder != "" && !before.SameRenewal(r.last) {
		r.fails("hears of the deletion %d, and not of %+v", s.Version.Number, before)
	}
}

// ownOf is the version of the lock's own Lease; zero if there is none.
func ownOf(s locks.Snapshot) uint64 {
	if st := stateOf(s.Version); st != nil {
		return st.number()
	}
	if l, is := s.Version.Opaque.(*coordinationv1.Lease); is {
		return record.Number(l.ResourceVersion)
	}
	return 0
}

// countsRight checks that who could take the lock now waits from the last renewal on.
func (r *reader) countsRight() {
	r.Helper()
	s, truth := r.newest, r.now().composed()
	if !s.Version.Exists() || ownOf(s) != ownOf(truth.Snapshot) || truth.Record.Holder == "" || r.renewed.IsZero() {
		return
	}
	if st := stateOf(s.Version); st != nil && st.mayBeat {
		if heart := r.now().leases[st.name]; st.heart == nil || heart == nil || heart.ResourceVersion != st.heart.ResourceVersion {
			return
		}
	}
	if r.seen.Before(r.renewed) {
		r.fails("counts from %v, and the holder renewed the lock at %v", r.seen, r.renewed)
	}
}

// TestAFeedTellsAllThatHappenedOrThatItDoesNot, in order, whatever happens to the lock and its
// heartbeats, and whenever watches end.
func TestAFeedTellsAllThatHappenedOrThatItDoesNot(t *testing.T) {
	eachSeed(t, "STORY", 200, func(t *testing.T, seed uint64) {
		scenario(t, func(w *world) { newStory(w, seed).play() })
	})
}

func (s *story) play() {
	for range 40 {
		what := s.happens()
		s.note("version %d: %s", s.now().number, what)
		if s.random.IntN(5) == 0 {
			s.note("%s", s.troubles())
		}
		if s.random.IntN(2) == 0 {
			synctest.Wait()
		}
		if time.Sleep(time.Microsecond); s.random.IntN(3) == 0 {
			elapse(time.Duration(1+s.random.IntN(1500)) * time.Millisecond)
		}
		for _, r := range s.readers {
			if s.random.IntN(4) == 0 {
				r.steps()
			}
			r.countsRight()
		}
	}
	for _, p := range s.processes {
		p.heal()
	}
	for range 5 {
		elapse(10 * time.Second)
		for _, r := range s.readers {
			r.steps()
		}
	}
	truth := s.now().composed()
	for _, r := range s.readers {
		if n := r.newest; ownOf(n) != ownOf(truth.Snapshot) || !n.Record.RenewTime.Equal(truth.Record.RenewTime) {
			r.fails("knows %+v in the end, and true is %+v", n, truth)
		}
		r.stop()
	}
}
