// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/internal/handovers"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/lockstest"
)

const (
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"
	heartOf    = "heart-" // before the name of a process: its heartbeat's Lease
)

// mostAlone is how many locks there are at most beside candidates without a heartbeat, each of
// which has a watch for each lock.
const mostAlone = 8

// onHeartbeats are processes that each campaign for many Leases, and keep all that they hold
// with one heartbeat. Some have none: they wait while a heartbeat keeps a lock.
var onHeartbeats = &population{
	name: "heartbeat", seats: 5, crowd: true, steps: 60, mixes: exclusive(ourMixes),
	faults:  append(append([]fault{garble, unname, choke, choke, choke}, onCaches...), inMemory.faults...),
	cluster: func(w *world) cluster { return newHearts(w) },
}

// exclusive are the same mixes without client-go's electors, which heartbeats need.
func exclusive(all []mix) (same []mix) {
	for _, m := range all {
		var ours []election.Timing
		for _, t := range m.ours {
			t.Exclusive = true
			ours = append(ours, t)
		}
		same = append(same, alike(ours...))
	}
	return same
}

// hearts is a cluster with many locks and the heartbeats that keep them.
type hearts struct {
	*api
	codec  *codec
	locks  []kept                           // as the server has them
	wrote  []time.Time                      // when they were written last
	named  map[string]int                   // the number of a lock by its path
	leases map[string]*coordinationv1.Lease // as the server has them, by path
	epochs map[string]bool                  // all that there were
	beats  map[string]time.Time             // when the last heartbeat of an epoch came, by its name
	left   map[string]time.Time             // and when it left its process

	mu        sync.Mutex
	processes map[string]*process
}

// kept is a lock that a heartbeat keeps; else it is zero.
type kept struct {
	holder, heart, uid, epoch string
	lease                     time.Duration
}

func newHearts(w *world) *hearts {
	h := &hearts{
		api: newAPI(w), codec: newCodec(), locks: make([]kept, w.locks), wrote: make([]time.Time, w.locks),
		named: map[string]int{}, leases: map[string]*coordinationv1.Lease{}, epochs: map[string]bool{}, beats: map[string]time.Time{}, left: map[string]time.Time{}, processes: map[string]*process{},
	}
	for i := range h.locks {
		h.named[h.path(i)] = i
	}
	h.server.Sealed = true
	h.server.Stored = func(r *http.Request, path string, _, _ apitest.Object) {
		before, after := h.leases[path], h.leaseOf(h.server.Raw(path))
		h.leases[path] = after
		if i, is := h.named[path]; is {
			h.wroteLock(i, senderOf(r), leftAt(r), after)
		} else {
			h.wroteHeart(path, senderOf(r), leftAt(r), before, after)
		}
	}
	return h
}

func lockName(i int) string { return fmt.Sprint("lock-", i) }

func (h *hearts) path(i int) string { return leasesPath + lockName(i) }

// leaseOf is an object as a Lease; nil if there is none.
func (h *hearts) leaseOf(raw []byte) *coordinationv1.Lease {
	if raw == nil {
		return nil
	}
	l, err := h.codec.lease(raw)
	if err != nil {
		panic(err)
	}
	return l
}

// keptBy reads which heartbeat keeps a lock.
func keptBy(l *coordinationv1.Lease) (k kept) {
	if l == nil {
		return kept{}
	}
	parts := strings.Split(l.Annotations[record.AnnotationHeartbeat], " ")
	holder := record.Read(l).Holder
	if len(parts) != 4 || holder == "" {
		return kept{}
	}
	seconds, err := strconv.Atoi(parts[3])
	if err != nil {
		return kept{}
	}
	return kept{holder, parts[0], parts[1], parts[2], time.Duration(seconds) * time.Second}
}

// epochOf is the epoch of a heartbeat's Lease; empty if there is none.
func epochOf(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	r := record.Read(l)
	if r.Holder == "" || r.Details.Holder != r.Holder || r.Details.Nonce == "" {
		return ""
	}
	e := r.Details.Nonce + "." + strconv.FormatInt(r.AcquireTime.UnixMicro(), 36)
	if noted, _, _ := strings.Cut(l.Annotations[record.AnnotationWithdrawn], " "); noted == e {
		return "" // whoever put the holder's name back
	}
	return e
}

