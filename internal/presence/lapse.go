// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// periods is how many times a presence without a pod may be renewed before it no longer counts.
const periods = 5

// few is how many presences without a pod are renewed once a minute. Each renewal is news for all
// candidates, so that more of them are renewed less often: all together no oftener than these, up to
// as many as a [Roster] keeps.
const few = 20

// period is how often a presence without a pod is renewed: once a minute at most.
func (l *lapses) period(now time.Time) time.Duration {
	others := 0
	for _, s := range l.seen {
		if now.Before(s.until) {
			others++
		}
	}
	return min(max(time.Minute, time.Minute*time.Duration(others)/few), mostLasts/periods)
}

// renewAfter is when a presence is renewed next: not by all candidates at once.
func renewAfter(period time.Duration) time.Duration { return period + rand.N(period/4) }

// lapses tells which presences without a pod have not been renewed for so long that their
// candidates have ended, by the reader's clock alone. It is pure.
type lapses struct{ seen map[string]sighting }

// sighting is what is known of a presence as it is now.
type sighting struct {
	number uint64    // the version
	until  time.Time // it counts
	// removal is when to remove it, if tried is not zero: that long after the last try.
	removal time.Time
	tried   time.Duration
}

// note notes what all presences are now. The reader's own one counts in any case.
func (l *lapses) note(all []Object, own string, now time.Time) {
	seen := map[string]sighting{}
	for _, o := range all {
		if o.Pod != (Pod{}) || o.Name == own {
			continue
		}
		s, known := l.seen[o.Name]
		if !known || s.number != o.Number {
			s = sighting{number: o.Number, until: now.Add(o.lasts())}
		}
		seen[o.Name] = s
	}
	l.seen = seen
}

// grace has whatever counts now count for so much longer at least: renewals may have been missed.
func (l *lapses) grace(now time.Time, d time.Duration) {
	for name, s := range l.seen {
		if end := now.Add(d); now.Before(s.until) && s.until.Before(end) {
			s.until = end
			l.seen[name] = s
		}
	}
}

// counting returns those of all that count.
func (l *lapses) counting(all []Object, now time.Time) []Object {
	if len(l.seen) == 0 {
		return all // each event of a lock whose candidates are in pods comes here
	}
	var live []Object
	for _, o := range all {
		if s, ages := l.seen[o.Name]; !ages || now.Before(s.until) {
			live = append(live, o)
		}
	}
	return live
}

// due returns those of all that have not counted for the time spread, and how long it is until
// another one no longer counts, or is due; negative for never. If one stays that was due, it is due
// again after twice as long each time, up to an hour.
func (l *lapses) due(all []Object, spread time.Duration, now time.Time) (gone []Object, next time.Duration) {
	next = -1
	for _, o := range all {
		s, ages := l.seen[o.Name]
		if !ages {
			continue
		}
		at := s.until
		if !now.Before(at) {
			if at = at.Add(spread); s.tried > 0 {
				at = s.removal
			}
		}
		if !now.Before(at) {
			gone = append(gone, o)
			s.tried = min(max(spread, 2*s.tried), time.Hour)
			s.removal = now.Add(s.tried)
			l.seen[o.Name] = s
			at = s.removal
		}
		if left := at.Sub(now); next < 0 || left < next {
			next = left
		}
	}
	return gone, next
}

// tidy ignores presences without a pod that are not renewed, and removes them, until ctx ends.
// Candidates do so after times of their own, so that as a rule one removes them for all. Who cannot
// keep a presence removes none: perhaps nobody can.
func (k *Keeper) tidy(ctx context.Context) {
	spread := leastLasts/10 + rand.N(leastLasts/10)
	for ctx.Err() == nil {
		now := time.Now()
		k.mu.Lock()
		if k.peersKnown {
			k.count(now)
		}
		var gone []Object
		next := spread
		if k.err == nil {
			gone, next = k.lapses.due(k.listed, spread, now)
		}
		k.mu.Unlock()
		rand.Shuffle(len(gone), func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
		for _, o := range gone {
			if !k.isListed(o) {
				continue
			}
			if err := k.remove(ctx, o, strconv.FormatUint(o.Number, 10), k.config.Timing.RenewDeadline); err != nil && !errors.Is(err, locks.ErrConflict) {
				break // the others are tried again, too
			}
		}
		if len(gone) == 0 {
			k.awaitAge(ctx, next)
		}
	}
}

// isListed reports whether a presence is still what it was.
func (k *Keeper) isListed(o Object) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.listed, o)
}

// awaitAge waits until presences without a pod have changed, for the time next unless that is
// negative.
func (k *Keeper) awaitAge(ctx context.Context, next time.Duration) {
	var due <-chan time.Time
	if next >= 0 {
		ready, stop := sleep.After(next)
		defer stop()
		due = ready
	}
	select {
	case <-due:
	case <-k.aging:
	case <-ctx.Done():
	}
}

// remove removes a presence, if it is that version; an empty one is any. It is not an error if there is
// none.
func (k *Keeper) remove(ctx context.Context, o Object, version string, most time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	object := rawapi.New[coordinationv1.Lease](k.config.Client, apierror.Object{Resource: apierror.Leases, Namespace: k.config.Namespace, Name: o.Name})
	err := object.Delete(limited, o.UID, version)
	if errors.Is(err, locks.ErrForbidden) {
		k.undeletable.Do(func() {
			k.config.Logger.Info("presences of candidates that have ended stay, and are ignored: this candidate may not delete Leases", "presence", o.Name)
		})
	}
	if object.Name().Absent(err) {
		return nil
	}
	return err
}

// leave removes this candidate's presence if no pod owns it, when its candidacy ends in good order.
// That is worth one short try: others ignore the presence after some minutes.
func (k *Keeper) leave(ctx context.Context) {
	k.mu.Lock()
	own, kept := k.own, k.err == nil
	k.mu.Unlock()
	if kept && own.UID != "" && own.Pod == (Pod{}) {
		_ = k.remove(context.WithoutCancel(ctx), own, "", k.config.Timing.AttemptTimeout)
	}
}
