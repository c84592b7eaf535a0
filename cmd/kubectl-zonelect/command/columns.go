// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// column is one column of a table.
type column struct {
	name string
	when when
	cell func(LockStatus, time.Time) string
}

// when says when a column shows.
type when int

const (
	always   when = iota
	volatile      // always, and its changes are worth no line of their own
	legacy        // if any lock has, or had, another lock to leave
	wide          // with -o wide
)

// timeFormat is that of the column Time: each line has the same width.
const timeFormat = "2006-01-02T15:04:05Z"

// The columns that come before the others if they are asked for.
var (
	timeColumn      = column{"Time", volatile, func(_ LockStatus, now time.Time) string { return now.UTC().Format(timeFormat) }}
	namespaceColumn = column{"Namespace", always, func(s LockStatus, _ time.Time) string { return s.Namespace }}
)

var columns = []column{
	{"Name", always, func(s LockStatus, _ time.Time) string { return s.Name }},
	{"State", always, func(s LockStatus, _ time.Time) string { return string(s.Status.State) }},
	{"Leader", always, func(s LockStatus, _ time.Time) string { return leaderCell(s.Status) }},
	{"Zone", always, func(s LockStatus, _ time.Time) string { return zoneCell(s.Status) }},
	{"Since", volatile, func(s LockStatus, now time.Time) string { return age(since(s.Status), now) }},
	{"Last failover", always, func(s LockStatus, now time.Time) string { return failoverCell(s.Status.LastFailover, now) }},
	{"Nobody led", always, func(s LockStatus, _ time.Time) string { return nobodyLedCell(s.Status.LastFailover) }},
	{"Next", always, func(s LockStatus, _ time.Time) string { return nextCell(s.Status.Next) }},
	{"Lease left", volatile, ofLeader(leaseLeftCell)},
	{"Candidates", always, func(s LockStatus, _ time.Time) string { return candidates(s.Status) }},
	{"Phase", legacy, func(s LockStatus, _ time.Time) string { return string(s.Status.Phase) }},
	{"Legacy", legacy, func(s LockStatus, _ time.Time) string { return legacyCell(s.Status.Legacy) }},
	{"Token", wide, ofLeader(func(l *inspect.Leader) string { return number(l.Token) })},
	{"Pod", wide, ofLeader(func(l *inspect.Leader) string { return podName(l.Pod) })},
	{"Node", wide, ofLeader(func(l *inspect.Leader) string { return l.Node })},
	{"Lasts", wide, ofLeader(func(l *inspect.Leader) string { return (time.Duration(l.LeaseDurationSeconds) * time.Second).String() })},
	{"Transitions", wide, ofLeader(func(l *inspect.Leader) string { return strconv.Itoa(int(l.Transitions)) })},
	{"Waiting", wide, func(s LockStatus, _ time.Time) string { return s.Status.Holder().Waiting }},
}

func ofLeader(text func(*inspect.Leader) string) func(LockStatus, time.Time) string {
	return func(s LockStatus, _ time.Time) string {
		if s.Status.Leader == nil {
			return ""
		}
		return text(s.Status.Leader)
	}
}

// rows prints rows one by one. The columns keep their positions as long as no row is wider
// than the likely ones.
type rows struct {
	*printer
	out   io.Writer
	table tabWriter // writes to done; nil if the rows are those of no table
	done  *bytes.Buffer
}

// tabWriter aligns columns.
type tabWriter interface {
	io.Writer
	Flush() error
}

func (p *printer) rows(w io.Writer, likely []LockStatus, now time.Time) *rows {
	r := &rows{printer: p, out: w}
	if p.forPeople() {
		r.done = &bytes.Buffer{}
		table := printers.GetNewTabWriter(r.done)
		table.SetRememberedWidths(p.widths(likely, now))
		r.table = table
	}
	return r
}

// print prints one row.
func (r *rows) print(s LockStatus, now time.Time) error {
	if r.table == nil {
		return r.row(r.out, s, now)
	}
	names, cells := r.cells(now, []LockStatus{s})
	err := errors.Join(printTable(r.table, r.tables, names, cells), r.table.Flush())
	if err != nil {
		return err
	}
	lines := split(r.done.String())
	r.done.Reset()
	lines[len(lines)-1].color = r.colorOf(s)
	return raw(r.out, lines)
}

// padding is the space between two columns of kubectl's tables.
const padding = 3

