// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// The names of checks.
const (
	checkOrder      = "order"       // one step at a time
	checkConfigMap  = "configmap"   // candidates can deal with its contents
	checkRecord     = "record"      // the right side holds the election record
	checkCandidates = "candidates"  // there are some, in mode auto
	checkLeader     = "leader"      // one of them holds the Lease and is alive
	checkArmed      = "armed"       // the shield is armed, so that it can be sealed
	checkPresumed   = "presumed"    // no legacy pod is presumed gone
	checkLegacyPods = "legacy-pods" // none is left, or, on the way back, one is there
	checkSelector   = "selector"    // it matches all pods that were seen to hold the legacy lock
	checkNoWayBack  = "no-way-back" // nothing can bring legacy pods back: only a person can know
)

// Check is one condition of a step.
type Check struct {
	// Name is order (of the steps), configmap (what it is), record (which side holds it), candidates (in
	// mode auto), leader (is alive), armed (the shield), presumed (gone, by M11), legacy-pods (may lead
	// still), selector (it matches the pods that were seen to hold the legacy lock) or no-way-back (only a
	// person can know).
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	ToDo   string `json:"toDo,omitempty"` // for a failed check
	// Acknowledgeable says that a caller that knows better may take the step anyway, with the
	// check's name in Options.Acknowledge.
	Acknowledgeable bool `json:"acknowledgeable,omitempty"`
}

// Passes reports whether the check lets the step be taken: it is OK, or may be acknowledged and
// is among those that are.
func (c Check) Passes(acknowledged ...string) bool {
	return c.OK || c.Acknowledgeable && slices.Contains(acknowledged, c.Name)
}

// failed returns the checks that do not pass.
func failed(checks []Check, acknowledged ...string) []Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Passes(acknowledged...) })
}

// Preflight checks whether a step from the current phase to another is safe. If legacy pods have
// finished, it waits up to twelve seconds for heartbeats of their kubelets.
func (m *Migration) Preflight(ctx context.Context, to Phase) ([]Check, error) {
	p, err := m.prepare(ctx, to)
	if err != nil {
		return nil, err
	}
	_, checks, err := p.check(ctx)
	return checks, err
}

// preflight is what a step finds out once.
type preflight struct {
	*observer
	to Phase
}

// kubeletPatience is how long to wait for a kubelet's heartbeat, to learn whether the status
// of a finished pod is true: a kubelet sends one every ten seconds.
const kubeletPatience = 12 * time.Second

