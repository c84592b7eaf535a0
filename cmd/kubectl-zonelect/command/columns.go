// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// column is one column of a table. Wide columns show only with -o wide.
type column struct {
	name string
	wide bool
	cell func(LockStatus, time.Time) string
}

// timeFormat is that of the column Time: each line has the same width.
const timeFormat = "2006-01-02T15:04:05Z"

// The columns that come before the others if they are asked for.
var (
	timeColumn      = column{"Time", false, func(_ LockStatus, now time.Time) string { return now.UTC().Format(timeFormat) }}
	namespaceColumn = column{"Namespace", false, func(s LockStatus, _ time.Time) string { return s.Namespace }}
)

var columns = []column{
	{"Name", false, func(s LockStatus, _ time.Time) string { return s.Name }},
	{"State", false, func(s LockStatus, _ time.Time) string { return string(s.Status.State) }},
	{"Leader", false, ofLeader(func(l *inspect.Leader) string { return l.Identity })},
	{"Zone", false, ofLeader(func(l *inspect.Leader) string { return l.Zone })},
	{"Since", false, func(s LockStatus, now time.Time) string { return since(s, now) }},
	{"Token", false, ofLeader(func(l *inspect.Leader) string { return number(l.Token) })},
	{"Phase", false, func(s LockStatus, _ time.Time) string { return string(s.Status.Phase) }},
	{"Candidates", false, func(s LockStatus, _ time.Time) string { return candidates(s.Status) }},
	{"Legacy", false, func(s LockStatus, _ time.Time) string { return legacyCell(s.Status.Legacy) }},
	{"Pod", true, ofLeader(func(l *inspect.Leader) string { return podName(l.Pod) })},
	{"Node", true, ofLeader(func(l *inspect.Leader) string { return l.Node })},
	{"Lasts", true, ofLeader(func(l *inspect.Leader) string { return (time.Duration(l.LeaseDurationSeconds) * time.Second).String() })},
	{"Heartbeat", true, ofLeader(func(l *inspect.Leader) string { return l.Heartbeat })},
	{"Transitions", true, ofLeader(func(l *inspect.Leader) string { return strconv.Itoa(int(l.Transitions)) })},
	{"Waiting", true, func(s LockStatus, _ time.Time) string { return s.Status.Holder().Waiting }},
}

func ofLeader(text func(*inspect.Leader) string) func(LockStatus, time.Time) string {
	return func(s LockStatus, _ time.Time) string {
		if s.Status.Leader == nil {
			return ""
		}
		return text(s.Status.Leader)
	}
}

// rows returns a writer for rows that are printed one by one. The columns keep their
// positions as long as no row is wider than the likely ones.
func (p *printer) rows(w io.Writer, likely []LockStatus, now time.Time) io.Writer {
	if !p.forPeople() {
		return w
	}
	table := printers.GetNewTabWriter(w)
	table.SetRememberedWidths(p.widths(likely, now))
	return table
}

// padding is the space between two columns of kubectl's tables.
const padding = 3

// room is the longest text that some columns must hold later: a token has as many digits as
// the resourceVersions of a busy cluster.
var room = map[string]string{"State": string(inspect.Released), "Token": "1234567890", "Phase": string(record.PhaseSealed)}

// widths are those of the columns, whichever candidate leads, and with candidates in three
// zones.
func (p *printer) widths(likely []LockStatus, now time.Time) []int {
	var widths []int
	for _, c := range p.visible() {
		width := max(utf8.RuneCountInString(c.name), len(none), len(room[c.name]))
		fit := func(text string) { width = max(width, utf8.RuneCountInString(text)) }
		for _, s := range likely {
			fit(c.cell(s, now))
			for _, one := range s.Status.Candidates {
				if c.name == "Candidates" {
					fit(strings.Repeat(one.Zone+":1,", 3))
				}
				s.Status.Leader = &inspect.Leader{Identity: one.Identity, Zone: one.Zone, Node: one.Node, Pod: one.Pod}
				fit(c.cell(s, now))
			}
		}
		widths = append(widths, width+padding)
	}
	return widths
}

