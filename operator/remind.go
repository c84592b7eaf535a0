// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
)

// The pauses between reminders grow from the first to the last.
const (
	firstReminder = time.Minute
	lastReminder  = 10 * time.Minute
)

// remind says now and then that the election cannot go on, and why, until transitions is closed. The
// elector itself says that once.
func remind(log logr.Logger, transitions <-chan election.Transition) {
	var since time.Time // zero while the election goes on
	var last election.Status
	pause, alarm := firstReminder, time.NewTimer(0)
	defer alarm.Stop()
	alarm.Stop()
	for {
		select {
		case t, more := <-transitions:
			if !more {
				return
			}
			last = t.Status
			switch stuck := t.Change != status.ChangeEnded && (last.Problem != nil || last.Waiting != ""); {
			case !stuck:
				since = time.Time{}
				alarm.Stop()
			case since.IsZero():
				since, pause = t.At, firstReminder
				alarm.Reset(pause)
			}
		case now := <-alarm.C:
			log := log.WithValues("lock", last.Lock.String(), "for", now.Sub(since).Round(time.Second).String())
			if last.Problem != nil {
				log.Error(last.Problem, "still cannot use the lock")
			} else {
				log.Info("still waiting", "cause", last.Waiting)
			}
			pause = min(2*pause, lastReminder)
			alarm.Reset(pause)
		}
	}
}
