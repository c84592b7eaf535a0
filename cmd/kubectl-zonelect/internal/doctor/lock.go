// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Lock is what was read about one lock.
type Lock struct {
	inspect.Election
	Now time.Time // by the clock of this machine
	// Account is the service account of the candidates' pods, for when no candidate says its own.
	Account string
	// Rights says what it may do, of what Needs returns.
	Rights Fact[[]Right]
	// LegacyPod is the state of the pod that holds the leader-for-life lock; empty if none does.
	LegacyPod Fact[string]
}

// checks are all of them, in the order in which people read them.
var checks = []struct {
	name string
	run  func(Lock) []Finding
}{
	{"lock", checkState},
	{"candidates", checkCandidates},
	{"environment", checkEnvironment},
	{"workload", checkWorkload},
	{"timing", checkTiming},
	{"rights", checkRights},
	{"legacy", checkLegacy},
}

// Check makes all checks of a lock.
func (l Lock) Check() []Finding {
	var all []Finding
	for _, c := range checks {
		for _, f := range c.run(l) {
			f.Lock, f.Check, f.Link = l.Name, c.name, Page("operate.md#"+c.name)
			all = append(all, f)
		}
	}
	return all
}

// nobodyLeads reports whether nobody is known to lead: neither by the Lease nor by a legacy lock
// whose pod, as far as is known, exists.
func (l Lock) nobodyLeads() bool {
	s := l.Status(l.Now)
	return s.Vacancy != nil || s.Leader == nil && l.LegacyPod.Value == inspect.Gone
}

// checkState says whether somebody leads, who, and since when.
func checkState(l Lock) []Finding {
	all := []Finding{l.stateFinding()}
	for _, note := range l.Notes {
		all = append(all, say(Note, "%s", note))
	}
	return all
}

// justNow is how long a lock may be free before that is a problem. The others need a fraction
// of it.
const justNow = 15 * time.Second

func (l Lock) stateFinding() Finding {
	s := l.Status(l.Now)
	_, note := l.State(l.Now)
	r := l.Snapshot().Record
	ago := l.Now.Sub(r.RenewTime)
	watch := l.kubectl("zonelect status %s -w", l.Name) + " shows when somebody takes it"
	const candidates = "no candidate runs, or none may write the Lease: see the checks candidates, rights and legacy, and the candidates' logs"
	switch s.State {
	case inspect.Held:
		return say(OK, "%s %s", *s.Leader, l.since(r, "leads", "has led"))
	case inspect.Waiting:
		why := cmp.Or(s.Holder().Waiting, "another has the legacy lock")
		return say(Problem, "%s %s, and its work has not begun: %s", *s.Leader, l.since(r, "has the lock", "has had the lock"), why).
			do("the work begins when that is over: see check legacy, or %s", l.plan())
	case inspect.Stale:
		if ago < 0 {
			return say(Warning, "%s holds the lock, and it is not known whether it leads: %s", *s.Leader, note).
				do("the clock of this machine or of the holder is wrong; %s", watch)
		}
		f := say(Problem, "%s holds the lock and does not renew it: %s", *s.Leader, note)
		if r.LeaseDuration <= 0 {
			return f.do("see check timing")
		}
		return f.do("others take the lock when they have not seen a renewal for %s: if nobody does, "+
			"see the checks candidates and rights, and the candidates' logs; %s", l.lasts(), watch)
	case inspect.Absent:
		return l.absent()
	case inspect.Cleared:
		return say(Problem, "nobody leads: %s", note).
			do("candidates wait until the lease of %s has run out; %s; do not remove holders by hand, use %s", l.lasts(), watch, l.handover())
	}
	since := ""
	switch {
	case l.legacyLeads():
		return say(Note, "no candidate leads, as phase legacy says: %s does", l.Legacy.Holder)
	case r.RenewTime.IsZero() || ago < 0:
	case ago <= justNow:
		return say(Warning, "nobody leads: the lock became %s %s ago", s.State, duration.HumanDuration(ago)).
			do("this takes milliseconds if a candidate is there; %s", watch)
	default:
		since = " and has been for " + duration.HumanDuration(ago)
	}
	return say(Problem, "nobody leads: the lock is %s%s, and no candidate took it", s.State, since).do(candidates)
}

// absent is the finding of a lock without a Lease.
func (l Lock) absent() Finding {
	if !l.Nothing() {
		return say(Note, "there is no Lease: the lock is %s, which zonelect has not begun to move", l.Legacy.Object).
			do("see %s", Page("migration.md"))
	}
	return say(Problem, "there is no Lease").do("check the name and -n ('kubectl zonelect status -A' lists all locks); " +
		"the first candidate to campaign creates the Lease: see the checks candidates and rights, and the candidates' logs")
}

// since says what the holder has been doing since it took the lock, or what it does if that
// time is not known, and the token of its term.
func (l Lock) since(r locks.Record, does, hasDone string) string {
	if ago := l.Now.Sub(r.AcquireTime); !r.AcquireTime.IsZero() && ago >= 0 {
		does = hasDone + " for " + duration.HumanDuration(ago)
	}
	if d, ours := inspect.DetailsOf(r); ours && d.Token > 0 {
		return does + ", with token " + strconv.FormatUint(d.Token, 10)
	}
	return does
}

// kubectl is a command for people to copy, about what is in the namespace. Only a DNS name is no more than a name to a
// shell, and anybody may have written the names: of another one, people see a word.
func (l Lock) kubectl(format string, names ...string) string {
	var args []any
	for _, name := range append(names, l.Namespace) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			name = "NAME"
		}
		args = append(args, name)
	}
	return fmt.Sprintf("'kubectl "+format+" -n %s'", args...)
}