// wroteLock judges a change of a lock. If a heartbeat keeps it, the lease is the one that the
// heartbeat's holder named.
func (h *hearts) wroteLock(i int, by *process, left time.Time, lease *coordinationv1.Lease) {
	j, was := h.world.judges[i], h.locks[i]
	h.locks[i], h.wrote[i] = keptBy(lease), time.Now()
	var part *process
	if by != nil {
		part = by.parts[i]
		if now := h.leases[leasesPath+was.heart]; was.heart != "" && by.name != was.holder && h.goesOn(was, now) {
			j.broken("%v wrote the lock of %s while the heartbeat that keeps it goes on", by, was.holder)
		}
	}
	if lease == nil {
		j.wrote(part, nil)
		return
	}
	r := record.Read(lease)
	if k := h.locks[i]; k.heart != "" {
		r.LeaseDuration = k.lease
	}
	if was.heart != "" && h.locks[i].heart == "" && j.renewedLike(part, &r) {
		return // its process has detached it, at the instant of its last heartbeat, and trusts neither
	}
	if was == h.locks[i] && was.heart != "" && j.renewedNoLater(part, &r) && !left.After(h.left[was.uid+" "+was.epoch]) {
		return // others count from a heartbeat of that instant or later, which left no earlier than this write
	}
	j.wrote(part, &r)
}

// goesOn reports whether the epoch that keeps a lock is that of the heartbeat's Lease.
func (h *hearts) goesOn(k kept, heart *coordinationv1.Lease) bool {
	return heart != nil && string(heart.UID) == k.uid && epochOf(heart) == k.epoch
}

// wroteHeart judges a change of a heartbeat's Lease.
func (h *hearts) wroteHeart(path string, by *process, left time.Time, before, after *coordinationv1.Lease) {
	j, owner := h.world.judge, strings.TrimPrefix(path, leasesPath+heartOf)
	was, is := epochOf(before), epochOf(after)
	switch {
	case by == nil || after == nil:
		j.log("%.3fs %v changes the heartbeat of %s: %s", time.Since(j.start).Seconds(), by, owner, plain(is))
	case by.name != owner:
		h.withdrew(by, owner, before, after)
	case is != "":
		named := string(after.UID) + " " + is
		if was != is && h.epochs[named] {
			j.broken("%v begins epoch %s again", by, plain(is))
		}
		h.epochs[named] = true
		h.beats[named], h.left[named] = h.sightOf(after), left
		h.beat(by, after)
		h.released(by, after)
	}
	if was != is {
		j.log("%.3fs %v: the epoch of %s was %q, is %q", time.Since(j.start).Seconds(), by, owner, plain(was), plain(is))
	}
}

// sightOf is when others can first have seen a heartbeat that comes now: before it, if a lock that
// it keeps has the same renewTime. It renews that lock no more, and its process knows (L1).
func (h *hearts) sightOf(heart *coordinationv1.Lease) time.Time {
	first, renewed := time.Now(), record.Read(heart).RenewTime
	for i, k := range h.locks {
		if lock := h.leases[h.path(i)]; h.goesOn(k, heart) && record.Read(lock).RenewTime.Equal(renewed) && h.wrote[i].Before(first) {
			first = h.wrote[i]
		}
	}
	return first
}

// plain is an epoch without the nonce of its process, which differs from run to run.
func plain(epoch string) string {
	_, rest, _ := strings.Cut(epoch, ".")
	return rest
}

// beat renews all locks that a heartbeat keeps.
func (h *hearts) beat(by *process, heart *coordinationv1.Lease) {
	for i, k := range h.locks {
		if k.holder == by.name && k.heart == heart.Name && k.uid == string(heart.UID) && k.epoch == epochOf(heart) {
			h.world.judges[i].beat(by.parts[i], record.Read(heart).RenewTime)
		}
	}
}

// released judges the locks that a heartbeat's Lease notes as released (L8).
func (h *hearts) released(by *process, heart *coordinationv1.Lease) {
	for i, k := range h.locks {
		if k.holder != by.name || k.heart != heart.Name {
			continue
		}
		if s, _ := heartbeat.Compose(h.leases[h.path(i)], heart); s.Record.Holder == "" {
			h.locks[i] = kept{}
			h.world.judges[i].wrote(by.parts[i], &s.Record)
		}
	}
}

