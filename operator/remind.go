// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// The pauses between reminders grow from the first to the last.
const (
	firstReminder = time.Minute
	lastReminder  = 10 * time.Minute
)

// remind says now and then which election cannot go on, and why, until transitions is closed. The
// elector itself says that once. Of many elections it names the one that has waited longest.
func remind(log logr.Logger, transitions <-chan election.Transition) {
	type trouble struct {
		since time.Time
		election.Status
	}
	stuck := map[locks.Description]trouble{}
	pause, alarm := firstReminder, time.NewTimer(0)
	defer alarm.Stop()
	alarm.Stop()
	for {
		select {
		case t, more := <-transitions:
			if !more {
				return
			}
			before, was := stuck[t.Status.Lock]
			switch is := t.Change != status.ChangeEnded && (t.Status.Problem != nil || t.Status.Waiting != ""); {
			case is && was:
				stuck[t.Status.Lock] = trouble{before.since, t.Status}
			case is:
				if len(stuck) == 0 {
					pause = firstReminder
					alarm.Reset(pause)
				}
				stuck[t.Status.Lock] = trouble{t.At, t.Status}
			case was:
				if delete(stuck, t.Status.Lock); len(stuck) == 0 {
					alarm.Stop()
				}
			}
		case now := <-alarm.C:
			var worst trouble
			for _, one := range stuck {
				if worst.since.IsZero() || one.since.Before(worst.since) || one.since.Equal(worst.since) && one.Lock.Name < worst.Lock.Name {
					worst = one
				}
			}
			log := log.WithValues("lock", worst.Lock.String(), "for", now.Sub(worst.since).Round(time.Second).String())
			if len(stuck) > 1 {
				log = log.WithValues("locks", len(stuck))
			}
			if worst.Problem != nil {
				log.Error(worst.Problem, "still cannot use the lock")
			} else {
				log.Info("still waiting", "cause", worst.Waiting)
			}
			pause = min(2*pause, lastReminder)
			alarm.Reset(pause)
		}
	}
}
