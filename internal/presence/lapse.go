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

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

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
			s = sighting{number: o.Number, until: now.Add(lasts)}
		}
		seen[o.Name] = s
	}
	return seen
}

// counts reports whether a presence counts.
func (l lapses) counts(o Object, now time.Time) bool {
	s, ages := l[o.Name]
	return !ages || now.Before(s.until)
}

// spread is a time of this candidate's own: not all act at once.
func spread(d time.Duration) time.Duration { return d + rand.N(d/4) }

// tidy looks again and again for what is late, until ctx ends: that this candidate's presence says its
// health, and that presences without a pod are ignored, and removed, that are not renewed. Each
// candidate removes one at a time, at times of its own, so that as a rule one removes it for all. Who
// cannot keep a presence removes none.
func (k *Keeper) tidy(ctx context.Context) {
	for permitted := true; sleep.For(ctx, spread(12*time.Second)) == nil; {
		k.mu.Lock()
		k.lookAgain()
		kept := k.err == nil
		if kept && k.own.Unhealthy != k.says.Unhealthy {
			k.told = time.Now()
			sleep.Wake(k.again)
		}
		now := time.Now()
		gone := slices.DeleteFunc(slices.Clone(k.listed), func(o Object) bool { return k.lapses.counts(o, now) })
		k.mu.Unlock()
		if kept && permitted && len(gone) > 0 {
			o := gone[rand.N(len(gone))]
			permitted = k.remove(ctx, o, strconv.FormatUint(o.Number, 10))
		}
	}
}

// remove tries once to remove a presence, if it is that version; an empty one is any. It reports whether that
// is permitted.
func (k *Keeper) remove(ctx context.Context, o Object, version string) (permitted bool) {
	limited, cancel := context.WithTimeout(ctx, k.config.Timing.AttemptTimeout)
	defer cancel()
	if err := o.object(k.config.Client, k.config.Namespace).Delete(limited, o.UID, version); !errors.Is(err, locks.ErrForbidden) {
		return true
	}
	k.config.Logger.Info("presences of ended candidates remain, and are ignored: this candidate may not delete Leases", "presence", o.Name)
	return false
}
