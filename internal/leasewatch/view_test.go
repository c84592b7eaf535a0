// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leasewatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/locks"
)

const (
	all      = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"
	patience = 2 * time.Second
)

// stage is a View of an API server whose watches can fall silent and whose lists can hang.
type stage struct {
	*testing.T
	*apitest.Server
	view           *View
	lists, watches atomic.Int32
	mu             sync.Mutex
	restarts       []bool                // whether each watch that ended was replaced
	hang           func(watch bool) bool // requests that come now get no answer
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	watch := r.URL.Query().Get("watch") == "true"
	if watch {
		s.watches.Add(1)
	} else {
		s.lists.Add(1)
	}
	s.mu.Lock()
	hang := s.hang != nil && s.hang(watch)
	s.mu.Unlock()
	if hang {
		if watch {
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		return
	}
	s.Server.ServeHTTP(w, r)
}

func (s *stage) hangs(hang func(watch bool) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
}

func run(t *testing.T, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, Server: apitest.NewServer()}
		var err error
		s.view, err = New(Config{Client: apitest.Wire(t, s, coordinationv1.SchemeGroupVersion), Namespace: "ns", Patience: patience, Limit: 5 * patience, Restarted: s.restarted})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var over sync.WaitGroup
		over.Go(func() { s.view.Run(ctx) })
		synctest.Wait()
		f(s)
		cancel()
		over.Wait()
		time.Sleep(2 * patience) // what is expected is forgotten
	})
}

// restarted notes why another watch begins.
func (s *stage) restarted(replaced bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts = append(s.restarts, replaced)
}

// put writes a Lease behind the view's back and returns its version.
func (s *stage) put(name string) uint64 {
	lease := &coordinationv1.Lease{}
	lease.Name, lease.Namespace, lease.UID = name, "ns", "u"
	s.Put(all+name, lease)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var n uint64
	_, _ = fmt.Sscan(s.Objects[all+name]["metadata"].(apitest.Object)["resourceVersion"].(string), &n)
	return n
}

func TestAViewShowsWhatItHasReached(t *testing.T) {
	run(t, func(s *stage) {
		n := s.put("x")
		if !s.view.Reach(context.Background(), n) {
			t.Fatal("not reached")
		}
		if got, known := s.view.GetSince("x", n); !known || got.Number != n || got.Lease == nil {
			t.Errorf("%+v %v, want version %d", got, known, n)
		}
		if _, known := s.view.GetSince("x", n+1); known {
			t.Error("it knows what has not happened")
		}
		if got := s.view.Get("none"); got.Lease != nil || got.Number != n {
			t.Errorf("what does not exist is %+v, want none at %d", got, n)
		}
	})
}

func TestASilentWatchIsReplacedOnceItOwesSomething(t *testing.T) {
	run(t, func(s *stage) {
		s.hangs(func(watch bool) bool { return watch })
		s.Compact() // ends the watch: the next is silent
		time.Sleep(patience)
		n := s.put("x")
		s.hangs(nil)
		start := time.Now()
		if s.view.Reach(context.Background(), n) {
			t.Error("a silent watch has shown it")
		}
		if time.Since(start) != patience {
			t.Errorf("it gave up after %v", time.Since(start))
		}
		synctest.Wait()
		if !s.view.Reach(context.Background(), n) {
			t.Error("no other watch has begun")
		}
		if want := []bool{false, true}; !slices.Equal(s.restarts, want) {
			t.Errorf("watches were replaced: %v, want %v", s.restarts, want)
		}
	})
}

func TestAVersionThatIsExpectedReplacesASilentWatch(t *testing.T) {
	run(t, func(s *stage) {
		s.hangs(func(watch bool) bool { return watch })
		s.Compact()
		time.Sleep(patience)
		n := s.put("x")
		s.hangs(nil)
		s.view.Expect(n)
		time.Sleep(patience)
		synctest.Wait()
		if s.view.Get("x").Number != n {
			t.Error("the view does not show what was expected")
		}
	})
}

