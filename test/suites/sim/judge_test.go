// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
)

// judge sees each write that the server accepts, and each begin and end of work.
// It reports breaches of zonelect's rules, and counts what other programs did.
type judge struct {
	mu     sync.Mutex
	start  time.Time
	faults []string // broken rules
	log    func(format string, args ...any)

	lease  held              // the record that decides among candidates
	legacy held              // that of legacy electors, if there are any
	tidies bool              // candidates remove what they wrote for legacy electors
	clean  bool              // the phase is clean: the Lease alone counts
	made   func(by *process) // called when a record is created
	gone   time.Time         // when it was deleted last

	unsaid  bool      // it named a holder and no duration, and nobody has said one since
	endless bool      // no candidate that sees the record takes the lock by time alone, deleted or not
	cured   time.Time // when that was over last

	tampered time.Time // the last manual change, see tamper
	victim   *process  // the holder of the lock then

	byHand  bool                      // the ConfigMap was deleted by hand, and is not armed again yet
	beyond  map[[2]*process]time.Time // pairs that work beside each other because of that, and since when
	working []*process                // those whose work has begun and not ended, in the order of their begins
	robbed  map[*process]bool         // another program took the lock from it
	token   uint64
	leader  string // the last leader

	failovers int
	overlaps  map[string]int // those that other programs had a part in, by cause
}

// held is what a record says, as of its accepted writes, whether it still exists
// or not.
type held struct {
	holder  string
	theirs  bool // the holder is another program
	given   bool // the holder gave it up itself
	exists  bool
	blank   bool      // somebody recreated it by hand, without a holder
	emptied bool      // its holder has gone from it by hand since the last renewal
	by      *process  // the holder
	owed    time.Time // its holder may not work until then: it created the record where another's had been deleted
	owedTo  *process  // whose lease that is
	since   time.Time // when the holder took the lock
	renewed time.Time
	lasts   time.Duration
	record  locks.Record // of the last renewal

	replaced *held // what the holder took over from; nil for nothing
}

// isHeld reports whether it has a holder that has not released it.
func (h held) isHeld() bool { return h.holder != "" && !h.given }

// left is for how much longer a process must not take the lock: as long as the
// record says, or as its own lease says if the process goes by that alone.
func (h held) left(by *process, now time.Time) time.Duration {
	if !h.isHeld() {
		return 0
	}
	lasts := h.lasts
	if by != nil && by.heeds > 0 {
		lasts = by.heeds
	}
	return max(0, h.renewed.Add(lasts).Sub(now))
}

func newJudge(log func(string, ...any)) *judge {
	return &judge{
		start: time.Now(), log: log, made: func(*process) {},
		robbed: map[*process]bool{}, beyond: map[[2]*process]time.Time{}, overlaps: map[string]int{},
	}
}

// inPhase notes a phase that somebody sets.
func (j *judge) inPhase(phase string, step int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log("the phase is %s, step %d", phase, step)
	j.clean = phase == "clean"
}

// unlawful notes a broken rule. The caller holds mu.
func (j *judge) unlawful(format string, args ...any) {
	text := fmt.Sprintf("%.3fs: ", time.Since(j.start).Seconds()) + fmt.Sprintf(format, args...)
	j.faults = append(j.faults, text)
	j.log("UNLAWFUL %s", text)
}

func (j *judge) overlap(why string) {
	j.overlaps[why]++
	j.log("%.3fs overlap: %s", time.Since(j.start).Seconds(), why)
}

// isUnsaid reports whether nobody has said how long the holder leads that the record named last.
func (j *judge) isUnsaid() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unsaid
}

// verdict returns the rules that were broken so far.
func (j *judge) verdict() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.faults
}

// wrote notes that a process changed the record that decides. by is nil for
// anybody else, and after is nil if the record was deleted.
func (j *judge) wrote(by *process, after *locks.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log("%.3fs %v writes %v", time.Since(j.start).Seconds(), by, (*wording)(after))
	existed := j.lease.exists
	j.changed(&j.lease, by, after)
	if after == nil {
		j.gone = time.Now()
		return
	}
	if j.endless && after.LeaseDuration > 0 {
		j.cured = time.Now()
	}
	j.endless = after.LeaseDuration == 0
	j.unsaid = j.endless && (j.unsaid || after.Holder != "")
	if !existed {
		j.made(by)
	}
}