// flush prints the rows that such a writer has kept back.
func flush(w io.Writer) error {
	if table, ok := w.(interface{ Flush() error }); ok {
		return table.Flush()
	}
	return nil
}

// visible are the columns that are printed.
func (p *printer) visible() []column {
	var all []column
	if p.times {
		all = append(all, timeColumn)
	}
	if p.namespaces {
		all = append(all, namespaceColumn)
	}
	return slices.DeleteFunc(append(all, columns...), func(c column) bool { return c.wide && p.output != "wide" })
}

// table prints a row for each lock.
func (p *printer) table(w io.Writer, now time.Time, all ...LockStatus) error {
	var names []string
	rows := make([][]string, len(all))
	for _, c := range p.visible() {
		names = append(names, c.name)
		for i, s := range all {
			rows[i] = append(rows[i], c.cell(s, now))
		}
	}
	return printTable(w, p.tables, names, rows)
}

// shows returns the parts of the output whose change is worth another line. It leaves out
// renewals and ages, and anything that a table leaves out.
func (p *printer) shows(s LockStatus) any {
	if p.forPeople() {
		var cells []string
		for _, c := range p.visible() {
			if c.name != timeColumn.name && c.name != "Since" {
				cells = append(cells, c.cell(s, time.Time{}))
			}
		}
		return cells
	}
	status := s.Status
	status.Notes, status.Warnings = nil, nil
	if status.Leader != nil {
		leader := *status.Leader
		leader.Renewed = nil
		status.Leader = &leader
	}
	return status
}

func since(s LockStatus, now time.Time) string {
	if s.Status.Leader == nil || s.Status.Leader.Since == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(s.Status.Leader.Since.Time))
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func podName(pod string) string {
	name, _, _ := strings.Cut(pod, "/")
	return name
}

// candidates counts those that have announced themselves. If none has and there is a leader,
// at least one candidate does not announce itself.
func candidates(s inspect.Status) string {
	if len(s.Candidates) == 0 && s.Leader != nil {
		return "<unknown>"
	}
	return byZone(inspect.Present(s.Candidates))
}

// byZone counts candidates by zone, in their order. An unknown zone is "?".
func byZone(all []inspect.Candidate) string {
	var zones []string
	count := map[string]int{}
	for _, c := range all {
		zone := cmp.Or(c.Zone, "?")
		if count[zone] == 0 {
			zones = append(zones, zone)
		}
		count[zone]++
	}
	for i, zone := range zones {
		zones[i] = fmt.Sprintf("%s:%d", zone, count[zone])
	}
	return strings.Join(zones, ",")
}

// legacyCell describes the object in the legacy lock's place in a word or two.
func legacyCell(l *inspect.Legacy) string {
	switch {
	case l == nil || l.Kind == ownerref.Absent:
		return ""
	case l.Holder != "":
		return l.Holder
	case l.Kind == ownerref.Shield && !l.Armed:
		return "shield (not armed)"
	default:
		return string(l.Kind)
	}
}

// withState names a node, and its state unless it is ready or unknown.
func withState(node, state string) string {
	if state == "" || state == inspect.Ready {
		return node
	}
	return node + " (" + state + ")"
}

// candidates prints the candidates of a lock; * marks the holder of the Lease.
func (p *printer) candidates(w io.Writer, s LockStatus) error {
	var rows [][]string
	for _, c := range s.Status.Candidates {
		identity := c.Identity
		if s.Status.Leader != nil && c.Identity == s.Status.Leader.Identity {
			identity += " *"
		}
		rows = append(rows, []string{
			identity, c.Zone, withState(c.Node, c.NodeState), cmp.Or(c.PodState, "<unknown>"), c.Unhealthy, c.Version, c.Mode, c.Waiting,
		})
	}
	names := []string{"Candidate", "Zone", "Node", "Pod", "Unhealthy", "Version", "Mode", "Waiting"}
	return printTable(w, newTables(p.noHeaders), names, rows)
}