// withdrew judges that a candidate withdraws an epoch only a lease after its last heartbeat,
// or after its process died, leaves a note of it, and leaves another epoch alone (L2, L3).
func (h *hearts) withdrew(by *process, owner string, before, after *coordinationv1.Lease) {
	j := h.world.judge
	j.log("%.3fs %v withdraws the heartbeat of %s", time.Since(j.start).Seconds(), by, owner)
	h.mu.Lock()
	holder := h.processes[owner]
	h.mu.Unlock()
	got := after.Annotations[record.AnnotationWithdrawn]
	over, _, _ := strings.Cut(got, " ")
	named := string(before.UID) + " " + over
	last := "-" // another epoch has replaced it, or somebody emptied the Lease or removed the time
	if at := record.Read(before).RenewTime; epochOf(before) == over && !at.IsZero() {
		last = strconv.FormatInt(at.UnixMicro(), 10)
	}
	note := fmt.Sprintf("%s %s %s", over, before.ResourceVersion, last)
	if got != note || !h.epochs[named] {
		j.broken("%v withdraws the heartbeat of %s and notes %q, not %q", by, owner, plain(got), plain(note))
	}
	goesOn := ""
	if was := epochOf(before); was != over {
		goesOn = was
	}
	if is := epochOf(after); is != goesOn {
		j.broken("%v withdraws epoch %s of %s, and epoch %q becomes %q", by, plain(over), owner, plain(goesOn), plain(is))
	}
	proven := h.world.judge.ended(holder) && by.provesAny()
	if left := time.Until(h.beats[named].Add(holder.lease)); left > 0 && !proven {
		j.broken("%v withdraws the heartbeat of %s %v before its lease is over", by, owner, left)
	}
}

// provesAny reports whether a part of p can prove deaths.
func (p *process) provesAny() bool {
	for _, part := range p.parts {
		if part.proves {
			return true
		}
	}
	return false
}

// beat notes that a heartbeat of a lock's holder has come. One with the time of the lock's own
// write renews nothing, for others cannot tell the two apart.
func (j *judge) beat(by *process, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h := &j.lease; h.by == by && h.exists && h.isHeld() && !h.record.RenewTime.Equal(at) {
		h.renewed, h.record.RenewTime = time.Now(), at
	}
}

// renewedLike reports whether a record shows the last renewal of its holder again.
func (j *judge) renewedLike(by *process, r *locks.Record) bool {
	last, is := j.lastRenewalBy(by)
	return is && sameRenewal(*r, last)
}

// renewedNoLater reports whether a record of the last renewal's term is no later than that.
func (j *judge) renewedNoLater(by *process, r *locks.Record) bool {
	last, is := j.lastRenewalBy(by)
	like := *r
	like.RenewTime = last.RenewTime
	return is && sameRenewal(like, last) && !r.RenewTime.After(last.RenewTime)
}

// lastRenewalBy returns the last renewal, if it is by that process.
func (j *judge) lastRenewalBy(by *process) (last locks.Record, is bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease.record, by != nil && j.lease.by == by && j.lease.exists
}

// ended reports whether nothing of a process still runs.
func (j *judge) ended(p *process) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return p.isDone()
}

// broken notes a broken rule.
func (j *judge) broken(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unlawful(format, args...)
}

// ways are the connections of a process: one for its heartbeat, one for all else.
type ways struct{ rest, heart *wire }

// Set changes how both fail.
func (w *ways) Set(f lockstest.Fault) { w.rest.Set(f); w.heart.Set(f) }

// way is the connection of a process that a step is for.
func (p *process) way(s step) link {
	w, two := p.link.(*ways)
	if !two {
		return p.link
	}
	return []link{w, w, w.heart, w.rest}[s.degree/time.Millisecond%4]
}

func (h *hearts) join(p *process) {
	h.mu.Lock()
	h.processes[p.name] = p
	h.mu.Unlock()
	both := &ways{newWire(p), newWire(p)}
	both.rest.codec, both.heart.codec = h.codec, h.codec
	both.heart.dice = rand.New(rand.NewPCG(h.world.seed, p.dice.Uint64()))
	p.link = both
	client := both.rest.client(coordinationv1.SchemeGroupVersion)
	view, err := leasewatch.New(leasewatch.Config{Client: client, Namespace: "ns", Patience: p.timing.AttemptTimeout, Limit: p.timing.RenewDeadline})
	if err != nil {
		panic(err)
	}
	if p.seat > 1 && p.dice.IntN(4) == 0 && len(h.locks) <= mostAlone { // others have to take the locks of dead processes
		h.campaign(p, func(name string) (locks.Lock, error) {
			return lease.New(lease.Config{Client: client, Namespace: "ns", Name: name})
		})
		p.run = func(ctx context.Context) { p.runParts(ctx, view, nil) }
		return
	}
	kept := h.kept(p, extension.Place{
		Environment: &environment.Environment{Namespace: "ns", Timing: p.timing, Self: environment.Self{Identity: p.name}},
		Clients:     &environment.Clients{Coordination: client.(*rest.RESTClient)}, View: view,
	}, both.heart)
	p.queue = kept.Enter
	h.campaign(p, kept.New)
	p.run = func(ctx context.Context) { p.runParts(ctx, view, kept) }
}