// wroteLegacy notes that the record of legacy electors was changed. It decides
// nothing among candidates.
func (j *judge) wroteLegacy(by *process, after *locks.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log("%.3fs %v writes for legacy electors %v", time.Since(j.start).Seconds(), by, (*wording)(after))
	if by != nil && by.ours && !j.legacy.theirs {
		j.legacy.given = true // a candidate's record there decides nothing
	}
	if by != nil && by.ours && after != nil {
		by.half = half{at: time.Now(), renewed: after.RenewTime}
	}
	if by != nil && by.ours && after != nil && after.Holder == "" {
		// The first half of a release; the Lease may be gone, so that the other half
		// never comes.
		if j.lease.holder == by.name && (!slices.Contains(j.working, by) || !j.tidies) {
			j.emptied(&j.lease, by)
		}
		if !j.legacy.theirs {
			return
		}
	}
	if by != nil && !by.ours && after != nil && after.Holder == "" && j.lease.holder == by.name && !j.lease.exists {
		j.lease.given = true // likewise, by an elector that holds both
	}
	j.changed(&j.legacy, by, after)
}

// settled reports whether the record's last deletion is longer ago than that, and a deletion now delays nobody for ever.
func (j *judge) settled(since time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.endless && (j.gone.IsZero() || time.Since(j.gone) > since)
}

func (j *judge) changed(h *held, by *process, after *locks.Record) {
	defer func() { h.exists = after != nil }()
	switch {
	case by != nil && after == nil:
		j.unlawful("%v deleted the record", by)
	case by == nil:
		// What is left of another program's term is not known to be theirs.
		h.given = h.given || after != nil && after.Holder == "" && h.theirs
		h.blank = after != nil && after.Holder == "" && (h.blank || !h.exists)
		h.emptied = after != nil && after.Holder == ""
	case after.Holder == "":
		j.emptied(h, by)
	case after.Holder != by.name:
		j.unlawful("%v wrote a record for %s", by, after.Holder)
	default:
		j.took(h, by, after)
	}
}

// emptied notes a release (S5).
func (j *judge) emptied(h *held, by *process) {
	switch {
	case by.name == h.holder:
		h.given = true
		switch {
		case !by.ours:
		case slices.Contains(j.working, by):
			j.unlawful("%v released the lock while its work runs", by)
		case time.Now().Before(h.owed):
			j.unlawful("%v released the lock while another's lease lasts, which it cannot know", by)
		}
	case h.given, h.left(nil, time.Now()) == 0: // as half of a takeover that was not completed
		h.given = true
	case by.ours:
		j.unlawful("%v released the lock of %s", by, h.holder)
	default:
		j.overlap(by.kind + " emptied another's record")
		h.given = h.theirs
	}
}

