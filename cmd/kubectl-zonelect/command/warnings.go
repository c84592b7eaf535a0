// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// warner says what about a lock may become trouble.
type warner struct {
	status *Status
	zones  []string // those that have nodes; nil where that is not known
	now    time.Time
}

func (w *warner) warn(format string, args ...any) {
	w.status.Warnings = append(w.status.Warnings, fmt.Sprintf(format, args...))
}

func (w *warner) note(format string, args ...any) {
	w.status.Notes = append(w.status.Notes, fmt.Sprintf(format, args...))
}

// here returns the candidates whose pods are not known to be gone.
func here(all []Candidate) []Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return c.PodState == Gone })
}

// candidates warns of who is there, and who is not.
func (w *warner) candidates() {
	all := here(w.status.Candidates)
	for _, c := range w.status.Candidates {
		w.candidate(c)
	}
	if l := w.status.Leader; l != nil && len(w.status.Candidates) > 0 && !slices.ContainsFunc(all, func(c Candidate) bool { return c.Identity == l.Identity }) {
		w.warn("%s holds the lock and has no presence: it does not announce itself, or it is gone", l.Identity)
		return // how many there are is not known, then
	}
	zones := zonesOf(all)
	switch {
	case len(all) == 0 && len(w.status.Candidates) > 0:
		w.warn("the pods of all candidates that have announced themselves are gone")
	case len(all) == 1:
		w.warn("there is one candidate only, as far as they announce themselves: nobody takes over from %s", all[0].Identity)
	case len(all) > 1 && len(zones) == 1 && zones[0] != "":
		w.warn("all %d candidates are in zone %s: nobody takes over when that zone dies", len(all), zones[0])
	case slices.Contains(zones, ""):
		w.note("the zone of some candidates is not known")
	}
	if w.zones == nil {
		return
	}
	for _, zone := range zones {
		if zone != "" && !slices.Contains(w.zones, zone) {
			w.warn("zone %s has candidates and no nodes", zone)
		}
	}
	for _, zone := range w.zones {
		if len(all) > 0 && !slices.Contains(zones, zone) && !slices.Contains(zones, "") {
			w.note("zone %s has nodes and no candidate: leadership cannot go there", zone)
		}
	}
}

// candidate warns of one candidate.
func (w *warner) candidate(c Candidate) {
	switch c.PodState {
	case Gone:
		w.note("the presence of pod %s is left over: that pod is gone, and the garbage collector has not removed it yet", c.Pod)
		return
	case "", ready:
	default:
		w.warn("the pod of %s is %s", c.Identity, c.PodState)
	}
	switch c.NodeState {
	case Gone:
		w.warn("the node of %s, %s, does not exist", c.Identity, c.Node)
	case notReady:
		w.warn("the node of %s, %s, is not ready", c.Identity, c.Node)
	}
	if c.Unhealthy != "" {
		w.warn("%s says that it is unhealthy: %s", c.Identity, c.Unhealthy)
	}
}

// The modes that candidates announce: in the first the Lease alone counts, in the
// others the legacy lock counts with it.
const (
	modeLease = "lease"
	modeAuto  = "auto"
	modeDual  = "dual"
)

// work tells a holder that does not work yet from one that leads. The holder says
// so on its presence, a moment after it took the Lease. In phase dual it does not
// work either while another has the legacy lock, unless it is in mode lease.
func (w *warner) work() {
	s := w.status
	if s.State != Held {
		return
	}
	holder := Candidate{Identity: s.Leader.Identity}
	if i := slices.IndexFunc(s.Candidates, func(c Candidate) bool { return c.Identity == holder.Identity }); i >= 0 {
		holder = s.Candidates[i]
	}
	elsewhere := s.Phase == record.PhaseDual && s.Legacy != nil && s.Legacy.Holder != "" && s.Legacy.Holder != holder.Identity
	switch {
	case holder.Waiting != "":
		s.State = Waiting
		w.note("%s holds the lock, but its work has not begun: %s", holder.Identity, holder.Waiting)
	case !elsewhere || holder.Mode == modeLease:
	case holder.Mode == modeAuto || holder.Mode == modeDual:
		s.State = Waiting
		w.note("%s holds the lock, but may not work: %s has the legacy lock", holder.Identity, s.Legacy.Holder)
	default:
		w.note("whether %s works is not known: it does not say its mode, and %s has the legacy lock", holder.Identity, s.Legacy.Holder)
	}
}

// zonesOf returns the zones of candidates, sorted; "" where one is not known.
func zonesOf(all []Candidate) []string {
	var zones []string
	for _, c := range all {
		zones = append(zones, c.Zone)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// evacuations takes in which zones people want leadership out of.
func (w *warner) evacuations(text string) {
	all, err := locks.ParseEvacuations(text)
	if err != nil {
		w.warn("the annotation zonelect.dev/evacuated cannot be read in full: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	var going []string
	for _, e := range all {
		stated := Evacuation{Zone: e.Zone}
		until := "until it is restored"
		if !e.Until.IsZero() {
			stated.Until = &metav1.Time{Time: e.Until.UTC()}
			stated.Over = !w.now.Before(e.Until)
			until = fmt.Sprintf("until %s (%s from now)", e.Until.UTC().Format(time.RFC3339), duration.HumanDuration(e.Until.Sub(w.now)))
		}
		w.status.Evacuated = append(w.status.Evacuated, stated)
		if stated.Over {
			w.note("the evacuation of zone %s is over since %s", e.Zone, e.Until.UTC().Format(time.RFC3339))
			continue
		}
		going = append(going, e.Zone)
		w.note("zone %s is evacuated %s", e.Zone, until)
		if l := w.status.Leader; l != nil && l.Zone == e.Zone {
			w.warn("%s leads in zone %s, which is evacuated", l.Identity, e.Zone)
		}
	}
	elsewhere := func(c Candidate) bool { return !slices.Contains(going, c.Zone) }
	if left := here(w.status.Candidates); len(going) > 0 && len(left) > 0 && !slices.ContainsFunc(left, elsewhere) {
		w.warn("every zone with candidates is evacuated: leadership cannot leave them")
	}
}