// room is the longest text that some columns must hold later: a token has as many digits as
// the resourceVersions of a busy cluster.
var room = map[string]string{
	"State": string(inspect.Released), "Token": "1234567890", "Phase": string(record.PhaseSealed),
	"Last failover": "100m ago (reclaimed)", "Nobody led": "1m23.456s",
}

// widths are those of the columns, whichever candidate leads, and with candidates in three
// zones.
func (p *printer) widths(likely []LockStatus, now time.Time) []int {
	var widths []int
	for _, c := range p.visible(likely...) {
		width := max(utf8.RuneCountInString(c.name), len(none), len(room[c.name]))
		fit := func(text string) { width = max(width, utf8.RuneCountInString(text)) }
		for _, s := range likely {
			fit(c.cell(s, now))
			for _, one := range s.Status.Candidates {
				if c.name == "Candidates" {
					fit(strings.Repeat(one.Zone+":1,", 3))
				}
				s.Status.Leader = &inspect.Leader{Identity: one.Identity, Zone: one.Zone, Node: one.Node, Pod: one.Pod}
				s.Status.Next = &inspect.Next{Identity: one.Identity, Zone: one.Zone}
				s.Status.Vacancy = nil
				fit(c.cell(s, now))
				s.Status.Vacancy = &inspect.Vacancy{Last: one.Identity, LastZone: one.Zone, Uncertain: true}
				fit(c.cell(s, now))
			}
		}
		widths = append(widths, width+padding)
	}
	return widths
}

// columns are those that may be printed for some locks.
func (p *printer) columns() []column {
	var all []column
	if p.times {
		all = append(all, timeColumn)
	}
	if p.namespaces {
		all = append(all, namespaceColumn)
	}
	return slices.DeleteFunc(append(all, columns...), func(c column) bool { return c.when == wide && p.output != "wide" })
}

// visible are the columns that are printed. Once a lock had a legacy lock, its columns stay.
func (p *printer) visible(all ...LockStatus) []column {
	p.legacy = p.legacy || slices.ContainsFunc(all, func(s LockStatus) bool { return s.Status.Phase != "" || legacyCell(s.Status.Legacy) != "" })
	return slices.DeleteFunc(p.columns(), func(c column) bool { return c.when == legacy && !p.legacy })
}

// cells returns the names of the columns, and a row for each lock.
func (p *printer) cells(now time.Time, all []LockStatus) (names []string, rows [][]string) {
	rows = make([][]string, len(all))
	for _, c := range p.visible(all...) {
		names = append(names, c.name)
		for i, s := range all {
			rows[i] = append(rows[i], c.cell(s, now))
		}
	}
	return names, rows
}

// table prints a row for each lock.
func (p *printer) table(w io.Writer, now time.Time, all ...LockStatus) error {
	lines, err := p.lines(now, all)
	if err != nil {
		return err
	}
	return raw(w, lines)
}

// lines are those of the table, with their colors.
func (p *printer) lines(now time.Time, all []LockStatus) ([]line, error) {
	names, rows := p.cells(now, all)
	var colors []color
	for _, s := range all {
		colors = append(colors, p.colorOf(s))
	}
	return p.layout(p.tables, names, rows, colors)
}

func (p *printer) colorOf(s LockStatus) color {
	if !p.paint {
		return uncolored
	}
	return colorOf(s)
}

// layout returns a table or, if that does not fit into the terminal, a list for each row.
// There may be a color for each row.
func (p *printer) layout(tables printers.ResourcePrinter, names []string, rows [][]string, colors []color) ([]line, error) {
	lines, err := linesOf(func(w io.Writer) error { return printTable(w, tables, names, rows) })
	if err != nil || p.width > 0 && p.output != "wide" && widest(lines) > p.width {
		return lists(names, rows, colors), err
	}
	for i, c := range colors {
		lines[len(lines)-len(rows)+i].color = c
	}
	return lines, nil
}

// lists prints each row as a list of what its cells say, below that of the first column.
func lists(names []string, rows [][]string, colors []color) []line {
	var lines []line
	for i, row := range rows {
		first, head := 1, row[0]
		if names[0] == namespaceColumn.name {
			first, head = 2, row[0]+"/"+row[1]
		}
		if i > 0 {
			lines = append(lines, line{})
		}
		lines = append(lines, line{text: head})
		if len(colors) > 0 {
			lines[len(lines)-1].color = colors[i]
		}
		for j := first; j < len(row); j++ {
			if row[j] != "" {
				lines = append(lines, line{text: fmt.Sprintf("  %-*s  %s", len("Last failover"), names[j], row[j])})
			}
		}
	}
	return lines
}

