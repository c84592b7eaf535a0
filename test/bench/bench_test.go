// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench_test holds zonelect to what an election may cost: in time when
// the leader changes, and in requests while it does not.
package bench_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/testbed"
	"github.com/zonelect/zonelect/test/trial"
)

// bed starts one apiserver that ends with the test.
func bed(t *testing.T) *testbed.Testbed {
	t.Helper()
	return trial.Bed(t, testbed.Config{
		Zones: []string{"za"}, Network: testbed.Links,
		WithoutControllers: true, WithoutNodes: true,
	})
}

func patience(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// newLock returns a lock with connections of its own.
func newLock(t *testing.T, b *testbed.Testbed, timing election.Timing, name string) election.Lock {
	t.Helper()
	lock, err := operator.LeaseLock(b.RESTConfig("za"), timing, "default", name, operator.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.CloseConnections)
	return lock
}

// led is a term's beginning: when the work began to run, and whose.
type led struct {
	by *candidate
	at time.Time
}

// candidate is one candidacy, from its start on. Its connections outlive it.
type candidate struct {
	*election.Elector
	identity string
	lock     election.Lock // without faults
	faulty   *electiontest.Faulty
	stop     context.CancelFunc
	abandon  func()        // lets work return that was told to ignore the end of its term
	done     chan struct{} // closed when Run has returned
	err      error         // of Run; read it after done
}

// campaign starts a candidate. Its work tells terms and returns at the end of
// its term, or if stubborn only when the candidate is abandoned.
func campaign(t *testing.T, lock election.Lock, timing election.Timing, identity string, stubborn bool, terms chan<- led) (*candidate, error) {
	c := &candidate{identity: identity, lock: lock, faulty: electiontest.NewFaulty(lock), done: make(chan struct{})}
	elector, err := election.New(election.Config{
		Lock: c.faulty, Candidate: election.Candidate{Identity: identity, Zone: "za"}, Timing: timing,
	})
	if err != nil {
		return nil, err
	}
	c.Elector = elector
	abandoned := make(chan struct{})
	c.abandon = sync.OnceFunc(func() { close(abandoned) })
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		defer close(c.done)
		c.err = elector.Run(ctx, func(work context.Context, _ election.Term) error {
			at := time.Now()
			select {
			case terms <- led{c, at}:
			case <-work.Done():
			}
			if stubborn {
				<-abandoned
				return nil
			}
			<-work.Done()
			return nil
		})
	}()
	t.Cleanup(func() { // before the connections are closed
		c.abandon()
		stop()
		<-c.done
	})
	return c, nil
}

// following waits until every candidate but the leader follows it.
func following(ctx context.Context, leader *candidate, all []*candidate) error {
	for _, c := range all {
		for c != leader {
			if s := c.Status(); s.State == election.StateFollower && s.Holder == leader.identity {
				break
			}
			if err := pause(ctx, 2*time.Millisecond); err != nil {
				return fmt.Errorf("%s does not follow %s: %w", c.identity, leader.identity, err)
			}
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func nextTerm(ctx context.Context, terms <-chan led) (led, error) {
	select {
	case l := <-terms:
		return l, nil
	case <-ctx.Done():
		return led{}, fmt.Errorf("wait for the next leader: %w", ctx.Err())
	}
}

// percentile is the nearest rank; it sorts all.
func percentile(all []time.Duration, p float64) time.Duration {
	slices.Sort(all)
	return all[max(0, int(math.Ceil(p*float64(len(all))))-1)]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHandoverCostsLittleMoreThanTheBareWrites(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 80*time.Second)
	const rounds = 300
	bare := newByHand(t, ctx, b)
	h := newHandover(t, ctx, b)
	var bares, ours []time.Duration
	for range rounds { // by turns, so that both suffer the same noise
		bares = append(bares, bare.round(t, ctx))
		ours = append(ours, h.round(t, ctx))
	}
	compare := func(name string, p, most float64) {
		x, y := percentile(bares, p), percentile(ours, p)
		ratio := float64(y) / float64(x)
		t.Logf("%s of %d handovers: bare %v, zonelect %v, ratio %.2f", name, rounds, x, y, ratio)
		if ratio > most {
			t.Errorf("%s is %.2f times the bare writes, want %.0f at most", name, ratio, most)
		}
	}
	compare("p50", 0.5, 2)
	compare("p99", 0.99, 4)
}

// byHand is the least that a handover takes: a release, the watch event that
// tells of it, and the write that takes the lock.
type byHand struct {
	leader, follower election.Lock
	events           chan election.Event
	held             election.Snapshot
}

func newByHand(t *testing.T, ctx context.Context, b *testbed.Testbed) *byHand {
	h := &byHand{
		leader:   newLock(t, b, election.Timing{}, "bare"),
		follower: newLock(t, b, election.Timing{}, "bare"),
		events:   make(chan election.Event, 16),
	}
	h.held = h.write(t, ctx, h.leader, election.Version{}, "leader")
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		if err := h.follower.Watch(watching, h.held.Version, h.events); err != nil && watching.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); watch.Wait() })
	return h
}