// took notes that by made itself the holder, or renewed (S3, S4, S10).
func (j *judge) took(h *held, by *process, after *locks.Record) {
	now, owed, owedTo := time.Now(), h.owed, h.owedTo
	if h.theirs || !by.ours {
		owed = time.Time{}
	}
	if by.name != h.holder && h.holder != "" && !h.given {
		left := h.left(by, now)
		proven := h.by != nil && h.by.seat == by.seat && by.processLock != "" && h.by.processLock != "" && h.by.isDone()
		switch {
		case left == 0:
		case proven:
		case by.ours && j.misled(by, h):
			j.overlap("a newcomer, after a hand took from the record how long its lease is")
			j.rob(h.by)
		case by.ours && !h.exists: // a creation cannot tell: it may hold the lock, but not work
			if !now.Before(h.owed) { // else its holder may not work either
				// It may not know of a lease longer than its own, see S4 of docs/design.md.
				owed, owedTo = now.Add(min(left, max(by.lease, after.LeaseDuration))), h.by
			}
			if slices.Contains(j.working, by) || owedTo == by { // the current leader goes on
				owed = time.Time{}
			}
		case by.ours:
			j.unlawful("%v took the lock %v before the lease of %s was over", by, left, h.holder)
		default:
			j.rob(h.by)
		}
		if waited := now.Sub(by.started); by.ours && h.exists && !h.blank && !proven && !j.misled(by, h) && waited < j.stated(by, h) {
			j.unlawful("%v took the lock of %s %v after its start", by, h.holder, waited)
		}
	}
	if by.name == h.holder && h.exists && !h.given && !h.emptied && sameRenewal(*after, h.record) {
		// Nobody can tell it from the one before. client-go writes such a
		// renewal after one whose answer was lost. A holder whose record was emptied
		// at the moment of its renewal may write that again.
		if by.ours {
			j.unlawful("%v wrote the same renewal twice", by)
		}
		return
	}
	since, replaced := h.since, h.replaced
	if by.name != h.holder {
		before := *h
		before.replaced = nil
		since, replaced = now, &before
	}
	*h = held{
		holder: by.name, by: by, theirs: !by.ours, since: since, renewed: by.half.first(after, now), lasts: by.lease,
		record: *after, replaced: replaced, owed: owed, owedTo: owedTo,
	}
	if waits := after.Details.Waits != "" && after.LeaseDuration > by.lease; waits { // for as long as it waits itself
		h.lasts = after.LeaseDuration
	} else if by.ours && after.LeaseDuration != by.lease {
		j.unlawful("%v wrote a lease of %v", by, after.LeaseDuration)
	}
}

// half is a candidate's last write for legacy electors. Its renewal of the Lease is
// the other half.
type half struct{ at, renewed time.Time }

// first is when the first half of a renewal that is now whole was written. The
// trust that it gives began before that, and others count from when they see it.
func (h half) first(whole *locks.Record, now time.Time) time.Time {
	if !h.at.IsZero() && h.renewed.Equal(whole.RenewTime) {
		return h.at
	}
	return now
}

// stated is the lease that a newcomer finds on record. It is that of a legacy
// elector which took its record later, or nothing once that one has released it, or
// that of a candidate which got no further than half of its takeover. It took that
// half after the lease before. In phase clean that half says nothing.
func (j *judge) stated(by *process, h *held) time.Duration {
	legacy := &j.legacy
	if legacy.holder == by.name && legacy.replaced != nil { // half of the takeover, which is judged by its other half
		legacy = legacy.replaced
	}
	switch {
	case h != &j.lease, j.clean, !legacy.theirs && legacy.holder == h.holder, !legacy.since.After(h.renewed):
		return h.lasts
	case legacy.given:
		return 0
	}
	return legacy.lasts
}

// sameRenewal reports whether two records show the same renewal.
func sameRenewal(a, b locks.Record) bool {
	return a.Holder == b.Holder && a.LeaseDuration == b.LeaseDuration && a.Transitions == b.Transitions &&
		a.AcquireTime.Equal(b.AcquireTime) && a.RenewTime.Equal(b.RenewTime)
}

// rob notes that another program took a lock that was held.
func (j *judge) rob(holder *process) {
	j.robbed[holder] = true // it may trust its term, though it does not work yet
	for _, p := range j.working {
		if p.ours {
			j.robbed[p] = true
		}
	}
}

// begin notes that p's work begins.
func (j *judge) begin(p *process, term election.Term) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.crashed {
		return
	}
	j.log("%.3fs %v LEADS, token %d, cause %s", time.Since(j.start).Seconds(), p, term.Token, term.Cause)
	if j.lease.holder == p.name || !p.ours {
		delete(j.robbed, p) // this is not the term that was taken from it
	}
	for _, other := range j.working { // p is among them if its previous work has not ended
		j.beside(p, other)
	}
	if !slices.Contains(j.working, p) {
		j.working = append(j.working, p)
	}
	if p.ours {
		if term.Token <= j.token && !j.robbed[p] {
			j.unlawful("the token of %v is %d, after %d", p, term.Token, j.token)
		}
		if p.mayBegin != nil {
			p.mayBegin()
		}
		if term.TrustedFor() <= 0 {
			j.unlawful("%v begins to work without trust", p)
		}
		if left := time.Until(j.lease.owed); left > 0 && j.lease.holder == p.name {
			j.unlawful("%v begins to work %v before another's lease is over", p, left)
		}
		j.token = max(j.token, term.Token)
	}
	if p.name != j.leader {
		if j.leader != "" {
			j.failovers++
		}
		j.leader = p.name
	}
}