func (m *Migration) prepare(ctx context.Context, to Phase) (*preflight, error) {
	p := &preflight{observer: &observer{Migration: m}, to: to}
	r, err := p.look(ctx)
	if err != nil || !order(r, "", to).OK {
		return p, err
	}
	finished := func(pod LegacyPod) bool { return pod.State == string(legacypods.Completed) }
	for end := time.Now().Add(kubeletPatience); slices.ContainsFunc(r.LegacyPods, finished) && time.Now().Before(end); {
		if err := sleep.For(ctx, time.Second); err != nil {
			return p, err
		}
		if r, err = p.look(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

// check looks again and returns all checks.
func (p *preflight) check(ctx context.Context) (Report, []Check, error) {
	r, err := p.look(ctx)
	if err != nil {
		return r, nil, err
	}
	checks := []Check{order(r, "", p.to)}
	if !checks[0].OK {
		return r, checks, nil // the rest would be about another step
	}
	lock := configMap
	if r.legacy.Elected {
		lock = electionRecord
	}
	checks = append(checks, lock(r, p.to), candidates(r, p.to))
	if r.Phase != Legacy && (p.to != Legacy || !r.electorLeads()) {
		checks = append(checks, leader(r, p.to))
	}
	if p.to == Sealed || p.to == Clean {
		checks = append(checks, selected(r))
	}
	switch p.to {
	case Sealed:
		checks = append(checks, armed(r), presumed(r))
	case Clean:
		checks = append(checks, noWayBack)
	}
	if check, asked := legacyPods(r, p.to); asked {
		checks = append(checks, check)
	}
	return r, checks, nil
}

// order checks that a command takes a step from this phase, in that way, to a phase; "" means any.
func order(r Report, by string, to Phase) Check {
	s := r.course().step(r.Phase, by, to)
	c := Check{Name: checkOrder, Detail: "from phase " + string(r.Phase), OK: s != nil && s.By != ""}
	if to != "" {
		c.Detail += " to " + string(to)
	}
	if c.OK {
		return c
	}
	c.Detail = "there is no " + cmp.Or(by, "step") + " " + c.Detail
	switch {
	case r.Phase == "":
		c.Detail, c.ToDo = "no phase is on record", r.begin()
	case r.Phase == to:
		c.Detail, c.ToDo = fmt.Sprintf("the phase is %s already", to), "nothing"
	case r.legacy.Elected && by == byAdvance && r.Phase == Dual:
		c.ToDo = "an election record ends by time and cannot be sealed: finish the rollout, and then clean"
	default:
		c.ToDo = "take one step at a time, from here: " + r.course().from(r.Phase)
	}
	return c
}

func configMap(r Report, to Phase) Check {
	cm := r.ConfigMap
	c := Check{Name: checkConfigMap, OK: true, Detail: fmt.Sprintf("%s is %s", cm.Name, cmp.Or(string(cm.Kind), "not known"))}
	switch {
	case cm.Kind == "":
		c.OK, c.ToDo = false, "grant the verb get on configmaps"
	case cm.shield.Condemned && to != Clean:
		c.OK, c.Detail = false, cm.shield.Lingering()
		c.ToDo = "have the finalizers removed, by whoever put them there or by hand: what is written on it does not stay"
	case cm.Kind == ownerref.Foreign && to != Legacy && !cm.shield.Bare:
		c.OK, c.ToDo = false, cm.Why
	case cm.Kind == ownerref.Legacy && (r.Phase == Clean || r.Phase == Sealed):
		c.OK, c.Detail = false, fmt.Sprintf("%s is the lock of legacy pod %s, though the phase is %s", cm.Name, cm.Owner, r.Phase)
		c.ToDo = "remove that pod, wait until the ConfigMap has gone with it, and try again"
	case cm.Kind != ownerref.Sealed && to == Clean && cm.Kind != ownerref.Absent:
		c.OK, c.ToDo = false, "wait until the candidates have sealed it"
	}
	return c
}

func candidates(r Report, to Phase) Check {
	running := r.running()
	var auto, other []string
	for _, c := range running {
		if c.Mode == string(multilock.Auto) {
			auto = append(auto, c.Name())
		} else {
			other = append(other, fmt.Sprintf("%s (%s)", c.Name(), c.Mode))
		}
	}
	c := Check{Name: checkCandidates, OK: true, Detail: fmt.Sprintf("%d with a presence in mode auto or dual at the lock", len(running))}
	switch {
	case len(running) == 0:
		c.OK, c.ToDo = false, "run the operator's version that takes part in the migration: nobody else follows the phase"
		if to == Legacy {
			c.ToDo = "nothing: once no candidate's pod is left, the candidates' part of the lock goes away by itself, and legacy pods lead"
		}
	case to == Legacy || to == Dual || len(other) == 0:
	case len(auto) == 0:
		c.OK, c.Detail = false, "all stay in phase dual: "+strings.Join(other, ", ")
		c.ToDo = "run them in mode auto"
	default:
		c.OK, c.Acknowledgeable = false, true
		c.Detail = "some stay in phase dual and would no longer campaign: " + strings.Join(other, ", ")
		c.ToDo = "run them in mode auto"
	}
	return c
}

// leader checks that the holder of the Lease, which does the work (M3), is alive and takes
// part.
func leader(r Report, to Phase) Check {
	h := r.holder()
	c := Check{Name: checkLeader, OK: true}
	switch {
	case !r.Lease.Exists:
		c.OK, c.Detail, c.ToDo = false, "the Lease does not exist", "start a candidate, or find out why none may write it"
	case r.Lease.Holder == "":
		c.OK, c.Detail, c.ToDo = false, "nobody holds the Lease", "find out why no candidate leads: the leader does what the phase says"
	case r.Lease.Expired:
		c.OK, c.Detail = false, fmt.Sprintf("%q holds the Lease, and has not renewed it since %v, by the clock of this machine", r.Lease.Holder, r.Lease.Renewed)
		c.ToDo = "find out why no candidate leads, or set this machine's clock: the leader does what the phase says"
	case h == nil:
		c.OK, c.Detail = false, fmt.Sprintf("%q holds the Lease and does not take part in the migration", r.Lease.Holder)
		c.ToDo = "stop it, so that a candidate takes over"
		c.Acknowledgeable = to == Dual && r.Lease.Ours // then it stops by itself
	default:
		c.Detail = h.Name() + " renews the Lease"
	}
	return c
}

func armed(r Report) Check {
	c := Check{Name: checkArmed, OK: r.ConfigMap.Kind == ownerref.Shield && r.ConfigMap.Armed, Detail: "the shield is up and armed"}
	if !c.OK {
		c.Detail = "there is no armed shield, which says that no legacy pod was left"
		c.ToDo = "wait until a candidate leads: then it is armed"
		if h := r.holder(); h != nil && h.Waiting != "" {
			c.ToDo = h.Name() + " waits: " + h.Waiting
		}
	}
	return c
}

func presumed(r Report) Check {
	all := r.ConfigMap.Presumed
	c := Check{Name: checkPresumed, OK: len(all) == 0, Detail: "no legacy pod is presumed gone"}
	if !c.OK {
		c.Detail = "legacy pods count as gone though nothing proves it: " + strings.Join(all, ", ")
		c.ToDo = "make sure that their nodes are off, and remove the pods, or the nodes"
	}
	return c
}

// selected checks that the selector of the operator's pods matches each one that was seen to hold the
// legacy lock, whether that pod is still there or not: otherwise pods that nobody counts may wait for
// that lock (M9).
func selected(r Report) Check {
	c := Check{Name: checkSelector, OK: len(r.unmatched) == 0, Detail: fmt.Sprintf("it matches all of %d that were seen to hold the legacy lock", len(r.holders))}
	switch {
	case !c.OK:
		c.Acknowledgeable = true
		c.Detail = fmt.Sprintf("the selector %q is not known to match these, which were seen to hold the legacy lock: %s", r.selector, strings.Join(r.unmatched, ", "))
		c.ToDo = "give a selector that matches the operator's old pods and new ones; if these pods' labels are not known, make sure that no other pod uses the legacy lock"
	case len(r.holders) == 0:
		c.Detail = fmt.Sprintf("nobody was seen to hold the legacy lock %s: if an old version ran meanwhile, that name is wrong", r.ConfigMap.Name)
	}
	return c
}

// noWayBack never passes, because only a person can answer it.
var noWayBack = Check{
	Name: checkNoWayBack, Acknowledgeable: true,
	Detail: "the API does not show whether anything can bring legacy pods back: another Deployment, a rollback, a chart or a repository that holds the old version",
	ToDo:   "make sure that nothing can, because a legacy pod that starts after this step leads beside the candidates; then acknowledge this check",
}

// legacyPods checks that none is left on the way forward, and that there is one to lead on
// the way back. asked is false if they do not matter.
func legacyPods(r Report, to Phase) (check Check, asked bool) {
	var names []string
	for _, p := range r.LegacyPods {
		names = append(names, fmt.Sprintf("%s (%s: %s)", p.Pod, p.State, p.Why))
	}
	c := Check{Name: checkLegacyPods, OK: r.Counted && len(names) == 0, Detail: "none", Acknowledgeable: true}
	if len(names) > 0 {
		c.Detail = strings.Join(names, ", ")
	}
	switch {
	case !r.Counted:
		c.Detail, c.ToDo = "they could not be counted", strings.Join(r.Problems, "; ")
	case to == Legacy && len(names) > 0:
		c.OK = true
	case to == Legacy:
		c.OK, c.Detail = false, "no legacy pod is there to lead"
		c.ToDo = "roll the operator back to its old version: without a legacy pod nobody leads"
	case to == Dual && (r.Phase == Sealed || r.Phase == Clean && r.legacy.Elected):
		return c, false // the record answers this
	case r.Phase == Legacy:
		return Check{Name: checkLegacyPods, OK: true, Detail: "the candidates wait until these pods are gone or no longer lead: " + c.Detail}, true
	default:
		c.ToDo = "finish the rollout, so that none is left; a pod in mode lease without a presence looks like one"
	}
	if c.OK {
		c.ToDo, c.Acknowledgeable = "", false
	}
	return c, true
}