func (l Lock) plan() string { return l.kubectl("zonelect migrate plan %s", l.Name) }

func (l Lock) handover() string { return l.kubectl("zonelect handover %s", l.Name) }

// grant says how to give the candidates what kustomize bases grant. Anybody may have written the account's name.
func (l Lock) grant(bases ...string) string {
	account := l.ServiceAccount()
	if len(validation.IsDNS1123Subdomain(account)) > 0 {
		account = "SERVICE_ACCOUNT"
	}
	return fmt.Sprintf("kustomize base %s for service account %s: see %s", strings.Join(bases, " and "), account, Page("install.md#rights"))
}

// lasts is how long the others wait for a renewal: if the Lease does not say, that is their own
// timing, which is taken to be the default.
func (l Lock) lasts() time.Duration { return cmp.Or(l.Lasts(), timing.DefaultLeaseDuration) }

// checkTiming says whether the lease ends at all, and how slow the API may be. It measures nothing: this machine
// may be farther from the API server than the candidates.
func checkTiming(l Lock) []Finding {
	r := l.Snapshot().Record
	switch lasts := r.LeaseDuration; {
	case r.Holder == "":
		return nil
	case lasts > record.MaxDuration:
		const long = "the Lease says that it lasts %s: after a crash the other candidates would wait as long"
		return []Finding{say(Problem, long, duration.HumanDuration(lasts)).
			do("somebody set a wrong duration: hand the lock over (%s), or restart the holder", l.handover())}
	case lasts <= 0:
		return []Finding{say(Problem, "the Lease does not say how long it lasts: no candidate takes it from its holder").
			do("a zonelect holder writes it again at once: does another program use this Lease? " +
				"If no holder is alive, set leaseDurationSeconds to 1 and renewTime to the present time by hand")}
	default:
		// A Lease does not say the other two durations: they are taken to be in proportion to the default.
		t := timing.Timing{LeaseDuration: lasts, RenewDeadline: lasts * 2 / 3, RenewInterval: lasts * 2 / 15, Exclusive: true}
		_, most := t.Bounds()
		return []Finding{say(OK, "with a lease of %s a leader keeps its terms while requests take up to %s", lasts, most)}
	}
}

// migrating reports whether candidates still need the legacy lock.
func (l Lock) migrating() bool {
	phase := l.Phase()
	return phase == record.PhaseLegacy || phase == record.PhaseDual || phase == record.PhaseSealed
}

// checkLegacy says whether a legacy lock is in the way, and what candidates wait for.
func checkLegacy(l Lock) []Finding {
	var all []Finding
	if l.Legacy != nil {
		all = l.legacyHolder()
	}
	var waiting []string
	for _, c := range inspect.ByZone(inspect.Present(l.Candidates)) {
		if c.Waiting != "" {
			waiting = append(waiting, c.Identity+": "+c.Waiting)
		}
	}
	if len(waiting) > 0 {
		all = append(all, say(Warning, "candidates wait: %s", strings.Join(waiting, ", ")).do("%s says what has to end first", l.plan()))
	}
	return all
}

// legacyHolder says what is odd about who has the legacy lock.
func (l Lock) legacyHolder() []Finding {
	object, holder, phase, legacy := l.Legacy.Object, l.Legacy.Holder, l.Phase(), l.Legacy.Kind == ownerref.Legacy
	kind, name, _ := strings.Cut(object, "/")
	remove := l.kubectl("delete pod %s", strings.TrimPrefix(holder, "pod/"))
	switch {
	case l.Legacy.Lingering != "" && (l.migrating() || legacy):
		return []Finding{say(Warning, "%s: %s", object, l.Legacy.Lingering).
			do("no candidate begins to lead under it: %s (%s)", inspect.RemoveFinalizers, l.kubectl("edit %s %s", kind, name))}
	case !legacy:
		return nil
	case l.LegacyPod.Unknown != "":
		return []Finding{say(Note, "%s belongs to %s; whether that exists is not known: %s", object, holder, l.LegacyPod.Unknown)}
	case l.LegacyPod.Value == inspect.Gone:
		return []Finding{say(Warning, "%s belongs to %s, which does not exist: nobody leads by it, and it keeps legacy pods out", object, holder).
			do("the garbage collector deletes it within a minute or so; if not, it is blocked: " +
				"is an APIService unavailable ('kubectl get apiservices')?")}
	case l.LegacyPod.Value != inspect.Ready:
		return []Finding{say(Warning, "%s belongs to %s, which is %s", object, holder, cmp.Or(l.LegacyPod.Value, "in an unknown state")).
			do("a leader-for-life lock is free only when its pod is deleted: %s, if its process has ended; "+
				"if its node is off, taint that instead, see %s", remove, Page("operate.md#a-leader-on-an-unreachable-node"))}
	case phase == record.PhaseSealed || phase == record.PhaseClean:
		const both = "%s leads by %s, though the migration is in phase %s: it and a candidate may both lead"
		return []Finding{say(Problem, both, holder, object, phase).
			do("remove that pod (%s) and whatever starts it; if more may start, roll back once the ConfigMap has gone with it: %s",
				remove, l.kubectl("zonelect migrate rollback %s --yes", l.Name))}
	}
	return []Finding{say(Note, "%s leads by %s", holder, object).do("%s says when candidates take over", l.plan())}
}

// legacyLeads reports whether a pod leads by the legacy lock, and the migration says that it should.
func (l Lock) legacyLeads() bool {
	holds := l.Legacy != nil && l.Legacy.Kind == ownerref.Legacy && l.LegacyPod.Value == inspect.Ready
	return l.Lease != nil && l.Phase() == record.PhaseLegacy && holds
}