// beside judges that p begins while other still works.
func (j *judge) beside(p, other *process) {
	switch {
	case p.ours && other.ours && !j.robbed[other] && !j.robbed[p]:
		j.unlawful("two leaders: %v begins while %v works", p, other)
	case p.ours && other.ours:
		j.overlap("two candidates, after others took the lock of the first")
	case p.forLife && other.ours && j.byHand:
		j.beyond[[2]*process{p, other}] = time.Now()
		j.overlap("legacy after somebody deleted the ConfigMap")
	case p.forLife && other.ours || p.ours && other.forLife:
		j.unlawful("two leaders: %v begins while %v works", p, other)
	case other.ours && !j.robbed[other]:
		j.unlawful("%v took over in time, and %v still works", p, other)
	case other.ours:
		j.overlap(p.kind + " took the lock of a candidate before its lease was over")
	case p.ours:
		j.overlap(other.kind + " works longer than its lease, and a candidate leads")
	default:
		j.overlap(other.kind + " beside " + p.kind)
	}
}

// trusts judges that at most one candidate trusts its term when work begins.
func (j *judge) trusts(all []*process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var trusted []*process
	for _, p := range all {
		if p.elector != nil && !p.crashed && !j.robbed[p] && p.elector.Term().TrustedFor() > 0 {
			trusted = append(trusted, p)
		}
	}
	if len(trusted) > 1 {
		j.unlawful("two terms are trusted: %v", trusted)
	}
}

// endure judges that two processes that work at the same time because of a manual
// edit do so for no longer than a term that is not renewed. A cache that is behind until stale
// may show it no sooner.
func (j *judge) endure(most time.Duration, stale time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for pair, since := range j.beyond {
		if !slices.Contains(j.working, pair[0]) || !slices.Contains(j.working, pair[1]) {
			delete(j.beyond, pair)
			continue
		}
		if time.Since(since) > most && time.Since(stale) > most {
			j.unlawful("%v still works beside %v after %v", pair[1], pair[0], time.Since(since))
		}
	}
}

// end notes that p's work has returned.
func (j *judge) end(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.Contains(j.working, p) {
		j.log("%.3fs %v has stopped", time.Since(j.start).Seconds(), p)
	}
	j.stops(p)
}

// stops notes that p works no more. The caller holds mu.
func (j *judge) stops(p *process) {
	j.working = slices.DeleteFunc(j.working, func(q *process) bool { return q == p })
}

// crash notes that p has died.
func (j *judge) crash(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p.crashed = true
	j.stops(p)
}

// leads returns the process that works; nil if none does.
func (j *judge) leads() *process {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.working) > 0 {
		return j.working[0]
	}
	return nil
}

// wording is a record as the log words it.
type wording locks.Record

func (r *wording) String() string {
	if r == nil {
		return "no record"
	}
	return fmt.Sprintf("holder %q for %v, token %d, released %d", r.Holder, r.LeaseDuration, r.Details.Token, r.Details.Released)
}

func TestTheJudgeSeesWhoBeginsWhileAnotherWorks(t *testing.T) {
	j := newJudge(quiet)
	a, b, theirs := &process{name: "a", ours: true}, &process{name: "b", ours: true}, &process{name: "c", kind: "client-go"}
	token := uint64(0)
	begins := func(what string, p *process, want int) { // reports of two leaders until then
		token++
		j.begin(p, election.Term{Token: token})
		if two := strings.Count(strings.Join(j.verdict(), "\n"), "two leaders"); two != want {
			t.Errorf("%s: %v", what, j.verdict())
		}
	}
	begins("nobody worked", a, 0)
	j.end(a)
	begins("one after the other", b, 0)
	begins("a began while b worked", a, 1)
	begins("a began twice, while b worked", a, 3) // its last work has not ended, and b's has not either
	j.crash(a)
	j.end(b)
	begins("nobody else worked", theirs, 3)
	if len(j.overlaps) != 0 || j.leads() != theirs {
		t.Errorf("%v leads, with %v", j.leads(), j.overlaps)
	}
}