func record(holder string) election.Record {
	now := time.Now()
	r := election.Record{Holder: holder, LeaseDuration: election.LeaseDurationDefault, AcquireTime: now, RenewTime: now}
	if holder == "" {
		r.LeaseDuration = time.Second
	}
	return r
}

func (h *byHand) write(t *testing.T, ctx context.Context, l election.Lock, base election.Version, holder string) election.Snapshot {
	t.Helper()
	s, err := l.Write(ctx, base, record(holder))
	must(t, err)
	return s
}

// sees waits for the event of a record with that holder.
func (h *byHand) sees(t *testing.T, ctx context.Context, holder string) election.Snapshot {
	t.Helper()
	for {
		select {
		case e := <-h.events:
			if !e.Bookmark && e.Snapshot.Record.Holder == holder {
				return e.Snapshot
			}
		case <-ctx.Done():
			t.Fatalf("the watch does not tell that %q holds the lock", holder)
		}
	}
}

func (h *byHand) round(t *testing.T, ctx context.Context) time.Duration {
	released := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := h.leader.Write(ctx, h.held.Version, record(""))
		released <- err
	}()
	free := h.sees(t, ctx, "")
	taken := h.write(t, ctx, h.follower, free.Version, "follower")
	took := time.Since(start)
	must(t, <-released)
	h.held = h.write(t, ctx, h.leader, taken.Version, "leader")
	h.sees(t, ctx, "leader")
	return took
}

// handover is three candidates for one lock, of which the leader stops.
type handover struct {
	seats  []*candidate
	leader *candidate
	terms  chan led
	starts int
}

func newHandover(t *testing.T, ctx context.Context, b *testbed.Testbed) *handover {
	h := &handover{terms: make(chan led)}
	for range 3 {
		h.seats = append(h.seats, h.start(t, newLock(t, b, election.Timing{}, "handover")))
	}
	first, err := nextTerm(ctx, h.terms)
	must(t, err)
	h.leader = first.by
	return h
}

func (h *handover) start(t *testing.T, lock election.Lock) *candidate {
	h.starts++
	c, err := campaign(t, lock, election.Timing{}, fmt.Sprint("candidate-", h.starts), false, h.terms)
	must(t, err)
	return c
}

func (h *handover) round(t *testing.T, ctx context.Context) time.Duration {
	must(t, following(ctx, h.leader, h.seats))
	must(t, pause(ctx, 20*time.Millisecond)) // for the watches to stand
	start := time.Now()
	h.leader.stop()
	next, err := nextTerm(ctx, h.terms)
	must(t, err)
	<-h.leader.done
	must(t, h.leader.err)
	h.seats[slices.Index(h.seats, h.leader)] = h.start(t, h.leader.lock)
	h.leader = next.by
	return next.at.Sub(start)
}

