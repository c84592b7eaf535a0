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

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Check is one condition of a step.
type Check struct {
	// Name is order (of the steps), configmap (what it is; before it is sealed it is an armed shield, and no
	// pod is presumed gone), record (which side holds it), candidates (in mode auto), leader (is alive),
	// legacy-pods (may lead still), selector (it matches the pods that were seen to hold the legacy lock) or
	// no-way-back (only a person can know).
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

// kubeletPatience is how long to wait for a kubelet's heartbeat, to learn whether the status
// of a finished pod is true: a kubelet sends one every ten seconds.
const kubeletPatience = 12 * time.Second

// settle waits for the kubelets of legacy pods that have finished, by a report.
func (o *observer) settle(ctx context.Context, r Report) (err error) {
	finished := func(pod LegacyPod) bool { return pod.State == string(legacypods.Completed) }
	for end := time.Now().Add(kubeletPatience); err == nil && slices.ContainsFunc(r.LegacyPods, finished) && time.Now().Before(end); {
		if err = sleep.For(ctx, time.Second); err == nil {
			r, err = o.look(ctx)
		}
	}
	return err
}

// check looks again and returns all checks of a step to a phase.
func (o *observer) check(ctx context.Context, to Phase) (Report, []Check, error) {
	r, err := o.look(ctx)
	if err != nil {
		return r, nil, err
	}
	checks := []Check{order(r, "", to)}
	if !checks[0].OK {
		return r, checks, nil // the rest would be about another step
	}
	lock := configMap
	if r.Legacy.Lock.Elected {
		lock = electionRecord
	}
	checks = append(checks, lock(r, to), candidates(r, to))
	if r.Phase != Legacy && (to != Legacy || !r.electorLeads()) {
		checks = append(checks, leader(r, to))
	}
	switch to {
	case Sealed:
		checks = append(checks, selected(r))
	case Clean:
		checks = append(checks, selected(r), noWayBack)
	}
	if check, asked := legacyPods(r, to); asked {
		checks = append(checks, check)
	}
	return r, checks, nil
}

// order checks that a command takes a step from this phase, in that way, to a phase; "" means any.
func order(r Report, by string, to Phase) Check {
	s := r.course().step(r.Phase, by, to)
	c := Check{Name: "order", Detail: "from phase " + string(r.Phase), OK: s != nil && s.By != ""}
	if to != "" {
		c.Detail += " to " + string(to)
	}
	if c.OK {
		return c
	}
	c.Detail = "there is no " + cmp.Or(by, "step") + " " + c.Detail
	switch {
	case r.alone():
		c.Detail, c.ToDo = "no phase is on record", nothingToMigrate
	case r.Phase == "":
		c.Detail, c.ToDo = "no phase is on record", r.course().step("", "", "").Does
	case r.Phase == to:
		c.Detail, c.ToDo = fmt.Sprintf("the phase is %s already", to), "nothing"
	case r.Legacy.Lock.Elected && by == byAdvance && r.Phase == Dual:
		c.ToDo = "an election record ends by time and cannot be sealed: finish the rollout, and then clean"
	default:
		c.ToDo = "take one step at a time, as the plan says"
	}
	return c
}

// fails returns the check as one that failed. An empty detail stays as it is.
func (c Check) fails(detail, toDo string) Check {
	c.OK, c.Detail, c.ToDo = false, cmp.Or(detail, c.Detail), toDo
	return c
}

func configMap(r Report, to Phase) Check {
	cm, name := r.Legacy.ConfigMap, r.Legacy.Lock.Name
	c := Check{Name: "configmap", OK: true, Detail: fmt.Sprintf("%s is %s", name, cmp.Or(string(cm.Kind), "not known"))}
	switch {
	case cm.Kind == "":
		return c.fails("", "grant the verb get on configmaps")
	case cm.Condemned && to != Clean:
		return c.fails(cm.Lingering(), inspect.RemoveFinalizers+": nothing that is written to this ConfigMap stays")
	case cm.Kind == ownerref.Foreign && to != Legacy && !cm.Bare:
		return c.fails("", cm.Why)
	case cm.Kind == ownerref.Legacy && (r.Phase == Clean || r.Phase == Sealed):
		return c.fails(fmt.Sprintf("%s is the lock of legacy pod %s, though the phase is %s", name, cm.Owner, r.Phase),
			"remove that pod, wait until the ConfigMap has gone with it, and try again")
	case cm.Kind != ownerref.Sealed && to == Clean && cm.Kind != ownerref.Absent:
		return c.fails("", "wait until the candidates have sealed it")
	case to == Sealed && (cm.Kind != ownerref.Shield || !cm.Armed):
		return c.fails("there is no armed shield: legacy pods may be left",
			"wait until a candidate leads: then it is armed")
	case to == Sealed && len(cm.Presumed) > 0:
		return c.fails("legacy pods count as gone though nothing proves it: "+fmt.Sprint(cm.Presumed),
			"make sure that their nodes are off, and remove the pods, or the nodes")
	}
	return c
}

// electionRecord checks that a step does not put two leaders side by side.
func electionRecord(r Report, to Phase) Check {
	c := Check{Name: "record", OK: true, Detail: r.recordText()}
	l, held := r.Legacy, r.Legacy.Holder
	switch {
	case l.Kind == "":
		return c.fails("it could not be read", "grant the verb get on "+l.Lock.Resource)
	case l.Kind == ownerref.Foreign:
		return c.fails(l.Why, "remove the annotation if no leader is alive")
	case to == Clean && held != "" && held != r.said.Holder:
		return c.fails("", "end the legacy electors, and wait until a candidate holds the Lease and the record")
	case to == Legacy && held == "" && r.said.Holder != "":
		// On the way back from clean the leader may be cut off, and has only the Lease.
		return c.fails("", fmt.Sprintf("wait until %s has the record too, which keeps legacy electors out until it has stopped", r.said.Holder))
	case to == Dual && r.Phase == Clean && r.electorLeads():
		c.Acknowledgeable = true
		return c.fails("", "end it: it may lead beside the candidates, whose term ends with this step")
	}
	return c
}

func candidates(r Report, to Phase) Check {
	running := r.running()
	var dual []string
	for _, c := range running {
		if c.Mode != string(multilock.Auto) {
			dual = append(dual, fmt.Sprintf("%s (%s)", c.Name(), c.Mode))
		}
	}
	c := Check{Name: "candidates", OK: true, Detail: fmt.Sprintf("%d in mode auto or dual", len(running))}
	switch {
	case len(running) == 0 && to == Legacy:
		return c.fails("", "nothing: once no candidate's pod is left, the candidates' part of the lock goes away by itself, and legacy pods lead")
	case len(running) == 0:
		return c.fails("", "run the operator's version that takes part in the migration: nobody else follows the phase")
	case to == Legacy || to == Dual || len(dual) == 0:
		return c
	}
	c.Acknowledgeable = len(dual) < len(running)
	return c.fails("these stay in phase dual and would no longer campaign: "+strings.Join(dual, ", "), "run them in mode auto")
}

// leader checks that the holder of the Lease, which does the work (M3), is alive and takes
// part.
func leader(r Report, to Phase) Check {
	c, l, h := Check{Name: "leader", OK: true}, r.said, r.holder()
	switch {
	case r.lease == nil:
		return c.fails("the Lease does not exist", "start a candidate, or find out why none may write it")
	case l.Holder == "":
		return c.fails("nobody holds the Lease", "find out why no candidate leads: the leader does what the phase says")
	case r.expired:
		return c.fails(fmt.Sprintf("%q holds the Lease, and has not renewed it since %v, by the clock of this machine", l.Holder, l.RenewTime),
			"find out why no candidate leads, or set this machine's clock: the leader does what the phase says")
	case h == nil:
		_, ours := inspect.DetailsOf(l)
		c.Acknowledgeable = to == Dual && ours // then it stops by itself
		return c.fails(fmt.Sprintf("%q holds the Lease and does not take part in the migration", l.Holder),
			"stop it, so that a candidate takes over")
	}
	c.Detail = h.Name() + " renews the Lease"
	if h.Waiting != "" {
		c.Detail += ", and waits: " + h.Waiting
	}
	return c
}

// selected checks that the selector of the operator's pods matches each one that was seen to hold the
// legacy lock, whether that pod is still there or not: otherwise pods that nobody counts may wait for
// that lock (M9).
func selected(r Report) Check {
	c := Check{
		Name: "selector", OK: len(r.unmatched) == 0,
		Detail: fmt.Sprintf("it matches all of %d that were seen to hold the legacy lock", len(r.holders)),
	}
	switch {
	case !c.OK:
		c.Acknowledgeable = true
		const unmatched = "the selector %q is not known to match these, which were seen to hold the legacy lock: %s"
		return c.fails(fmt.Sprintf(unmatched, r.selector, strings.Join(r.unmatched, ", ")),
			"give a selector that matches the operator's old pods and new ones; if these pods' labels are not known, "+
				"make sure that no other pod uses the legacy lock")
	case len(r.holders) == 0:
		c.Detail = "nobody was seen holding the legacy lock " + r.Legacy.Lock.Name + ": if an old version was running, the name is wrong"
	}
	return c
}

// noWayBack never passes, because only a person can answer it.
var noWayBack = Check{
	Name: "no-way-back", Acknowledgeable: true,
	Detail: "the API does not show whether anything can bring legacy pods back: " +
		"another Deployment, a rollback, a chart or a repository that holds the old version",
	ToDo: "make sure that nothing can, because a legacy pod that starts after this step leads beside the candidates; " +
		"then acknowledge this check",
}

// legacyPods checks that none is left on the way forward, and that there is one to lead on
// the way back. asked is false if they do not matter.
func legacyPods(r Report, to Phase) (check Check, asked bool) {
	var names []string
	for _, p := range r.LegacyPods {
		names = append(names, fmt.Sprintf("%s (%s: %s)", p.Pod, p.State, p.Why))
	}
	c := Check{Name: "legacy-pods", OK: true, Detail: cmp.Or(strings.Join(names, ", "), "none")}
	fails := func(detail, toDo string) (Check, bool) {
		c.Acknowledgeable = true
		return c.fails(detail, toDo), true
	}
	switch {
	case !r.Counted:
		return fails("they could not be counted", strings.Join(r.Problems, "; "))
	case to == Legacy && len(names) == 0:
		return fails("no legacy pod is there to lead", "roll the operator back to its old version: without a legacy pod nobody leads")
	case to == Dual && (r.Phase == Sealed || r.Phase == Clean && r.Legacy.Lock.Elected):
		return c, false // the record answers this
	case r.Phase == Legacy:
		c.Detail = "the candidates wait until these pods are gone or no longer lead: " + c.Detail
	case to != Legacy && len(names) > 0:
		return fails("", "finish the rollout, so that none is left; a pod in mode lease without a presence looks like one")
	}
	return c, true
}
