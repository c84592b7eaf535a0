// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/inspect"
)

// Hints are what helps, by check. They are the same for all elections, so that many of them share one.
var hints = map[string]string{
	"holder-gone": "if the program was removed, delete the object; if it runs, look at its log: its replicas do not take the lock",
	"silent":      "if the program was removed, delete the object; if it runs, look at its log: a liveness probe that knows of the election (client-go's HealthzAdaptor, zonelect's LivenessHandler) restarts a program that hangs",
	"vacant":      "if the program was removed or scaled down, delete the object; if it runs, look at its log and its rights",
	"taken-early": "find out whether two programs or two versions share the name, or whether somebody edits the object: a lease should run out, or be released, before another takes it",
	"ran-out":     "the holder is too slow or is starved of CPU, or the API is: look at its log and at the API server's latency, and use a longer lease",
	"late":        "look at the API server's latency, and at the holder's CPU limit and its client's QPS; a longer lease leaves more room",
	"tight":       "renew at least three times in a lease",
	"margin":      "make LeaseDuration longer than RenewDeadline and RetryPeriod together, with some time to stop on top, such as 15s/10s/2s",
	"flaps":       "look at why leaders end: restarts, probes, memory, the API server's latency; a longer timing helps against outages of the API",
	"one-replica": "run two replicas, in different zones: with one, nobody waits to take over, whatever elects",
	"one-zone":    "spread the replicas by topologySpreadConstraints on topology.kubernetes.io/zone",
	"no-duration": "set the lease duration where the program is configured",
	"long-lease":  "use a shorter lease: nobody leads for that long after a crash",
	"for-life":    "move it to a Lease while the operator runs: see " + doctor.Page("migration.md"),
	"old-record":  "move it to a Lease: client-go has no such lock since 0.28",
	"wall-clock":  "keep the clocks of all nodes in step, and watch that",
	"unseen":      "watch for longer, with --for",
}

func say(check string, r doctor.Result, format string, args ...any) doctor.Finding {
	return doctor.Finding{Check: check, Result: r, Text: fmt.Sprintf(format, args...)}
}

// linked adds what helps, and where that is explained.
func linked(all []doctor.Finding) []doctor.Finding {
	for i := range all {
		all[i].Hint = hints[all[i].Check]
		all[i].Link = Link(all[i].Check)
	}
	return all
}

// check makes all checks.
func (j *judgement) check() []doctor.Finding {
	var all []doctor.Finding
	for _, check := range []func() []doctor.Finding{
		j.checkHolder, j.checkTakeovers, j.checkRenewals, j.checkMargin, j.checkChanges, j.checkReplicas, j.checkLease, j.checkKind,
	} {
		all = append(all, check()...)
	}
	return all
}

// watched is for how long the election was watched, as a text.
func (j *judgement) watched() string { return inspect.Rounded(j.Watched) }

