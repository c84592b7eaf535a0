// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/zone"
)

// load is the requests of candidates to an API server: when each one came.
type load struct {
	mu    sync.Mutex
	since time.Time
	asked map[string][]time.Duration // by "read", "dial", "watch" and "claim"
}

func (l *load) count(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[kind] = append(l.asked[kind], time.Since(l.since))
}

// restart forgets what was counted.
func (l *load) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.asked = time.Now(), map[string][]time.Duration{}
}

// worst is the most requests of a kind in any span of a length.
func (l *load) worst(kind string, span time.Duration) (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Sorted(slices.Values(l.asked[kind]))
	first := 0
	for i, at := range all {
		for at-all[first] >= span {
			first++
		}
		most = max(most, i+1-first)
	}
	return most
}

// within is how many requests of a kind came between two moments.
func (l *load) within(kind string, from, to time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.asked[kind] {
		if from <= at && at < to {
			n++
		}
	}
	return n
}

func (l *load) total(kind string) int { return l.within(kind, 0, 1<<62) }

// weighed is a lock whose requests are counted. A new connection costs two more round trips.
type weighed struct {
	locks.Lock
	load *load
	trip time.Duration
	open *atomic.Bool // there is a connection
	cuts func() (<-chan struct{}, func() error)
}

func (w weighed) Read(ctx context.Context) (locks.Snapshot, error) {
	w.load.count("read")
	if _, wants := live.Wanted(ctx); wants || !w.open.Swap(true) {
		w.load.count("dial")
		time.Sleep(2 * w.trip)
	}
	return w.Lock.Read(ctx)
}

func (w weighed) Write(ctx context.Context, base locks.Version, r locks.Record) (locks.Snapshot, error) {
	if r.Holder != "" && r.Details.Token == 0 {
		w.load.count("claim")
	}
	return w.Lock.Write(ctx, base, r)
}

func (w weighed) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	w.load.count("watch")
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- w.Lock.Watch(ctx, from, events) }()
	cut, why := w.cuts()
	select {
	case err := <-ended:
		return err
	case <-cut:
		end()
		<-ended
		return why()
	}
}

// network is how far candidates are from the API server.
type network struct {
	trip  time.Duration // of a request and its answer
	watch time.Duration // from a write to the watchers
}

var office = network{trip: 10 * time.Millisecond, watch: 20 * time.Millisecond}

// multitude is a leader and many followers of one lock, whose requests are counted.
type multitude struct {
	*electiontest.Stage
	load      load
	lock      *memory.Lock
	links     []*lockstest.Faulty // the leader's is the first
	leader    *electiontest.Seat
	followers []*electiontest.Seat
	dead      chan struct{} // closed when the leader is proven dead
	net       network

	mu  sync.Mutex
	cut chan struct{}
	why error
}

var errShutdown = errors.New("the API server shuts down")

func newMultitude(s *electiontest.Stage, e moment, followers int, known bool, net network) *multitude {
	m := &multitude{Stage: s, lock: memory.New("lock"), dead: make(chan struct{}), cut: make(chan struct{}), net: net}
	m.load.restart()
	all := peers("leader@za")
	for i := range followers {
		all = append(all, peers(fmt.Sprintf("c%03d@z%c", i, "abc"[i%3]))...)
	}
	for i, p := range all {
		c := election.Config{Candidate: p.Candidate, TakeoverDelay: zone.Order{}.TakeoverDelay}
		if e.cause == status.CauseDied {
			c.ProveDead = m.proof
		}
		if known {
			c.WatchPeers = func(ctx context.Context, tell func([]locks.Peer)) { tell(all); <-ctx.Done() }
		}
		if !known && i%2 == 0 {
			c.TakeoverDelay = nil // the promises hold for package election alone, too
		}
		link := lockstest.NewFaulty(m.lock)
		m.links = append(m.links, link)
		c.Lock = far{weighed{link, &m.load, net.trip, new(atomic.Bool), m.cuts}, net.watch}
		link.Set(lockstest.Fault{Delay: net.trip / 2})
		seat := s.Seat(c)
		if i == 0 {
			m.leader = seat
		} else {
			m.followers = append(m.followers, seat)
		}
	}
	return m
}

