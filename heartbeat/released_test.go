// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// many is more locks than a process writes one by one when it ends.
const many = 40

// leavingOf plays f with a process that leads many locks on a server whose answers take 10 ms.
func leavingOf(t *testing.T, f func(w *world, a *process)) {
	t.Helper()
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.slow()
		a.campaign(many)
		elapse(time.Minute)
		if n := a.leads(); n != many {
			t.Fatalf("a leads %d of %d", n, many)
		}
		a.count("PUT")
		f(w, a)
	})
}

// successor starts a process that waits for all of a's locks.
func successor(w *world) *process {
	b := w.process("b", true)
	b.slow()
	b.campaign(many)
	elapse(10 * time.Second)
	return b
}

func TestL8OneNoteReleasesManyLocks(t *testing.T) {
	leavingOf(t, func(w *world, a *process) {
		b := successor(w)
		a.count("PUT")
		a.quit()
		elapse(time.Second)
		if n := b.leads(); n != many {
			t.Errorf("b leads %d of %d a second later", n, many)
		}
		a.kill()
		if n := a.count("PUT"); n > many/2 {
			t.Errorf("a sent %d writes to release %d locks", n, many)
		}
		elapse(time.Minute)
		if n := b.leads(); n != many {
			t.Errorf("b leads %d of %d a minute later", n, many)
		}
		for _, h := range w.histories {
			if n := len(h.Terms()); n != 2 {
				t.Errorf("%d terms, not 2", n)
			}
		}
	})
}

func TestL8LocksThatNobodyTakesAreReleasedOnTheirOwnLeases(t *testing.T) {
	leavingOf(t, func(w *world, a *process) {
		a.kill()
		w.Delete(all + "heart-a")
		for i := range many {
			l := w.lease(fmt.Sprint("lock-", i))
			if r := record.Read(l); r.Holder != "" || r.Details.Released == 0 || l.Annotations[record.AnnotationHeartbeat] != "" {
				t.Errorf("lock %d is not released: holder %q, %v", i, r.Holder, l.Annotations)
			}
		}
	})
}

func TestL8WhoReleasedLocksByANoteTakesThemAgain(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.slow()
		electors := a.campaign(many)
		elapse(time.Minute)
		for range 3 {
			var resigning sync.WaitGroup
			for _, e := range electors {
				resigning.Go(func() {
					if err := e.Resign(a.ctx); err != nil {
						t.Error(err)
					}
				})
			}
			resigning.Wait()
			elapse(20 * time.Second)
			if n := a.leads(); n != many {
				t.Errorf("a leads %d of %d again", n, many)
			}
		}
	})
}

func TestL8ALockThatIsReleasedByANoteIsNotDetached(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.slow()
		a.campaignFor("other") // so that the heartbeat goes on
		ctx, quit := context.WithCancel(a.ctx)
		for i := range many {
			lock, err := a.common.lock(fmt.Sprint("lock-", i))
			if err != nil {
				t.Fatal(err)
			}
			e := a.elector(lock)
			a.electors.Go(func() {
				_ = e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
			})
		}
		elapse(time.Minute)
		quit()
		elapse(time.Minute)
		b := w.process("b", true)
		b.campaign(many)
		elapse(5 * time.Second)
		if n := b.leads(); n != many {
			t.Errorf("b leads %d of %d locks that a has released", n, many)
		}
	})
}

func TestL8AnEditMeanwhileCostsANoteOnly(t *testing.T) {
	leavingOf(t, func(w *world, a *process) {
		b := successor(w)
		var edited atomic.Bool
		a.heartLink.intercept(func(r *http.Request) {
			if r.Method != http.MethodPut || edited.Swap(true) {
				return
			}
			for i := range many {
				w.edit(fmt.Sprint("lock-", i), func(l *coordinationv1.Lease) {
					metav1.SetMetaDataAnnotation(&l.ObjectMeta, "edited", "yes")
				})
			}
		}, nil)
		a.quit()
		elapse(3 * time.Second)
		if n := b.leads(); n != many {
			t.Errorf("b leads %d of %d after 3 s", n, many)
		}
	})
}