// random is what most electors add to the host name, so that each process has an identity of its own.
var random = regexp.MustCompile(`_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Brief is an identity without what is random in it.
func Brief(holder string) string { return random.ReplaceAllString(holder, "") }

// checkHolder looks for a holder that does not renew, or for none.
func (j *judgement) checkHolder() []doctor.Finding {
	switch {
	case j.report.Kind == IsForLife:
		return j.checkOwner()
	case j.last.Holder == "":
		if slices.ContainsFunc(j.States, func(s State) bool { return s.Holder != "" }) {
			return nil // it was released just now
		}
		return []doctor.Finding{say("vacant", doctor.Warning, "nobody holds it, and nobody took it in %s of watching", j.watched())}
	}
	quiet := j.Now.Sub(j.lastRenewal())
	switch lease := j.last.Lease; {
	case j.report.Kind != OnLease && j.report.Renewals > 0, quiet < lease:
		if j.report.Renewals == 0 && j.States[0].Holder == j.last.Holder {
			return []doctor.Finding{say("unseen", doctor.Note, "no renewal was seen in %s of watching, and its lease lasts %s: whether somebody leads is not known", j.watched(), lease)}
		}
		return nil
	case lease == 0:
		return nil // see checkLease
	}
	return []doctor.Finding{j.silent(quiet)}
}

// lastRenewal is when the holder was last seen to renew, or when watching began.
func (j *judgement) lastRenewal() time.Time {
	for i := len(j.States) - 1; i > 0; i-- {
		if j.renews(i) || j.States[i].Holder != j.States[i-1].Holder {
			return j.States[i].At
		}
	}
	return j.States[0].At
}

// silent is a holder that has not renewed for longer than its lease. Others should lead by now, if there
// are any.
func (j *judgement) silent(quiet time.Duration) doctor.Finding {
	result := doctor.Warning
	others := "no replica of it is known to run"
	if n := len(j.siblings); n > 0 {
		result, others = doctor.Problem, fmt.Sprintf("of %s run %d", j.workload, n)
	}
	long := fmt.Sprintf("%s holds it and has not renewed for %s, longer than its lease of %s", Brief(j.last.Holder), inspect.Rounded(quiet), j.last.Lease)
	switch {
	case j.gone != "":
		return say("holder-gone", result, "%s: its pod %s is gone; %s", long, j.gone, others)
	case j.pod != nil && j.pod.Ended:
		return say("holder-gone", result, "%s: its pod %s has ended; %s", long, j.pod.Name, others)
	case j.pod != nil && j.pod.Going:
		return say("holder-gone", result, "%s: its pod %s is being deleted; %s", long, j.pod.Name, others)
	case j.pod != nil:
		return say("silent", doctor.Problem, "%s, though its pod %s runs", long, j.pod.Name)
	case len(j.siblings) > 0:
		return say("holder-gone", result, "%s, and no pod in %s has its name; %s", long, j.scope(), others)
	case j.named != "": // which may be that of no pod at all
		return say("silent", result, "%s, and no pod in %s has its name", long, j.scope())
	}
	return say("silent", result, "%s", long)
}

// scope is where pods were looked for.
func (j *judgement) scope() string {
	if j.Cluster.Namespace == "" {
		return "the cluster"
	}
	return "namespace " + j.Cluster.Namespace
}

// checkOwner looks at the pod of a leader-for-life lock.
func (j *judgement) checkOwner() []doctor.Finding {
	name := j.Owner.Name
	switch {
	case j.Pods.Unknown != "":
		return nil
	case j.gone != "":
		return []doctor.Finding{say("holder-gone", doctor.Problem, "its pod %s is gone: nobody leads until the garbage collector has deleted the ConfigMap", name)}
	case j.pod.Ended:
		return []doctor.Finding{say("holder-gone", doctor.Problem, "its pod %s has ended and is still there: nobody leads until somebody deletes it", name)}
	case j.pod.Going:
		return []doctor.Finding{say("holder-gone", doctor.Problem, "its pod %s is being deleted: nobody else leads until it is gone", name)}
	}
	return nil
}

// leastEarly is how much of a lease must be left, so that taking it was too early for certain: it was seen
// by several clocks, and durations may be in whole seconds.
const leastEarly = time.Second

// checkTakeovers looks for a lease that was taken while it lasted. A takeover by zonelect may have had proof
// that the holder was dead.
func (j *judgement) checkTakeovers() []doctor.Finding {
	for i := 1; i < len(j.States); i++ {
		s, before := j.States[i], j.States[i-1]
		if s.Blind || before.Blind || s.Zonelect || s.Holder == "" || before.Holder == "" || s.Holder == before.Holder {
			continue
		}
		if left := before.Lease - s.At.Sub(before.At); left >= leastEarly {
			return []doctor.Finding{say("taken-early", doctor.Problem, "%s took it from %s, whose lease lasted for another %s and was not released: both may have led", Brief(s.Holder), Brief(before.Holder), inspect.Rounded(left))}
		}
	}
	return nil
}

// checkRenewals looks for renewals that come late, or seldom.
func (j *judgement) checkRenewals() []doctor.Finding {
	gap, lease := j.longest.gap, j.longest.lease
	switch {
	case lease == 0:
	case gap >= lease:
		return []doctor.Finding{say("ran-out", doctor.Problem, "%s renewed after %s once, and its lease lasts %s: another might have led meanwhile", Brief(j.last.Holder), short(gap.Milliseconds()), lease)}
	case 2*j.period >= lease:
		return []doctor.Finding{say("tight", doctor.Warning, "renewals come every %s, and the lease lasts %s: when one fails, the lease runs out", short(j.period.Milliseconds()), lease)}
	case 2*gap > lease && gap > 2*j.period:
		return []doctor.Finding{say("late", doctor.Warning, "one renewal came after %s, and they come every %s: of the lease of %s little was left", short(gap.Milliseconds()), short(j.period.Milliseconds()), lease)}
	}
	return nil
}

// checkMargin looks at what the pod's arguments say. Only what they say counts.
func (j *judgement) checkMargin() []doctor.Finding {
	if j.deadline == 0 || j.report.Elector == Zonelect {
		return nil
	}
	retry := j.retry
	if retry == 0 {
		retry = j.period
	}
	stops := j.deadline + retry
	if stops >= j.last.Lease && retry > 0 {
		return []doctor.Finding{say("margin", doctor.Warning, "its arguments allow two leaders: a leader that is cut off stops up to %s after its last renewal (RenewDeadline %s and RetryPeriod %s), and another leads after %s", short(stops.Milliseconds()), j.deadline, short(retry.Milliseconds()), j.last.Lease)}
	}
	return nil
}

// How many changes of the holder are too many: while it is watched, and for as long as it has been there.
// A rollout makes some.
const (
	mostChanges = 3
	mostPerDay  = 24
)

// checkChanges looks for a leader that changes all the time.
func (j *judgement) checkChanges() []doctor.Finding {
	changes, holder := 0, ""
	for _, s := range j.States {
		if s.Holder == "" {
			continue
		}
		if holder != "" && s.Holder != holder {
			changes++
		}
		holder = s.Holder
	}
	if changes >= mostChanges {
		return []doctor.Finding{say("flaps", doctor.Warning, "its holder changed %d times in %s", changes, j.watched())}
	}
	age := j.Now.Sub(j.Created)
	if days := age.Hours() / 24; !j.Created.IsZero() && days > 0 && j.last.Changes >= mostPerDay && float64(j.last.Changes) > mostPerDay*days {
		return []doctor.Finding{say("flaps", doctor.Warning, "its holder changed %d times in the %s that it has been there", j.last.Changes, inspect.Rounded(age))}
	}
	return nil
}

// checkReplicas looks at who could take over.
func (j *judgement) checkReplicas() []doctor.Finding {
	zones := j.report.Replicas
	switch {
	case j.pod == nil || !j.pod.runs() || len(j.siblings) == 0:
	case len(j.siblings) == 1:
		return []doctor.Finding{say("one-replica", doctor.Warning, "%s is the only pod of %s that runs", j.pod.Name, j.workload)}
	case len(zones) == 1 && zones["?"] == 0 && j.zones > 1:
		return []doctor.Finding{say("one-zone", doctor.Warning, "all %d pods of %s are in zone %s", len(j.siblings), j.workload, only(zones))}
	}
	return nil
}

func only(zones map[string]int) string {
	for zone := range zones {
		return zone
	}
	return ""
}

// longest is the longest lease that is nothing to tell of.
const longestLease = 10 * time.Minute

// checkLease looks at the duration that is on record.
func (j *judgement) checkLease() []doctor.Finding {
	switch {
	case j.report.Kind == IsForLife || j.last.Holder == "":
	case j.last.Lease == 0:
		return []doctor.Finding{say("no-duration", doctor.Warning, "%s holds it, and it does not say for how long: some electors take it at once, others never", Brief(j.last.Holder))}
	case j.last.Lease > longestLease:
		return []doctor.Finding{say("long-lease", doctor.Warning, "its lease lasts %s", inspect.Rounded(j.last.Lease))}
	}
	return nil
}

// checkKind says what follows from the kind of the lock, and from the library that writes it.
func (j *judgement) checkKind() []doctor.Finding {
	var all []doctor.Finding
	switch j.report.Kind {
	case IsForLife:
		all = append(all, say("for-life", doctor.Warning, "pod %s holds it until it is deleted: when its node is lost, nobody leads for a minute to forever, as the version of leader-for-life has it", j.Owner.Name))
	case OnConfigMap, OnEndpoints:
		text := "its record is an annotation of " + article(j.report.Kind) + ", of which only two moments were seen"
		if j.Foreign {
			text += ", and it is not as client-go writes it"
		}
		all = append(all, say("old-record", doctor.Note, "%s", text))
	}
	if j.report.Writer == fabric8 {
		all = append(all, say("wall-clock", doctor.Note, "fabric8's client writes it, which compares renewTime with its own wall clock: pods whose clocks differ by a part of the lease may lead at the same time"))
	}
	return all
}

func article(kind Kind) string {
	if kind == OnEndpoints {
		return "an Endpoints object"
	}
	return "a ConfigMap"
}