// settle makes the leader lead, and the others follow.
func (m *multitude) settle() {
	m.leader.Start()
	m.leader.Leads()
	m.enter()
	time.Sleep(3*step + step/2)
	m.load.restart()
}

// enter starts all followers at once.
func (m *multitude) enter() {
	for _, f := range m.followers {
		f.Start()
	}
}

func (m *multitude) proof(ctx context.Context, s locks.Suspect) error {
	if s.Details.Holder == "leader" {
		select {
		case <-m.dead:
			return nil
		case <-ctx.Done():
		}
	}
	return errors.New("it is not known to be dead")
}

// cuts is closed when all watches end, for a reason that is known then.
func (m *multitude) cuts() (cut <-chan struct{}, why func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.why
	}
}

// endWatches ends all watches at once.
func (m *multitude) endWatches(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = why
	close(m.cut)
	m.cut = make(chan struct{})
}

// strike applies the same fault to all connections to the API, except the leader's.
func (m *multitude) strike(f lockstest.Fault) {
	f.Delay = m.net.trip / 2
	for _, l := range m.links[1:] {
		l.Set(f)
	}
}

func (m *multitude) silence() { m.links[0].Set(lockstest.Fault{Hang: true}) }

// clear empties the record as a manual edit does.
func (m *multitude) clear() {
	now, _ := m.lock.Read(m.T.Context())
	now.Record.Holder = ""
	if _, err := m.lock.Write(m.T.Context(), now.Version, now.Record); err != nil {
		m.T.Fatal(err)
	}
}

// moment is an event that all candidates learn of at the same instant.
type moment struct {
	name  string
	by    func(*multitude)
	alone bool // there is no leader before it
	deaf  bool // all watches are dead thereafter
	// free is how long after it the lock may be taken; negative if it may not.
	free  time.Duration
	cause status.Cause
	lasts time.Duration // zero is until a while after the takeover
}

var instants = []moment{
	{name: "expiry", by: (*multitude).silence, free: lease - step/2, cause: status.CauseExpired},
	{name: "deletion", by: func(m *multitude) { m.silence(); m.lock.Delete() }, free: lease - step/2, cause: status.CauseDeleted},
	{name: "clearing", by: func(m *multitude) { m.silence(); m.clear() }, free: lease, cause: status.CauseCleared},
	{name: "cold start", alone: true, by: func(m *multitude) { m.enter() }, cause: status.CauseAbsent},
	{name: "release", by: func(m *multitude) { m.leader.Stop() }, cause: status.CauseReleased},
	{name: "death proven", by: func(m *multitude) { m.silence(); m.leader.Quit <- election.ErrUnfinished; close(m.dead) }, cause: status.CauseDied},
	{name: "watches fail", by: func(m *multitude) { m.endWatches(errShutdown) }, free: -1, lasts: 2 * lease},
	{name: "watches end", by: func(m *multitude) { m.endWatches(nil) }, free: -1, lasts: 2 * lease},
	{name: "outage, refused", free: 3*lease + 2*step, cause: status.CauseExpired, by: func(m *multitude) {
		m.silence()
		m.strike(lockstest.Fault{Err: errShutdown})
		time.AfterFunc(3*lease, func() { m.strike(lockstest.Fault{}) })
	}},
	{name: "outage, silent", free: 3*lease + 2*step, cause: status.CauseExpired, by: func(m *multitude) {
		m.silence()
		m.strike(lockstest.Fault{Hang: true})
		time.AfterFunc(3*lease, func() { m.strike(lockstest.Fault{}); m.endWatches(errShutdown) })
	}},
	{name: "expiry, all watches dead", deaf: true, free: lease - step/2, cause: status.CauseExpired, by: func(m *multitude) {
		m.silence()
		m.strike(lockstest.Fault{Mute: true})
	}},
}

// tally is the outcome of a moment.
type tally struct {
	reads, dials, watches, claims int           // the most in any 10 ms
	first                         int           // claims in the second after the lock was free
	all                           string        // requests in total
	took                          time.Duration // after the lock was free
	cause                         status.Cause
}