func TestKilledLeadersAreFollowedAsTheirLeasesExpire(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 80*time.Second)
	const (
		locks, rounds = 25, 8
		most          = 50 * time.Millisecond
		slack         = 20 * time.Millisecond // between the observer's sight and the follower's
	)
	timing := election.Timing{
		LeaseDuration: 3 * time.Second, RenewDeadline: 1600 * time.Millisecond,
		RenewInterval: 800 * time.Millisecond, AttemptTimeout: 800 * time.Millisecond, Exclusive: true,
	}
	var all []*killing
	for i := range locks {
		all = append(all, newKilling(t, ctx, b, timing, fmt.Sprint("lock-", i)))
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		lags []time.Duration
	)
	for _, k := range all {
		wait.Go(func() {
			for range rounds {
				lag, err := k.round(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				lags = append(lags, lag)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(lags) < 200 {
		t.Fatalf("%d leaders were killed and followed, want 200 at least", len(lags))
	}
	p50, p99 := percentile(lags, 0.5), percentile(lags, 0.99)
	t.Logf("%d kills, lag after the lease's end: min %v, p50 %v, p99 %v, max %v", len(lags), lags[0], p50, p99, lags[len(lags)-1])
	if p99 > most+slack {
		t.Errorf("p99 of the lag is %v, want %v at most", p99, most+slack)
	}
	if lags[0] < -150*time.Millisecond {
		t.Errorf("a follower led %v before the lease ended", -lags[0])
	}
}

// killing is three candidates for one lock, of which the leader dies, and an
// observer of the lock.
type killing struct {
	t      *testing.T
	name   string
	timing election.Timing
	seats  []*candidate
	leader *candidate
	terms  chan led
	starts int

	mu   sync.Mutex
	seen map[string]time.Time // the last write of each holder
}

func newKilling(t *testing.T, ctx context.Context, b *testbed.Testbed, timing election.Timing, name string) *killing {
	k := &killing{t: t, name: name, timing: timing, terms: make(chan led), seen: map[string]time.Time{}}
	k.observe(ctx, newLock(t, b, timing, name))
	for range 3 {
		c, err := k.start(newLock(t, b, timing, name))
		must(t, err)
		k.seats = append(k.seats, c)
	}
	first, err := nextTerm(ctx, k.terms)
	must(t, err)
	k.leader = first.by
	return k
}

func (k *killing) start(lock election.Lock) (*candidate, error) {
	k.starts++
	return campaign(k.t, lock, k.timing, fmt.Sprintf("%s-candidate-%d", k.name, k.starts), true, k.terms)
}

// observe notes what the lock shows until the test ends.
func (k *killing) observe(ctx context.Context, lock election.Lock) {
	ctx, stop := context.WithCancel(ctx)
	events := make(chan election.Event)
	var wait sync.WaitGroup
	wait.Go(func() {
		for ctx.Err() == nil {
			if err := lock.Watch(ctx, election.Version{}, events); err != nil && ctx.Err() == nil {
				k.t.Errorf("the observer of %s: %v", k.name, err)
				return
			}
		}
	})
	wait.Go(func() {
		for {
			select {
			case e := <-events:
				now := time.Now()
				k.mu.Lock()
				if !e.Bookmark && e.Snapshot.Version.Exists() {
					k.seen[e.Snapshot.Record.Holder] = now
				}
				k.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
	k.t.Cleanup(func() { stop(); wait.Wait() })
}

// round kills the leader at any time between two renewals, and returns how
// long after the end of its lease the next one led.
func (k *killing) round(ctx context.Context) (time.Duration, error) {
	if err := following(ctx, k.leader, k.seats); err != nil {
		return 0, err
	}
	if err := pause(ctx, k.timing.RenewInterval+rand.N(k.timing.RenewInterval)); err != nil {
		return 0, err
	}
	dead := k.leader
	dead.faulty.Set(electiontest.Fault{Hang: true})
	next, err := nextTerm(ctx, k.terms)
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	last, ok := k.seen[dead.identity]
	k.mu.Unlock()
	if !ok {
		return 0, fmt.Errorf("%s: the observer never saw %s", k.name, dead.identity)
	}
	dead.stop()
	dead.abandon()
	<-dead.done
	if k.seats[slices.Index(k.seats, dead)], err = k.start(dead.lock); err != nil {
		return 0, err
	}
	k.leader = next.by
	return next.at.Sub(last.Add(k.timing.LeaseDuration)), nil
}

func TestAnIdleFollowerAndALeaderAskForLittle(t *testing.T) {
	b := bed(t)
	ctx := patience(t, 85*time.Second)
	const span = time.Minute
	terms := make(chan led)
	var all []*candidate
	for i := range 2 {
		c, err := campaign(t, newLock(t, b, election.Timing{}, "idle"), election.Timing{}, fmt.Sprint("candidate-", i+1), false, terms)
		must(t, err)
		all = append(all, c)
	}
	first, err := nextTerm(ctx, terms)
	must(t, err)
	leader, follower := first.by, all[0]
	if follower == leader {
		follower = all[1]
	}
	must(t, following(ctx, leader, all))
	must(t, pause(ctx, time.Second)) // for the watches to stand

	writes := func(c *candidate) int { return c.faulty.Calls("write") }
	others := func(c *candidate) int { return c.faulty.Calls("read") + c.faulty.Calls("watch") }
	t.Logf("to begin with: follower %d requests, leader %d", writes(follower)+others(follower), writes(leader)+others(leader))
	before := []int{writes(follower) + others(follower), writes(leader), others(leader)}
	must(t, pause(ctx, span))
	idle := writes(follower) + others(follower) - before[0]
	puts, more := writes(leader)-before[1], others(leader)-before[2]
	const scale = int(5 * time.Minute / span)
	t.Logf("in %v: follower %d requests, leader %d PUTs and %d others; in 5 minutes that is %d, %d and %d",
		span, idle, puts, more, scale*idle, scale*puts, scale*more)
	if idle > 3 {
		t.Errorf("the follower sent %d requests in %v, want 3 at most", idle, span)
	}
	if want := int(span.Seconds()*0.5) + 1; puts > want {
		t.Errorf("the leader sent %d PUTs in %v, want %d at most", puts, span, want)
	}
	if more > 2 {
		t.Errorf("the leader sent %d requests besides its PUTs in %v, want 2 at most", more, span)
	}
	select {
	case again := <-terms:
		t.Errorf("%s led anew", again.by.identity)
	default:
	}
}
