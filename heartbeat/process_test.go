// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// world is an API server and the processes that campaign for locks on it.
type world struct {
	*testing.T
	*apitest.Server
	Timing    timing.Timing
	mu        sync.Mutex
	histories map[string]*electiontest.History // by lock
	processes []*process
	peers     func(context.Context, func([]locks.Peer)) // nil if the candidates do not know each other
	processID func() locks.ProcessID                    // nil if none is known
	logs      bool                                      // what electors log is noted
	lingers   bool                                      // work goes on for a StopGrace when its term is lost
	over      map[epoch]bool
	log       []string            // of what was done, for a failure
	restored  bool                // a backup was, so that tokens went back
	places    int                 // how many writes of a process may be under way
	heart     func(*lease.Config) // changes the Leases of heartbeats; nil leaves them
}

// scenario runs f in a bubble of virtual time. Afterwards it stops all processes and checks
// that no two led a lock together.
func scenario(t *testing.T, f func(w *world)) {
	t.Helper()
	outer := t
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Server: apitest.NewServer(), Timing: timing.Timing{Exclusive: true}.WithDefaults(), histories: map[string]*electiontest.History{}, places: 4}
		w.watchEpochs()
		defer func() {
			for _, p := range w.processes {
				p.stop()
			}
			elapse(w.Timing.RenewDeadline) // for what is confirmed or detached still
			for name, h := range w.histories {
				if err := h.Check(); err != nil && (!w.restored || strings.Contains(err.Error(), "two leaders")) {
					t.Errorf("lock %s: %v", name, err)
				}
			}
			if t.Failed() || outer.Failed() {
				t.Log(strings.Join(w.log, "\n"))
			}
		}()
		f(w)
	})
}

// watchEpochs checks that no epoch comes back after it has ended.
func (w *world) watchEpochs() {
	w.over = map[epoch]bool{}
	w.Stored = func(_ *http.Request, path string, before, after apitest.Object) {
		w.checkNotes(path)
		if !strings.HasPrefix(path, all+"heart-") {
			return
		}
		was, is := w.epochOf(before), w.epochOf(after)
		if w.over[is] {
			w.Errorf("the epoch %s began again", is)
		}
		if was != "" && was != is {
			w.over[was] = true
		}
	}
}

// checkNotes checks that no note releases a lock that is led. It is called while the server is
// locked, when a Lease was stored.
func (w *world) checkNotes(path string) {
	w.mu.Lock()
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	for _, p := range processes {
		meta, _ := w.Objects[all+"heart-"+p.id]["metadata"].(apitest.Object)
		if notes, _ := meta["annotations"].(apitest.Object); notes[record.AnnotationReleasedLocks] == nil {
			continue
		}
		heart := w.stored("heart-" + p.id)
		p.mu.Lock()
		for name := range p.led {
			if path != all+name && path != all+heart.Name {
				continue
			}
			if lock := w.stored(name); lock != nil && p.id == record.Read(lock).Holder && holderOf(lock, heart) == "" {
				w.Errorf("%s leads %s, which its heartbeat notes as released: %s", p.id, name, heart.Annotations[record.AnnotationReleasedLocks])
			}
		}
		p.mu.Unlock()
	}
}

// holderOf is whom a lock and its heartbeat name together.
func holderOf(lock, heart *coordinationv1.Lease) string {
	s, _ := Compose(lock, heart)
	return s.Record.Holder
}

// stored is a Lease; nil if there is none. The caller has locked the server.
func (w *world) stored(name string) *coordinationv1.Lease {
	o := w.Objects[all+name]
	if o == nil {
		return nil
	}
	l := &coordinationv1.Lease{}
	if err := json.Unmarshal(apitest.Marshal(o), l); err != nil {
		w.Error(err)
	}
	return l
}

func (w *world) epochOf(o apitest.Object) epoch {
	var l coordinationv1.Lease
	if o == nil {
		return ""
	}
	if err := json.Unmarshal(apitest.Marshal(o), &l); err != nil {
		w.Error(err)
	}
	if e := epochOf(&l); e != "" {
		return epoch(l.UID) + " " + e
	}
	return ""
}

// backup copies all Leases, and returns a function that restores them.
func (w *world) backup() (restore func()) {
	put := w.Backup()
	return func() {
		put()
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.restored = true
		clear(w.over)
	}
}