// shows returns the parts of the output whose change is worth another line. It leaves out
// renewals and ages, and anything that a table leaves out.
func (p *printer) shows(s LockStatus) any {
	if p.forPeople() {
		var cells []string
		for _, c := range p.columns() {
			if c.when != volatile {
				cells = append(cells, c.cell(s, time.Time{}))
			}
		}
		return cells
	}
	status := s.Status
	status.Notes, status.Warnings = nil, nil
	if status.Leader != nil {
		leader := *status.Leader
		leader.Renewed, leader.LeaseLeftMilliseconds, leader.LeaseLeftBy = nil, nil, ""
		status.Leader = &leader
	}
	return status
}

// since is when the leader took the lock or, if nobody leads, since when nobody does.
func since(s inspect.Status) *metav1.MicroTime {
	switch {
	case s.Vacancy != nil:
		return s.Vacancy.Since
	case s.Leader != nil:
		return s.Leader.Since
	}
	return nil
}

// age says how long ago something was; if that is in the future, because clocks differ, when
// it was.
func age(at *metav1.MicroTime, now time.Time) string {
	switch {
	case at == nil:
		return ""
	case now.Sub(at.Time) < -time.Second:
		return at.UTC().Format(timeFormat)
	}
	return duration.HumanDuration(max(0, now.Sub(at.Time)))
}

// leaderCell names the leader or, if nobody leads, who led last.
func leaderCell(s inspect.Status) string {
	v := s.Vacancy
	if v == nil {
		return cmp.Or(s.Leader, &inspect.Leader{}).Identity
	}
	text := "nobody"
	if v.Uncertain {
		text += "?"
	}
	if v.Last != "" {
		text += " (was " + v.Last + ")"
	}
	return text
}

// zoneCell is the zone of the leader or, in parentheses, of who led last.
func zoneCell(s inspect.Status) string {
	switch {
	case s.Vacancy != nil && s.Vacancy.LastZone != "":
		return "(" + s.Vacancy.LastZone + ")"
	case s.Vacancy != nil || s.Leader == nil:
		return ""
	}
	return s.Leader.Zone
}

func failoverCell(f *inspect.Failover, now time.Time) string {
	switch {
	case f == nil:
		return ""
	case f.At == nil:
		return f.Cause
	case now.Sub(f.At.Time) < -time.Second:
		return age(f.At, now) + " (" + f.Cause + ")"
	}
	return age(f.At, now) + " ago (" + f.Cause + ")"
}

func nobodyLedCell(f *inspect.Failover) string {
	if f == nil || f.NobodyLedMilliseconds == nil {
		return ""
	}
	d := time.Duration(*f.NobodyLedMilliseconds) * time.Millisecond
	if d < 10*time.Minute {
		return d.String()
	}
	return duration.HumanDuration(d)
}

// unknown is the text of what may exist and is not known.
const unknown = "-"

func nextCell(n *inspect.Next) string {
	if n == nil {
		return unknown
	}
	return cmp.Or(inspect.Leader{Identity: n.Identity, Zone: n.Zone}.String(), "nobody")
}

// leaseLeftCell is a number of whole seconds. A tilde says that it depends on two clocks.
func leaseLeftCell(l *inspect.Leader) string {
	if l.LeaseLeftMilliseconds == nil {
		return unknown
	}
	text := (time.Duration(*l.LeaseLeftMilliseconds) * time.Millisecond).Truncate(time.Second).String()
	if l.LeaseLeftBy == inspect.ByClock {
		return "~" + text
	}
	return text
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
	case l.Lingering != "":
		return string(l.Kind) + " (deleted)"
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
func (p *printer) candidates(s LockStatus) ([]line, error) {
	var rows [][]string
	for _, c := range s.Status.Candidates {
		identity := c.Identity
		if s.Status.Leader != nil && c.Identity == s.Status.Leader.Identity {
			identity += " *"
		}
		state := cmp.Or(c.PodState, "<unknown>")
		if c.InNoPod() && c.PodState == "" {
			state = "<no pod>"
		}
		rows = append(rows, []string{
			identity, c.Zone, withState(c.Node, c.NodeState), state, c.Unhealthy, c.Version, c.Mode, c.Waiting,
		})
	}
	names := []string{"Candidate", "Zone", "Node", "Pod", "Unhealthy", "Version", "Mode", "Waiting"}
	return p.layout(newTables(p.noHeaders), names, rows, nil)
}
