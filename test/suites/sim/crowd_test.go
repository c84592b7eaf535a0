// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zonelect/zonelect/election"
)

// crowd is how many processes and locks there are in the schedule of a seed: two to five
// processes, and up to twenty locks, at times fifty.
func crowd(seed uint64) (seats, locks int) {
	dice := rand.New(rand.NewPCG(seed, 4))
	seats, locks = 2+dice.IntN(4), 1+dice.IntN(20)
	if dice.IntN(32) == 0 {
		locks = 50
	}
	return seats, locks
}

// part makes a part of a process that campaigns for one of many locks.
func (p *process) part(j *judge) *process {
	part := &process{
		name: p.name, seat: p.seat, ours: p.ours, kind: p.kind, world: p.world, judge: j, host: p,
		dice: p.dice, advice: p.advice, drift: p.drift, meant: p.meant, timing: p.timing, lease: p.lease,
		stopTime: some(p.dice, max(p.timing.StopGrace, time.Millisecond+1)), started: p.started,
		link: p.link, gate: p.gate, sick: p.sick, gone: p.gone, done: p.done,
	}
	part.parts = []*process{part}
	return part
}

// chosen are the parts of a process that a step is for; none if it has none, or none of them
// campaigns.
func (p *process) chosen(s step) (all []*process) {
	if p == nil {
		return nil
	}
	for _, i := range s.among(len(p.parts)) {
		if p.parts[i].elector != nil {
			all = append(all, p.parts[i])
		}
	}
	return all
}

// among are those of n locks that a step is for: one, or all.
func (s step) among(n int) (all []int) {
	number := int(s.degree / time.Millisecond)
	if number%4 < 3 {
		return []int{number / 4 % n}
	}
	for i := range n {
		all = append(all, i)
	}
	return all
}

// lockOf is the lock whose leader a step means.
func (w *world) lockOf(s step) int { return s.among(len(w.judges))[0] }

// candidates are those of the running processes that campaign for the lock of a judge.
func (w *world) candidates(j *judge) (all []*process) {
	for _, p := range w.current() {
		for _, part := range p.parts {
			if part.judge == j {
				all = append(all, part)
			}
		}
	}
	return all
}

// newJudges returns one judge for each lock.
func newJudges(n int, log func(string, ...any)) (all []*judge) {
	for i := range n {
		if n == 1 {
			return []*judge{newJudge(log)}
		}
		name := fmt.Sprintf("lock %d: ", i)
		j := newJudge(func(format string, args ...any) { log(name+format, args...) })
		j.name = name
		all = append(all, j)
	}
	return all
}

// verdict returns the rules that were broken so far.
func (w *world) verdict() (all []string) {
	for _, j := range w.judges {
		all = append(all, j.verdict()...)
	}
	return all
}

func (w *world) result() result {
	r := result{faults: w.verdict(), overlaps: map[string]int{}, virtual: time.Since(w.start)}
	for _, j := range w.judges {
		r.failovers += j.failovers
		for why, n := range j.overlaps {
			r.overlaps[why] += n
		}
	}
	return r
}

// habit is how work ends that is asked to.
type habit int

const (
	obedient habit = iota // within StopGrace
	tardy                 // not before the term is no longer trusted
	careless              // at once, but a part of it goes on as if it were tardy
)

// linger ends work that does not end as it should: StopGrace after its term is no longer
// trusted at the latest, as that of a program that ends itself then.
func (p *process) linger(ctx context.Context, term election.Term) error {
	p.judge.log("%.3fs %v goes on although it was asked to stop", time.Since(p.world.start).Seconds(), p)
	left := term.TrustedFor()
	if p.habit == careless {
		p.host.rest.Go(func() { p.cease(left) })
		return election.ErrUnfinished
	}
	for left > 0 {
		time.Sleep(left)
		left = term.TrustedFor()
	}
	p.cease(0)
	return ctx.Err()
}

// cease ends work that is trusted for some time.
func (p *process) cease(left time.Duration) {
	time.Sleep(left + p.stopTime)
	p.judge.end(p)
	p.judge.mu.Lock()
	defer p.judge.mu.Unlock()
	p.judge.lingered = time.Now()
}

// pardon is until when a lock may have no leader because work lingered. No elector released
// it, and the heartbeat of a process that goes on kept it: the process detaches it once no
// elector has renewed it for three intervals, and then its lease runs out.
func (w *world) pardon(j *judge) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lingered.IsZero() {
		return time.Time{}
	}
	return j.lingered.Add(4*w.mix.interval() + w.mix.attempt() + w.mix.lease() + w.mix.takeover())
}