// kept returns the locks of a process, which a heartbeat keeps.
func (h *hearts) kept(p *process, place extension.Place, w *wire) extension.Locks {
	heart := lease.Config{Client: w.client(coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: heartOf + p.name}
	if p.dice.IntN(8) == 0 {
		heart.Logger = logr.New(&stalls{process: p, dice: rand.New(rand.NewPCG(h.world.seed, p.dice.Uint64()))})
	}
	all, err := extension.NewBeating(place, heart, 4)
	if err != nil {
		panic(err)
	}
	return all
}

// campaign makes the parts of a process. Those in the first two seats campaign for all locks,
// so that each lock always has two candidates.
func (h *hearts) campaign(p *process, lockOn func(name string) (locks.Lock, error)) {
	p.parts = nil
	for i, j := range h.world.judges {
		part := p.part(j)
		p.parts = append(p.parts, part)
		if p.seat > 1 && p.dice.IntN(8) == 0 {
			continue
		}
		switch p.dice.IntN(24) {
		case 0:
			part.habit = tardy
		case 1:
			part.habit = careless
		}
		lock, err := lockOn(lockName(i))
		if err != nil {
			panic(err)
		}
		part.elect(lock)
	}
}

// runParts runs a process as a program does: the heartbeat ends after the elections, and what
// follows the Leases after that.
func (p *process) runParts(ctx context.Context, view *leasewatch.View, kept extension.Locks) {
	var campaigns, viewing sync.WaitGroup
	viewCtx, endView := context.WithCancel(context.Background())
	viewing.Go(func() { view.Run(viewCtx) })
	endHeart := func() {}
	if kept != nil {
		endHeart = kept.Start(context.Background())
	}
	for _, part := range p.parts {
		if part.elector != nil {
			campaigns.Go(func() { part.run(ctx) })
		}
	}
	campaigns.Wait()
	endHeart()
	endView()
	viewing.Wait()
	p.rest.Wait()
}

func (h *hearts) harm(s step) {
	switch s.fault {
	case compact:
		h.server.Compact()
		return
	case choke:
		h.choked(s)
		return
	case hide: // as it was recreated, see hideAgain
		h.hurt(h.path(0), s)
		return
	}
	for _, i := range s.among(len(h.locks)) {
		path := h.path(i)
		if s.fault == unname || s.fault == garble || s.fault == bare {
			h.change(path, func(o apitest.Object) { h.unnamed(o, s) })
		}
		if s.fault != unname {
			h.hurt(path, s)
		}
	}
}

const spoiled = "spoiled"

// unnamed removes from a lock which heartbeat keeps it, or spoils that. A process that finds
// none on an emptied lock, and never saw the lease, goes by its own.
func (h *hearts) unnamed(o apitest.Object, s step) {
	k := keptBy(h.leaseOf(apitest.Marshal(o)))
	a, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	switch {
	case k.heart == "" || k.lease > h.world.mix.least() && s.fault != bare:
	case s.degree/time.Millisecond%3 == 0:
		a[record.AnnotationHeartbeat] = spoiled
	default:
		delete(a, record.AnnotationHeartbeat)
	}
}

// choked changes the Lease of the heartbeat of the process in a seat.
func (h *hearts) choked(s step) {
	h.world.mu.Lock()
	p := h.world.seats[s.seat]
	h.world.mu.Unlock()
	if p == nil {
		return
	}
	path := leasesPath + heartOf + p.name
	remove := func(fields ...string) {
		h.change(path, func(o apitest.Object) {
			for _, field := range fields {
				delete(spec(o), field)
			}
		})
	}
	switch s.degree / time.Millisecond % 8 {
	case 0, 1:
		h.server.Delete(path)
	case 2:
		h.change(path, func(o apitest.Object) { spec(o)["holderIdentity"] = "" })
	case 3:
		remove("acquireTime", "renewTime", "leaseDurationSeconds", "leaseTransitions")
	case 4:
		remove("renewTime", "leaseDurationSeconds")
	case 5:
		h.change(path, func(o apitest.Object) {
			annotate(o, record.AnnotationRequest, handovers.Format(handovers.Request{Holder: p.name}))
		})
	case 6:
		h.change(path, func(o apitest.Object) { annotate(o, record.AnnotationEvacuated, fmt.Sprint("z", p.seat)) })
	case 7:
		h.change(path, func(o apitest.Object) { annotate(o, record.AnnotationWithdrawn, "spoiled") })
	}
}

// mend ends an evacuation of the heartbeats, too, and at the end waits for what outlives the
// processes.
func (h *hearts) mend() {
	if h.world.over {
		time.Sleep(h.world.mix.lease())
		return
	}
	h.endless()
	for _, p := range h.world.current() {
		h.change(leasesPath+heartOf+p.name, func(o apitest.Object) {
			annotate(o, record.AnnotationEvacuated, "")
		})
	}
}