func TestReadsThatComeTogetherShareAList(t *testing.T) {
	run(t, func(s *stage) {
		before := s.lists.Load()
		var over sync.WaitGroup
		for range 100 {
			over.Go(func() {
				if _, err := s.view.Read(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		over.Wait()
		if n := s.lists.Load() - before; n > listBurst+1 {
			t.Errorf("%d lists for 100 reads", n)
		}
	})
}

func TestReadsOfDifferentMomentsAreFewLists(t *testing.T) {
	run(t, func(s *stage) {
		before := s.lists.Load()
		var over sync.WaitGroup
		for range 200 {
			over.Go(func() { _, _ = s.view.Read(context.Background()) })
			time.Sleep(patience / 200)
		}
		over.Wait()
		if n := s.lists.Load() - before; n > 3*listBurst {
			t.Errorf("%d lists for 200 reads", n)
		}
	})
}

func TestAReadSeesWhatWasWrittenBeforeIt(t *testing.T) {
	run(t, func(s *stage) {
		for range 20 {
			n := s.put("x")
			r, err := s.view.Read(context.Background())
			if err != nil || r.Get("x").Number != n {
				t.Fatalf("read %+v, %v after version %d", r, err, n)
			}
		}
	})
}

// TestAReadIsLinearizable though the server's cache stands still.
func TestAReadIsLinearizable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, Server: apitest.NewServer()}
		front := s.NewFront()
		v, err := New(Config{Client: apitest.Wire(t, front, coordinationv1.SchemeGroupVersion), Namespace: "ns", Patience: patience, Limit: 5 * patience})
		if err != nil {
			t.Fatal(err)
		}
		front.Lag(apitest.Still)
		n := s.put("x")
		if r, err := v.Read(t.Context(), "x"); err != nil || r.Get("x").Number != n || r.At() != n {
			t.Errorf("read %+v, %v after version %d", r, err, n)
		}
	})
}

