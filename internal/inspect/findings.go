// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import "fmt"

// Findings are remarks about an election, in words.
type Findings struct {
	// Problems keep the election from working.
	Problems []string `json:"problems,omitempty"`
	// Warnings say what may become a problem.
	Warnings []string `json:"warnings,omitempty"`
	// Notes say what no field does.
	Notes []string `json:"notes,omitempty"`
}

// Problem adds one.
func (f *Findings) Problem(format string, args ...any) {
	f.Problems = append(f.Problems, fmt.Sprintf(format, args...))
}

// Warn adds a warning.
func (f *Findings) Warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// Note adds one.
func (f *Findings) Note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// Many is a number of things.
func Many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// CheckPod says what is wrong with a candidate's pod.
func (f *Findings) CheckPod(c Candidate) {
	switch c.PodState {
	case "", Ready:
	case Gone:
		if c.InNoPod() {
			f.Note("the presence of %s is left over: it has not been renewed", c.Identity)
			return
		}
		f.Note("the presence of pod %s is left over: that pod is gone, and the garbage collector has not removed it yet", c.Pod)
	default:
		f.Warn("the pod of %s is %s", c.Identity, c.PodState)
	}
}

// CheckSpread says whether candidates are too few, or too close together, for one to take over from another.
func (f *Findings) CheckSpread(all []Candidate) {
	switch zones, unknown := ZonesOf(all); {
	case len(all) == 1:
		f.Warn("only one candidate has announced itself: nobody takes over from %s", all[0].Identity)
	case unknown > 0:
		f.Note("the zone of some candidates is not known")
	case len(zones) == 1:
		f.Warn("all %d candidates are in zone %s: nobody takes over when that zone dies", len(all), zones[0])
	}
}
