// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
)

// reminder is how often an election that cannot go on says so.
const reminder = 5 * time.Minute

// remind says now and then that the election cannot go on, and why, until transitions is closed. The
// elector itself says that once.
func remind(log logr.Logger, transitions <-chan election.Transition) {
	var since time.Time // zero while the election goes on
	var last election.Status
	look := time.NewTicker(reminder)
	defer look.Stop()
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
			case since.IsZero():
				since = t.At
			}
		case now := <-look.C:
			log := log.WithValues("lock", last.Lock.String(), "for", now.Sub(since).Round(time.Second).String())
			switch {
			case since.IsZero():
			case last.Problem != nil:
				log.Error(last.Problem, "still cannot use the lock")
			default:
				log.Info("still waiting", "cause", last.Waiting)
			}
		}
	}
}