// note notes what happened, for a failure.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// noted is how often something was noted.
func (w *world) noted(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// lease is a Lease as the server has it; nil if there is none.
func (w *world) lease(name string) *coordinationv1.Lease {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.stored(name)
}

// edit changes a Lease by hand.
func (w *world) edit(name string, do func(*coordinationv1.Lease)) {
	l := w.lease(name)
	if l == nil {
		return
	}
	do(l)
	w.Put(all+name, l)
}

func (w *world) history(lock string) *electiontest.History {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.histories[lock] == nil {
		w.histories[lock] = &electiontest.History{}
	}
	return w.histories[lock]
}

// holder is who a lock's Lease names.
func (w *world) holder(lock string) string {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	spec, _ := w.Objects[all+lock]["spec"].(apitest.Object)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// eachIsLedOnce checks that each of the first n locks has one leader.
func (w *world) eachIsLedOnce(n int) {
	w.Helper()
	for i := range n {
		name, leaders := fmt.Sprintf("lock-%d", i), 0
		for _, p := range w.processes {
			p.mu.Lock()
			if _, leads := p.led[name]; leads {
				leaders++
			}
			p.mu.Unlock()
		}
		if leaders != 1 {
			w.Errorf("%d lead %s at the end: %v", leaders, name, w.lease(name))
		}
	}
}

// process is one process with a heartbeat.
type process struct {
	world     *world
	id        string
	link      *link
	heartLink *link
	common    config
	ctx       context.Context
	kill      context.CancelFunc // ends all
	quit      context.CancelFunc // ends the elections in good order
	endHeart  context.CancelFunc // ends the heartbeat in good order
	electors  sync.WaitGroup
	beating   sync.WaitGroup
	viewing   sync.WaitGroup
	heartbeat *election.Elector

	mu  sync.Mutex
	led map[string]election.Term
}

// process starts a process. Without heartbeat that never beats, and the locks are renewed by writes.
func (w *world) process(id string, heartbeat bool) *process {
	w.Helper()
	p := &process{world: w, id: id, link: &link{}, heartLink: &link{}, led: map[string]election.Term{}}
	client := apitest.Wire(w.T, p.link.through(w.Server), coordinationv1.SchemeGroupVersion)
	viewCtx, endView := context.WithCancel(context.Background())
	view, err := leasewatch.New(leasewatch.Config{Client: client, Namespace: "ns", Patience: w.Timing.AttemptTimeout, Limit: w.Timing.RenewDeadline})
	if err != nil {
		w.Fatal(err)
	}
	p.viewing.Go(func() { view.Run(viewCtx) })
	p.common = config{client: client, namespace: "ns", view: view, writes: newWrites(w.places, w.Timing.AttemptTimeout)}
	heartCtx, endHeart := context.WithCancel(context.Background())
	p.endHeart = endHeart
	hearts := apitest.Wire(w.T, p.heartLink.through(w.Server), coordinationv1.SchemeGroupVersion)
	heart := lease.Config{Client: hearts, Namespace: "ns", Name: "heart-" + id}
	if w.heart != nil {
		w.heart(&heart)
	}
	p.common.heart, err = newHeart(heartConfig{lease: heart, view: view, writes: p.common.writes, identity: id, timing: w.Timing})
	if err != nil {
		w.Fatal(err)
	}
	if heartbeat {
		p.heartbeat = p.elector(p.common.heart)
		p.beating.Go(func() {
			_ = p.heartbeat.Run(heartCtx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
		})
	}
	p.ctx, p.quit = context.WithCancel(context.Background())
	p.kill = func() {
		p.quit()
		p.electors.Wait()
		if heartbeat {
			p.common.heart.settle(heartCtx)
		}
		endHeart()
		p.beating.Wait()
		p.common.heart.finish()
		endView()
		p.viewing.Wait()
	}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	synctest.Wait()
	return p
}

func (p *process) elector(lock locks.Lock) *election.Elector {
	c := election.Config{Lock: lock, Candidate: locks.Candidate{Identity: p.id, Zone: "z-" + p.id}, Timing: p.world.Timing, ProcessID: p.world.processID}
	if p.world.logs {
		c.Logger = funcr.New(func(_, text string) { p.world.note("%s logs %s", p.id, text) }, funcr.Options{})
	}
	if lock != locks.Lock(p.common.heart) {
		c.WatchPeers = p.world.peers
	}
	if lock.Capabilities().Renewer != nil {
		c.Queue = p.common.writes.enter
	}
	e, err := election.New(c)
	if err != nil {
		p.world.Fatal(err)
	}
	return e
}

// campaign starts n elections.
func (p *process) campaign(n int) []*election.Elector {
	var all []*election.Elector
	for i := range n {
		all = append(all, p.campaignFor(fmt.Sprintf("lock-%d", i)))
	}
	return all
}

func (p *process) campaignFor(name string) *election.Elector {
	lock, err := p.common.lock(name)
	if err != nil {
		p.world.Fatal(err)
	}
	return p.campaignOn(name, lock)
}

// campaignPlainly starts an election of a candidate without a heartbeat.
func (p *process) campaignPlainly(name string) *election.Elector {
	lock, err := lease.New(lease.Config{Client: p.common.client, Namespace: "ns", Name: name})
	if err != nil {
		p.world.Fatal(err)
	}
	return p.campaignOn(name, lock)
}

// watched reads a lock, and returns what a watch of it shows while something is done, and for a
// second after it.
func (w *world) watched(lock locks.Lock, do func()) (seen []locks.Snapshot) {
	s, err := lock.Read(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	events, ended := make(chan locks.Event, 10), make(chan error)
	go func() { ended <- lock.Watch(ctx, s.Version, events) }()
	synctest.Wait()
	do()
	elapse(time.Second)
	cancel()
	<-ended
	for close(events); len(events) > 0; {
		if e := <-events; !e.Bookmark {
			seen = append(seen, e.Snapshot)
		}
	}
	return seen
}

func (p *process) campaignOn(name string, lock locks.Lock) *election.Elector {
	e := p.elector(lock)
	p.electors.Go(func() {
		_ = e.Run(p.ctx, p.world.history(name).Lead(func(ctx context.Context, term election.Term) error {
			p.mu.Lock()
			p.led[name] = term
			p.mu.Unlock()
			p.world.note("%s leads %s: token %d, %s after %q", p.id, name, term.Token, term.Cause, term.Previous)
			<-ctx.Done()
			p.world.note("%s is to stop leading %s: %v", p.id, name, context.Cause(ctx))
			if p.world.lingers && errors.Is(context.Cause(ctx), election.ErrLost) {
				time.Sleep(p.world.Timing.StopGrace - time.Millisecond)
			}
			p.mu.Lock()
			delete(p.led, name)
			p.mu.Unlock()
			return nil
		}))
	})
	return e
}

// leads returns how many locks the process leads.
func (p *process) leads() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.led)
}

// stop stops the process in good order.
func (p *process) stop() { p.kill() }

// cut takes both links of the process away, or brings them back.
func (p *process) cut(is bool) { p.link.cut(is); p.heartLink.cut(is) }

// link is a process's connection to the API server.
type link struct {
	mu     sync.Mutex
	down   chan struct{} // closed when the link is up again; nil while it is up
	mute   chan struct{} // the same, for the events of watches
	before func(*http.Request)
	after  func(*http.Request) // once a request is served that is not a watch, before its answer comes
	counts map[string]int      // requests by verb and name
}

func (l *link) set(gate *chan struct{}, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case is && *gate == nil:
		*gate = make(chan struct{})
	case !is && *gate != nil:
		close(*gate)
		*gate = nil
	}
}

func (l *link) cut(is bool)     { l.set(&l.down, is); l.set(&l.mute, is) }
func (l *link) silence(is bool) { l.set(&l.mute, is) }

// intercept has before see each request when it arrives, and after when it is served.
func (l *link) intercept(before, after func(*http.Request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

func (l *link) later() func(*http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.after
}

// deafen leaves the watches that are mute as they are, and new ones alone.
func (l *link) deafen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = nil
}

func (l *link) gate(gate *chan struct{}) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *gate
}

func (l *link) through(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gate := l.gate(&l.down); gate != nil {
			<-r.Context().Done()
			return
		}
		l.mu.Lock()
		if l.counts == nil {
			l.counts = map[string]int{}
		}
		l.counts[r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
		l.counts[r.Method]++
		before := l.before
		l.mu.Unlock()
		if before != nil {
			before(r)
		}
		if after := l.later(); after != nil && r.URL.Query().Get("watch") != "true" {
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, r)
			after(r)
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
		if r.URL.Query().Get("watch") == "true" {
			w = &muted{ResponseWriter: w, link: l, ctx: r.Context()}
		}
		server.ServeHTTP(w, r)
	})
}

// muted is the answer to a watch, which waits while the link is mute.
type muted struct {
	http.ResponseWriter
	link *link
	ctx  context.Context
}

func (m *muted) Write(b []byte) (int, error) {
	if gate := m.link.gate(&m.link.mute); gate != nil {
		select {
		case <-gate:
		case <-m.ctx.Done():
			return 0, io.ErrClosedPipe
		}
	}
	return m.ResponseWriter.Write(b)
}

func (m *muted) Flush() { m.ResponseWriter.(http.Flusher).Flush() }

// count returns how many requests of a method were sent since the last call.
func (p *process) count(method string) int {
	n := 0
	for _, l := range []*link{p.link, p.heartLink} {
		l.mu.Lock()
		n += l.counts[method]
		delete(l.counts, method)
		l.mu.Unlock()
	}
	return n
}

// elapse lets time pass.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
