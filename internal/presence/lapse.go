// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"math/rand/v2"
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

// few is how many presences without a pod are renewed once a minute. All candidates hear of each
// renewal, so if there are more, they are renewed less often: all together as often as these would be.
const few = 20

// lapses tells which presences without a pod have not been renewed for so long that their
// candidates have ended, by the reader's clock alone. It is pure.
type lapses map[string]sighting

// sighting is what is known of a presence as it is now.
type sighting struct {
	number uint64    // the version
	until  time.Time // it counts
}

// note notes what all presences are now. The reader's own one counts in any case.
func (l lapses) note(all []Object, own string, now time.Time) lapses {
	seen := lapses{}
	for _, o := range all {
		if o.Pod != (Pod{}) || o.Name == own {
			continue
		}
		s, known := l[o.Name]
		if !known || s.number != o.Number {
			s = sighting{number: o.Number, until: now.Add(o.lasts())}
		}
		seen[o.Name] = s
	}
	return seen
}

// grace has whatever counts now count for so much longer at least: renewals may have been missed.
func (l lapses) grace(now time.Time, d time.Duration) {
	for name, s := range l {
		if end := now.Add(d); now.Before(s.until) && s.until.Before(end) {
			s.until = end
			l[name] = s
		}
	}
}

// divide returns those of all that count, and those that have not counted for so long.
func (l lapses) divide(all []Object, now time.Time, long time.Duration) (live, gone []Object) {
	for _, o := range all {
		s, ages := l[o.Name]
		switch {
		case !ages || now.Before(s.until):
			live = append(live, o)
		case now.Sub(s.until) >= long:
			gone = append(gone, o)
		}
	}
	return live, gone
}

// period is how often a presence without a pod is renewed: once a minute at most.
func (l lapses) period(now time.Time) time.Duration {
	others := 0
	for _, s := range l {
		if now.Before(s.until) {
			others++
		}
	}
	return min(max(time.Minute, time.Minute*time.Duration(others)/few), mostLasts/periods)
}

// spread is a time of this candidate's own: not all act at once.
func spread(d time.Duration) time.Duration { return d + rand.N(d/4) }

// tidy ignores presences without a pod that are not renewed, and removes them, until ctx ends. Each
// candidate removes one at a time, at times of its own, so that as a rule one removes it for all. Who
// cannot keep a presence removes none, and after a failure none for a while: the others fail, too.
func (k *Keeper) tidy(ctx context.Context) {
	const lookAgain, long = 12 * time.Second, 30 * time.Second
	var failed time.Time
	for sleep.For(ctx, spread(lookAgain)) == nil {
		k.mu.Lock()
		if k.peersKnown {
			k.count()
		}
		_, gone := k.lapses.divide(k.listed, time.Now(), long)
		kept := k.err == nil
		k.mu.Unlock()
		if !kept || len(gone) == 0 || time.Since(failed) < notPermitted {
			continue
		}
		o := gone[rand.N(len(gone))]
		if err := k.remove(ctx, o, strconv.FormatUint(o.Number, 10), k.config.Timing.RenewDeadline); err != nil && !errors.Is(err, locks.ErrConflict) {
			failed = time.Now()
		}
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