func TestAReadIsNotStuckBehindOneThatHangs(t *testing.T) {
	run(t, func(s *stage) {
		s.hangs(func(watch bool) bool { return !watch })
		ctx, cancel := context.WithCancel(context.Background())
		var over sync.WaitGroup
		over.Go(func() { _, _ = s.view.Read(ctx) })
		synctest.Wait()
		s.hangs(nil)
		start := time.Now()
		if _, err := s.view.Read(context.Background()); err != nil || time.Since(start) > patience {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		cancel()
		over.Wait()
	})
}

func TestAListEndsOnceNobodyWaitsForIt(t *testing.T) {
	run(t, func(s *stage) {
		s.hangs(func(watch bool) bool { return !watch })
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			if _, err := s.view.Read(ctx); err == nil {
				t.Error("no error")
			}
			cancel()
		}
		s.hangs(nil)
		start := time.Now()
		if _, err := s.view.Read(context.Background()); err != nil || time.Since(start) > gathering {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestReadsOfTheSameMomentShareLists: a reader measures how long its read takes, and 100 electors
// begin at once.
func TestReadsOfTheSameMomentShareLists(t *testing.T) {
	run(t, func(s *stage) {
		start := time.Now()
		var reading sync.WaitGroup
		for range 100 {
			reading.Go(func() {
				if _, err := s.view.Read(context.Background()); err != nil || time.Since(start) > gathering {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		}
		reading.Wait()
	})
}

func TestARestoredBackupIsShownAnew(t *testing.T) {
	run(t, func(s *stage) {
		was := s.put("x")
		restore := s.Backup()
		for range 10 {
			s.put("x")
		}
		synctest.Wait()
		restore()
		if _, err := s.view.Read(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the watch may pause before it begins again
		synctest.Wait()
		if got := s.view.Get("x"); got.Number != was {
			t.Errorf("%+v, want version %d", got, was)
		}
		if n := s.put("x"); !s.view.Reach(context.Background(), n) || s.view.Get("x").Number != n {
			t.Error("the view does not go on")
		}
	})
}

func TestASubscriptionGetsEveryChangeOnce(t *testing.T) {
	run(t, func(s *stage) {
		first := s.put("x")
		s.put("y")
		synctest.Wait()
		sub, later := s.view.Subscribe(), s.view.Subscribe()
		defer sub.Close()
		defer later.Close()
		if got := sub.Add("x"); got.Number != first {
			t.Errorf("%+v, want version %d", got, first)
		}
		var want []uint64
		for range 50 {
			want = append(want, s.put("x"))
			s.put("y")
		}
		s.Delete(all + "x")
		synctest.Wait()
		if !later.AddAfter("x", first) {
			t.Fatal("the view has forgotten what came")
		}
		for what, all := range map[string][]Change{"from the start": sub.Take(), "resumed": later.Take()} {
			if len(all) != 51 || all[50].State.Lease != nil {
				t.Fatalf("%s: %d changes", what, len(all))
			}
			for i, n := range want {
				if all[i].State.Number != n || all[i].Name != "x" || all[i].Gap {
					t.Errorf("%s: change %d is %+v, want %d", what, i, all[i], n)
				}
			}
		}
	})
}

// replaces puts a Lease while the watch is silent, so that the view learns of it by a list. It returns
// the version.
func (s *stage) replaces(name string) uint64 {
	s.hangs(func(watch bool) bool { return watch })
	s.Compact() // the next watch is silent
	time.Sleep(patience)
	n := s.put(name)
	s.Compact()
	s.hangs(nil)
	s.view.Reach(context.Background(), n)
	time.Sleep(patience)
	return n
}

func TestWhatAListReplacesIsAGap(t *testing.T) {
	run(t, func(s *stage) {
		s.put("x")
		s.put("z")
		synctest.Wait()
		sub := s.view.Subscribe()
		defer sub.Close()
		sub.Add("x")
		sub.Add("z")
		n := s.replaces("x")
		if all := sub.Take(); len(all) != 1 || !all[0].Gap || all[0].State.Number != n {
			t.Errorf("%+v, want a gap before version %d", all, n)
		}
		if resumed := s.view.Subscribe(); resumed.AddAfter("x", n-1) {
			t.Error("the view says that it knows what came before its list")
		}
	})
}

// TestS4AWatchEndsWhereTheViewHasAGap: what it left out may have been another term.
func TestS4AWatchEndsWhereTheViewHasAGap(t *testing.T) {
	run(t, func(s *stage) {
		first := s.put("x")
		synctest.Wait()
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		seen, over := []uint64{}, make(chan error, 1)
		go func() {
			over <- s.view.Watch(ctx, "x", 0, func(_ context.Context, is State) error {
				seen = append(seen, is.Number)
				return nil
			})
		}()
		synctest.Wait()
		s.replaces("x")
		select {
		case err := <-over:
			if !errors.Is(err, locks.ErrVersionExpired) || !slices.Equal(seen, []uint64{first}) {
				t.Errorf("it has shown %v, and ended with %v", seen, err)
			}
		default:
			t.Errorf("it goes on, and has shown %v", seen)
		}
	})
}

// TestWhatAListDoesNotShowIsAGapToo: there was no such Lease before either, but there may have been
// one in between.
func TestWhatAListDoesNotShowIsAGapToo(t *testing.T) {
	run(t, func(s *stage) {
		s.put("z")
		synctest.Wait()
		sub := s.view.Subscribe()
		defer sub.Close()
		sub.Add("x")
		s.hangs(func(watch bool) bool { return watch })
		s.Compact() // the next watch is silent
		time.Sleep(patience)
		s.put("x")
		s.Delete(all + "x")
		n := s.put("z")
		s.Compact()
		s.hangs(nil)
		s.view.Reach(context.Background(), n)
		time.Sleep(patience)
		if all := sub.Take(); len(all) != 1 || !all[0].Gap || all[0].State != (State{Number: n}) {
			t.Errorf("%+v, want a gap before version %d", all, n)
		}
	})
}

func TestHistoryForgetsWhatIsOldOrTooMuch(t *testing.T) {
	start := time.Now()
	var h history
	for i := range uint64(3 * historySize) {
		h.add(Change{Name: "x", State: State{Number: i + 1}}, start)
	}
	if _, known := h.since("x", 2*historySize-1); known {
		t.Error("it knows more than it keeps")
	}
	if all, known := h.since("x", 2*historySize); !known || len(all) != historySize {
		t.Errorf("%d changes, %v", len(all), known)
	}
	h.add(Change{Name: "y", State: State{Number: 1 << 20}}, start.Add(historyAge+1))
	if all, known := h.since("x", 3*historySize); !known || len(all) != 0 || len(h.changes) != 1 {
		t.Errorf("%d changes, %v, %d kept", len(all), known, len(h.changes))
	}
}

func TestSubscriptionsComeAndGoWhileLeasesChange(t *testing.T) {
	run(t, func(s *stage) {
		var over sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for i := range 8 {
			over.Go(func() {
				for ctx.Err() == nil {
					sub := s.view.Subscribe()
					last := sub.Add(fmt.Sprint("x", i%3)).Number
					time.Sleep(20 * time.Millisecond)
					for _, c := range sub.Take() {
						if c.State.Number <= last {
							t.Errorf("change %d after %d", c.State.Number, last)
						}
						last = c.State.Number
					}
					sub.Close()
				}
			})
		}
		for i := range 300 {
			s.put(fmt.Sprint("x", i%3))
			time.Sleep(7 * time.Millisecond)
		}
		cancel()
		over.Wait()
		s.view.mu.Lock()
		defer s.view.mu.Unlock()
		if len(s.view.subs) != 0 {
			t.Errorf("%d names are still subscribed to", len(s.view.subs))
		}
	})
}

func TestASilentWatchIsReplacedWhileNoReadIsAnswered(t *testing.T) {
	run(t, func(s *stage) {
		s.hangs(func(watch bool) bool { return watch })
		s.Compact() // ends the watch: the next is silent
		time.Sleep(patience)
		n := s.put("x")
		s.hangs(func(watch bool) bool { return !watch }) // as while etcd has no leader
		time.Sleep(2 * patience)
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		var over sync.WaitGroup
		over.Go(func() { _, _ = s.view.Read(live.Since(ctx, time.Now())) })
		synctest.Wait()
		if got := s.view.Get("x").Number; got != n {
			t.Errorf("the view shows version %d, and %d is in the memory of the API server", got, n)
		}
		cancel()
		over.Wait()
	})
}

func TestAWatchThatIsNotSilentIsNotReplacedByARead(t *testing.T) {
	run(t, func(s *stage) {
		before := s.watches.Load()
		for range 20 {
			time.Sleep(patience)
			s.put("x")
			synctest.Wait()
			if _, err := s.view.Read(live.Since(context.Background(), time.Now())); err != nil {
				t.Error(err)
			}
		}
		if n := s.watches.Load() - before; n > 0 {
			t.Errorf("%d watches more, want none", n)
		}
	})
}

func TestASilentWatchIsReplacedSeldomWhileNoReadIsAnswered(t *testing.T) {
	run(t, func(s *stage) {
		s.hangs(func(bool) bool { return true })
		time.Sleep(2 * patience)
		before := s.watches.Load()
		for range 30 {
			ctx, cancel := context.WithTimeout(live.Since(context.Background(), time.Now()), patience)
			_, _ = s.view.Read(ctx)
			cancel()
		}
		if n := s.watches.Load() - before; n != 1 {
			t.Errorf("%d watches more, want one", n)
		}
	})
}