func TestL8ANoteWhoseAnswerIsLostReleasesAllTheSame(t *testing.T) {
	leavingOf(t, func(w *world, a *process) {
		b := successor(w)
		a.heartLink.intercept(nil, late(time.Hour))
		a.quit()
		elapse(8 * time.Second)
		if n := b.leads(); n != many {
			t.Errorf("b leads %d of %d", n, many)
		}
	})
}

func TestL8ANoteCountsForTheVersionThatItNames(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second)
	heart := record.Write(nil, locks.Record{
		Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: at, RenewTime: at,
		Details: locks.Details{Holder: "a", Nonce: "n"},
	})
	heart.Name, heart.UID, heart.ResourceVersion = "heart", "uid", "50"
	e := epochOf(heart)
	lock := func(version uint64) *coordinationv1.Lease {
		l := attach(record.Write(nil, locks.Record{
			Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: at, RenewTime: at,
			Details: locks.Details{Holder: "a", Nonce: "n", Request: "request", Waits: "x"},
		}), attachment{name: "heart", uid: "uid", epoch: e, lease: 15 * time.Second})
		l.Name, l.UID, l.ResourceVersion = "lock", "lock", strconv.FormatUint(version, 10)
		return l
	}
	later := at.Add(time.Second)
	ours := noted{"lock", 20, later}.String()
	before := noted{"a-lock", 20, later}.String() + " " + noted{"loc", 20, later}.String()
	after := noted{"lock-1", 20, later}.String() + " " + noted{"z", 20, later}.String()
	for what, c := range map[string]struct {
		note     string
		version  uint64
		released bool
	}{
		"alone":             {string(e) + " " + ours, 20, true},
		"first":             {string(e) + " " + ours + " " + after, 20, true},
		"last":              {string(e) + " " + before + " " + ours, 20, true},
		"between":           {string(e) + " " + before + " " + ours + " " + after, 20, true},
		"a shorter version": {string(e) + " " + before + " " + ours + " " + after, 2, false},
		"a longer version":  {string(e) + " " + before + " " + ours + " " + after, 200, false},
		"another version":   {string(e) + " " + ours, 21, false},
		"others":            {string(e) + " " + before + " " + after, 20, false},
		"another epoch":     {"n.other " + ours, 20, false},
		"no epoch":          {ours, 20, false},
		"no time":           {string(e) + " lock@20@", 20, false},
		"garbage":           {string(e) + " " + strings.ReplaceAll(ours, "@", "#"), 20, false},
		"empty":             {"", 20, false},
		"a time of garbage": {string(e) + " lock@20@soon", 20, false},
	} {
		t.Run(what, func(t *testing.T) {
			noting := heart.DeepCopy()
			metav1.SetMetaDataAnnotation(&noting.ObjectMeta, record.AnnotationReleasedLocks, c.note)
			s := compose(lock(c.version), leasewatch.State{Lease: noting, Number: 50})
			st := stateOf(s.Version)
			if is := s.Record.Holder == ""; is != c.released || s.Kept == c.released || st.mayBeat == c.released {
				t.Fatalf("holder %q, kept %v, may beat %v", s.Record.Holder, s.Kept, st.mayBeat)
			}
			if d := s.Record.Details; c.released && (d.Token != 20 || d.Released != 20 || d.Request != "" || d.Waits != "" || !s.Record.RenewTime.Equal(later) || s.Record.LeaseDuration != time.Second) {
				t.Errorf("it is released as %+v", s.Record)
			}
		})
	}
}

// slow has each answer take 10 ms.
func (p *process) slow() {
	p.links(func(l *link) { l.intercept(nil, late(10*time.Millisecond)) })
}