var multitudes = []int{3, 50, 500}

const blink = 10 * time.Millisecond

// happen makes a moment happen to many followers.
func happen(t *testing.T, e moment, followers int, known bool, net network) (result tally) {
	electiontest.Scenario(t, func(s *electiontest.Stage) {
		m := newMultitude(s, e, followers, known, net)
		if !e.alone {
			m.settle()
		}
		start := time.Now()
		e.by(m)
		if e.lasts > 0 {
			time.Sleep(e.lasts)
		} else {
			term := m.next()
			result.took, result.cause = time.Since(start)-e.free, term.Cause
			time.Sleep(lease)
		}
		synctest.Wait()
		l := &m.load
		result.reads, result.dials = l.worst("read", blink), l.worst("dial", blink)
		result.watches, result.claims = l.worst("watch", blink), l.worst("claim", blink)
		result.first = l.within("claim", max(0, e.free), max(0, e.free)+time.Second)
		result.all = fmt.Sprintf("%d/%d/%d/%d", l.total("read"), l.total("dial"), l.total("watch"), l.total("claim"))
	})
	return result
}

// next waits for the next leader.
func (m *multitude) next() election.Term {
	m.T.Helper()
	for start := time.Now(); time.Since(start) < 8*lease; time.Sleep(time.Millisecond) {
		for _, f := range m.followers {
			select {
			case term := <-f.Leading:
				return term
			default:
			}
		}
	}
	m.T.Fatal("nobody leads")
	return election.Term{}
}

// lan and wan are networks that are nearer and farther.
var (
	lan = network{trip: time.Millisecond, watch: time.Millisecond}
	wan = network{trip: 200 * time.Millisecond, watch: 200 * time.Millisecond}
)

// bearable checks what 500 followers may ask of an API server.
func (r tally) bearable(t *testing.T) {
	t.Helper()
	if most := max(r.reads, r.dials, r.watches); most > 20 {
		t.Errorf("in 10 ms %d reads, %d dials and %d watches", r.reads, r.dials, r.watches)
	}
	if r.first > 5 {
		t.Errorf("%d tried to take the lock in the first second", r.first)
	}
}

func TestACrowdDoesNothingAtOneInstant(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for _, e := range instants {
		if e.alone || e.deaf {
			continue
		}
		// Ranking 500 known peers in 500 candidates takes minutes: see -scale.
		for known, followers := range map[bool]int{true: 25, false: 500} {
			t.Run(fmt.Sprintf("%s, %d, peers known: %v", e.name, followers, known), func(t *testing.T) {
				r := happen(t, e, followers, known, office)
				r.bearable(t)
				if r.cause != e.cause {
					t.Errorf("the lock was %s", r.cause)
				}
			})
		}
	}
}

func TestAtMostFiveOfFiveHundredWriteInTheFirstSecondThoughNoneKnowsTheOthers(t *testing.T) {
	for _, e := range instants {
		if e.cause != status.CauseAbsent && e.cause != status.CauseReleased {
			continue
		}
		for name, net := range map[string]network{"lan": lan, "office": office, "wan": wan} {
			t.Run(e.name+", "+name, func(t *testing.T) {
				r := happen(t, e, 500, false, net)
				if r.first > 5 {
					t.Errorf("%d tried to take the lock", r.first)
				}
			})
		}
	}
}

var scale = flag.Bool("scale", false, "print, with -v, what each instant costs an API server: some minutes")

func TestWhatAnInstantCosts(t *testing.T) {
	if !*scale {
		t.Skip("it prints a table, for -v -scale")
	}
	for _, known := range []bool{true, false} {
		for _, e := range instants {
			for _, n := range multitudes {
				if known && n > 100 && e.cause == status.CauseDied {
					continue // ranking all peers for each takes minutes
				}
				r := happen(t, e, n, known, office)
				t.Logf("%-26s peers %-5v %4d followers | in 10 ms: %3d reads %3d dials %3d watches %3d claims | first second %3d claims | total %s | taken after %v %v",
					e.name, known, n, r.reads, r.dials, r.watches, r.claims, r.first, r.all, r.took, r.cause)
			}
		}
	}
}
