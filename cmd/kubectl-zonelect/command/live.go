// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/plain"
)

// live shows the present state of locks on a terminal, below what has changed.
type live struct {
	*statusCommand
	frame
	rows []LockStatus
	was  map[string]string // the headline of each lock, by its namespace and name
	seen time.Time         // when rows were last known to be true
	why  error             // why they are not known to be true now
}

func newLive(s *statusCommand) *live {
	l := &live{statusCommand: s, was: map[string]string{}}
	l.out = s.env.streams.Out
	l.printer.times = false // the last line has it
	return l
}

// empty reports whether there is no lock to show.
func (l *live) empty() bool { return len(l.rows) == 0 }

// show draws the present state. What has changed stays above it.
func (l *live) show(rows []LockStatus) error {
	l.rows, l.seen, l.why = rows, l.env.now(), nil
	var above []line
	for _, s := range rows {
		key, now := s.Namespace+"/"+s.Name, l.headline(s)
		if before, known := l.was[key]; known && before != now {
			above = append(above, line{l.seen.UTC().Format(timeFormat) + "  " + now, l.printer.colorOf(s)})
		}
		l.was[key] = now
	}
	return l.redraw(above)
}

// trouble says that the present state is not known.
func (l *live) trouble(err error) {
	l.why = err
	for i := range l.rows {
		if leader := l.rows[i].Status.Leader; leader != nil {
			unknown := *leader
			unknown.LeaseLeftMilliseconds, unknown.LeaseLeftBy = nil, ""
			l.rows[i].Status.Leader = &unknown
		}
	}
	_ = l.redraw(nil) // the next one may succeed, and an error says so
}

// headline says who leads a lock.
func (l *live) headline(s LockStatus) string {
	name := s.Name
	if l.everywhere {
		name = s.Namespace + "/" + name
	}
	return fmt.Sprintf("%s: %s, %s", name, s.Status.State, leads(s.Status))
}

// leads says who leads and where.
func leads(s inspect.Status) string {
	v := s.Vacancy
	switch {
	case v != nil && v.Last != "":
		return "nobody" + map[bool]string{true: "?"}[v.Uncertain] + " (was " + inspect.Leader{Identity: v.Last, Zone: v.LastZone}.String() + ")"
	case v != nil || s.Leader == nil:
		return cmp.Or(leaderCell(s), legacyCell(s.Legacy))
	}
	return s.Leader.String()
}

func (l *live) redraw(above []line) error {
	width, height := l.env.size()
	if width <= 0 || height <= 0 {
		return nil // it is not a terminal any more
	}
	l.printer.width = width
	l.printer.tables = newTables(l.printer.noHeaders) // with headers each time
	at := l.env.now()
	if l.why != nil {
		at = l.seen // nobody knows whether what was true then still lasts
	}
	lines, err := l.printer.lines(at, l.rows)
	if err != nil {
		return err
	}
	if len(l.rows) == 1 && len(l.rows[0].Status.Candidates) > 0 {
		more, err := l.printer.candidates(l.rows[0])
		if err != nil {
			return err
		}
		lines = append(append(lines, line{}), more...)
	}
	return l.draw(above, lines, l.remarks(), l.footer(), width, height)
}

// remarks are the warnings and notes, the warnings first: the last ones may be cut.
func (l *live) remarks() []line {
	var all, later []line
	for _, s := range l.rows {
		for i, text := range notes(s) {
			switch {
			case i >= len(s.Status.Warnings):
				later = append(later, line{text: text})
			case l.printer.paint:
				all = append(all, line{text, yellow})
			default:
				all = append(all, line{text: text})
			}
		}
	}
	all = append(all, later...)
	if note := l.vitals.note(); note != "" {
		all = append(all, line{text: note})
	}
	return all
}

// footer says of when the state is.
func (l *live) footer() line {
	at := l.seen.UTC().Format(timeFormat)
	switch {
	case l.why != nil && l.printer.paint:
		return line{fmt.Sprintf("what is above is of %s, because the watch broke: %s", at, plain.Error(l.why)), red}
	case l.why != nil:
		return line{text: fmt.Sprintf("what is above is of %s, because the watch broke: %s", at, plain.Error(l.why))}
	}
	if l.empty() {
		return line{text: at + "  no locks found in " + l.cluster.scope() + ", watching, press Ctrl-C to end"}
	}
	return line{text: at + "  watching, press Ctrl-C to end"}
}
