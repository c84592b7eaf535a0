// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"strconv"
	"time"
)

// data is what the page's script draws from. Times are milliseconds since the beginning, and
// lanes, zones and groups are numbers. Tokens are text, because a number of JavaScript has
// only 53 bits.
type data struct {
	Begin     string         `json:"begin"`
	End       float64        `json:"end"`
	Zones     []string       `json:"zones"`
	Groups    []string       `json:"groups"`
	Lanes     []laneData     `json:"lanes"`
	Terms     []termData     `json:"terms"`
	Faults    []faultData    `json:"faults"`
	Expiries  []instantData  `json:"expiries"`
	Failovers []failoverData `json:"failovers"`
	Overlaps  []overlapData  `json:"overlaps"`
	Notes     []instantData  `json:"notes"`
}

type laneData struct {
	Name  string `json:"name"`
	Zone  int    `json:"zone"`
	Group int    `json:"group"`
}

type termData struct {
	Lane  int     `json:"lane"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Open  bool    `json:"open,omitempty"`
	Token string  `json:"token,omitempty"`
	Cause string  `json:"cause,omitempty"`
	Ended string  `json:"ended,omitempty"`
}

// faultData has -1 for a zone or a lane that the fault does not name.
type faultData struct {
	Kind FaultKind `json:"kind"`
	Zone int       `json:"zone"`
	Lane int       `json:"lane"`
	From float64   `json:"from"`
	To   float64   `json:"to"`
	Open bool      `json:"open,omitempty"`
	Text string    `json:"text,omitempty"`
}

type instantData struct {
	Lane int     `json:"lane"`
	At   float64 `json:"at"`
	Text string  `json:"text,omitempty"`
}

type failoverData struct {
	Lane     int         `json:"lane"`
	Previous string      `json:"previous,omitempty"`
	Cause    string      `json:"cause,omitempty"`
	Token    string      `json:"token,omitempty"`
	Phases   []phaseData `json:"phases"`
}

// overlapData is a time in which two lanes of a group led. Term is the number of the later
// one's term.
type overlapData struct {
	Group   int     `json:"group"`
	Leaders [2]int  `json:"leaders"`
	Term    int     `json:"term"`
	From    float64 `json:"from"`
	To      float64 `json:"to"`
}

type phaseData struct {
	Name PhaseName `json:"name"`
	From float64   `json:"from"`
	To   float64   `json:"to"`
}

// newData expects a history that is normalized and checked.
func newData(h History) data {
	d := data{
		Begin: h.Begin.UTC().Format(time.RFC3339Nano), End: ms(h.End.Sub(h.Begin)), Zones: h.Zones,
		Terms: []termData{}, Faults: []faultData{}, Expiries: []instantData{}, Failovers: []failoverData{}, Overlaps: []overlapData{}, Notes: []instantData{},
	}
	lanes := d.addLanes(h)
	at := func(t time.Time) float64 { return ms(t.Sub(h.Begin)) }
	until := func(t time.Time) float64 { return ms(h.length(h.Begin, t)) }
	for _, t := range h.Terms {
		d.Terms = append(d.Terms, termData{lanes[t.Lane], at(t.From), until(t.To), t.To.IsZero(), token(t.Token), t.Cause, t.Ended})
	}
	for _, f := range h.Faults {
		zone := -1
		if f.Zone != "" {
			zone = slices.Index(h.Zones, f.Zone)
		}
		d.Faults = append(d.Faults, faultData{f.Kind, zone, number(lanes, f.Lane), at(f.From), until(f.To), f.To.IsZero(), f.Text})
	}
	for _, e := range h.Expiries {
		d.Expiries = append(d.Expiries, instantData{Lane: lanes[e.Lane], At: at(e.At)})
	}
	for _, n := range h.Notes {
		d.Notes = append(d.Notes, instantData{number(lanes, n.Lane), at(n.At), n.Text})
	}
	for _, f := range h.Failovers {
		x := failoverData{lanes[f.Lane], f.Previous, f.Cause, token(f.Token), []phaseData{}}
		for _, p := range f.Phases {
			x.Phases = append(x.Phases, phaseData{p.Name, at(p.From), at(p.To)})
		}
		d.Failovers = append(d.Failovers, x)
	}
	for _, o := range h.overlaps() {
		first, second := lanes[h.Terms[o.first].Lane], lanes[h.Terms[o.second].Lane]
		d.Overlaps = append(d.Overlaps, overlapData{d.Lanes[second].Group, [2]int{first, second}, o.second, at(o.from), at(o.to)})
	}
	return d
}

// addLanes adds the lanes and their groups, and returns the lanes' numbers.
func (d *data) addLanes(h History) map[string]int {
	numbers := map[string]int{}
	d.Lanes, d.Groups = []laneData{}, []string{}
	if d.Zones == nil {
		d.Zones = []string{}
	}
	for i, l := range h.Lanes {
		group := slices.Index(d.Groups, l.Group)
		if group < 0 {
			group = len(d.Groups)
			d.Groups = append(d.Groups, l.Group)
		}
		numbers[l.ID] = i
		d.Lanes = append(d.Lanes, laneData{l.name(), slices.Index(h.Zones, l.Zone), group})
	}
	return numbers
}

// number returns -1 for no lane.
func number(lanes map[string]int, id string) int {
	if n, ok := lanes[id]; ok {
		return n
	}
	return -1
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// token is empty for none.
func token(t uint64) string {
	if t == 0 {
		return ""
	}
	return strconv.FormatUint(t, 10)
}
