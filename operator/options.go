// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks/annotation"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/zone"
)

// Options say how an operator takes part in its election. The zero value is ready to use in a
// pod: a Lease in the pod's namespace, with the timing of package election.
//
// The options of its parts are embedded, so that their fields are used as fields of Options:
// o.Mode = operator.ModeAuto.
type Options struct {
	// Disabled leads at once, with a lock in the memory of this process: for one replica, and
	// for development. It needs no API server.
	Disabled bool
	// Name of the lock. Empty means the name that Run, Become or New is given.
	Name string
	// Namespace of the lock. Empty means the pod's, or outside a cluster that of the
	// kubeconfig's current context.
	Namespace string

	// These are the fields of the same name of [election.Config], which documents them. Its
	// other fields are not options, so it is not embedded: package operator itself sets the
	// lock, the candidate and what it finds out about processes. ExitOnOverrun replaces
	// OnOverrun, and Become replaces StopAtLoss. WaitOnAbsent stays off.
	Timing             election.Timing // the same for all candidates
	CampaignUnfinished bool
	HeadStart          func(election.Takeover) time.Duration // nil means the zone.Order of PreferredZones, which have no meaning with another
	Health             election.Health
	TracerProvider     trace.TracerProvider
	MeterProvider      metric.MeterProvider

	// Heartbeat keeps the lock by a heartbeat of this process: one write renews all locks of
	// a [Shared], and each lock is written only when its leadership changes. It requires
	// Timing.Exclusive: a client-go candidate up to 0.26 would take the lock from a live leader,
	// and a later one would not take it from a dead one. See package heartbeat.
	Heartbeat bool

	// PreferredZones are the zones that should have the leader, most wanted first, if a
	// healthy candidate is there: see zone.Order. They should be the same for all candidates.
	// Zones where no candidate is known for a LeaseDuration are logged.
	PreferredZones []string

	// ResourceLock is the lock in client-go's old words, as in the flag
	// --leader-elect-resource-lock of Kubernetes' components: leases is ModeLease;
	// configmapsleases and endpointsleases are ModeDual with that LegacyKind. Those without a
	// Lease, configmaps and endpoints, are refused. Empty means that Mode and LegacyKind
	// decide.
	ResourceLock string
	MigrationOptions
	LockOptions

	// LeaderService is the name of a Service without a selector, in the pod's namespace, that
	// points to the leader's pod alone: see docs/leader-service.md. Empty means none.
	LeaderService string

	// Config says how to reach the API server. Nil means the config that RESTConfig finds.
	Config *rest.Config
	// Self says what WhoAmI need not find out about this process.
	Self SelfOptions

	// NoEvents posts no Kubernetes Events on the Lease.
	NoEvents bool
	// ExitOnOverrun ends the process with status 1 when the work has not stopped in time, as
	// OnOverrun of election.Config says. Nothing that hangs in this process prevents that: no
	// log, health check or subscriber.
	ExitOnOverrun bool
	// Unproven says that the work may go on when this process has ended, such as work in another
	// process. The record then holds nothing by which other candidates, or the next process of
	// this pod, could prove that this one is dead, so they wait until the lease has run out.
	Unproven bool
	// OnNewLeader is called with the identity of each new leader, including this process:
	// when the first is known, and whenever another follows. Calls come in order and one at a
	// time, in a goroutine of their own: a slow one delays only the next, and Run does not
	// wait for it. Nil means none.
	OnNewLeader func(identity string)

	// byFlag: a flag or a variable says whether there is an election.
	byFlag bool
	// unread are variables that FromEnvironment left alone, though they have the prefix.
	unread []string
}

// ErrOptions is wrapped by errors about Options, and about the variables that stand for them.
var ErrOptions = errors.New("the options cannot be used")

// flags adds a flag to fs for each field that has one. Fields whose zero value means a
// default stay zero unless the flag is given, so that other sources of them count.
func (o *Options) flags(fs *pflag.FlagSet) {
	elect := fs.VarPF(&negated{&o.Disabled}, electFlag, "", "Elect one leader among the replicas. Without it this one leads at once.")
	elect.NoOptDefVal = "true"
	fs.StringVar(&o.Name, "leader-elect-resource-name", o.Name, "Name of the Lease. Empty means the program's own choice.")
	fs.StringVar(&o.Namespace, "leader-elect-resource-namespace", o.Namespace, "Namespace of the Lease. Empty means the pod's.")
	t := o.Timing.WithDefaults()
	fs.Var(&defaulted{&o.Timing.LeaseDuration, t.LeaseDuration}, "leader-elect-lease-duration", "How long the others leave a silent leader the Lease. Whole seconds.")
	fs.Var(&defaulted{&o.Timing.RenewDeadline, t.RenewDeadline}, "leader-elect-renew-deadline", "How long the leader goes on without an acknowledged renewal. Below the lease duration by what the work needs to stop.")
	fs.Var(&defaulted{&o.Timing.RenewInterval, t.RenewInterval}, "leader-elect-retry-period", "How often the leader renews.")
	fs.Var(&defaulted{&o.Timing.AttemptTimeout, t.AttemptTimeout}, "leader-elect-attempt-timeout", "How long a request goes without an answer until a read overtakes it. Default is the retry period.")
	fs.BoolVar(&o.Timing.Exclusive, "leader-elect-exclusive", o.Timing.Exclusive, "No client-go candidate shares the Lease, so that the retry period may be below a second at no cost.")
	fs.Var(&defaulted{&o.Timing.StopTimeout, t.StopTimeout}, "leader-elect-stop-timeout", "How long the Lease is renewed for work that was asked to stop.")
	fs.StringSliceVar(&o.PreferredZones, "leader-elect-preferred-zones", o.PreferredZones, "Zones that the leader is wanted in, most wanted first.")
	fs.VarPF(&heartbeatFlag{o}, "leader-elect-heartbeat", "", "Keep all locks of this process by one heartbeat. Only for locks that no client-go candidate shares.").NoOptDefVal = "true"
	fs.BoolVar(&o.ExitOnOverrun, "leader-elect-exit-on-overrun", o.ExitOnOverrun, "End the process when the work has not stopped in time.")
	fs.StringSliceVar(&o.Servers, "leader-elect-server", o.Servers, "URLs of the API server, nearest first. Empty means the usual way.")
	fs.StringVar(&o.LeaderService, "leader-elect-service", o.LeaderService, "Name of a Service without a selector that points to the leader's pod. Empty means none.")
	fs.StringVar(&o.ResourceLock, "leader-elect-resource-lock", o.ResourceLock, "The lock in client-go's words: leases is mode lease; configmapsleases and endpointsleases are mode dual with that legacy kind. Empty means the mode.")
	fs.StringVar((*string)(&o.Mode), "leader-elect-mode", string(o.Mode), "lease (the default), auto (moves off a legacy lock, see the migration's runbook) or dual (auto that goes no further than phase dual).")
	fs.StringVar((*string)(&o.LegacyKind), "leader-elect-legacy-kind", string(o.LegacyKind), "Kind of the legacy lock: ownerref (the default, operator-sdk's leader-for-life), configmap or endpoints (client-go's annotation).")
	fs.StringVar(&o.LegacyName, "leader-elect-legacy-name", o.LegacyName, "Name of the legacy lock. Empty means that of the Lease.")
	fs.StringVar(&o.PodSelector, "leader-elect-pod-selector", o.PodSelector, "Label selector of all pods of this operator, old and new. Empty means that of the own workload.")
	o.LegacyGrace = cmp.Or(o.LegacyGrace, ownerref.GraceDefault)
	fs.Var((*grace)(&o.LegacyGrace), "leader-elect-legacy-grace", "Silence of a node after which a legacy pod on it counts as gone. 0 is never.")
}

// FromEnvironment sets every field that has a flag from the environment, where the variable
// of the flag's name is set: LEADER_ELECT_LEASE_DURATION for --leader-elect-lease-duration.
// It is for operators whose flags are written by others, such as OLM. Call it before
// AddFlags: then flags win.
//
// A variable whose name differs from one of these by two letters at most is an error. Others with
// the prefix LEADER_ELECT_ are logged when the election is made, but not those that Kubernetes sets
// for Services.
func (o *Options) FromEnvironment() error {
	fs := pflag.NewFlagSet("environment", pflag.ContinueOnError)
	o.flags(fs)
	var errs []error
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		names = append(names, name)
		if value, set := os.LookupEnv(name); set {
			o.byFlag = o.byFlag || f.Name == electFlag
			if err := fs.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
			}
		}
	})
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(names, name) || ofService.MatchString(name) {
			continue
		}
		if i := slices.IndexFunc(names, func(known string) bool { return similar(name, known, 2) }); i >= 0 {
			errs = append(errs, fmt.Errorf("environment variable %s: nothing reads it: did you mean %s? Correct it, or remove it", name, names[i]))
			continue
		}
		o.unread = append(o.unread, name)
	}
	return errors.Join(errs...)
}

// envPrefix is the prefix of all variables of flags but that of --leader-elect.
const envPrefix = "LEADER_ELECT_"

// ofService matches the variables that Kubernetes sets in each container for each Service.
var ofService = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// similar reports whether so many letters at most must be added, left out or replaced to make b of a.
func similar(a, b string, most int) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	switch {
	case a == "" || b == "":
		return len(a)+len(b) <= most
	case most == 0:
		return false
	}
	return similar(a[1:], b, most-1) || similar(a, b[1:], most-1) || similar(a[1:], b[1:], most-1)
}

// tellUnread logs the variables that nothing reads.
func (o Options) tellUnread() {
	if len(o.unread) > 0 {
		o.Logger.Info("these variables are no options of the election: nothing reads them here; are they misspelled?", "variables", o.unread)
	}
}

// validate returns all that is wrong with o, except its timing.
func (o Options) validate(name string) error {
	var errs []error
	if name == "" {
		errs = append(errs, errors.New("the lock has no name: give it one, or set --leader-elect-resource-name"))
	}
	if o.Heartbeat {
		errs = append(errs, o.checkShared())
	}
	if o.LeaderService != "" && o.Disabled {
		errs = append(errs, fmt.Errorf("leader election is disabled, so nothing would point service %q to this process: unset one of the two", o.LeaderService))
	}
	return errors.Join(append(errs, o.check(), checkZones(o.PreferredZones))...)
}

// headStart returns the configured head start, or that of the zones' order. A lone candidate
// has nobody to wait for.
func (o Options) headStart() func(election.Takeover) time.Duration {
	if o.HeadStart != nil || o.Disabled {
		return o.HeadStart
	}
	return zone.Order{Preferred: o.PreferredZones, Timing: o.Timing}.Cached()
}

// advertisedStart says how the candidate finds its head start, for those who look from outside.
func (o Options) advertisedStart() string {
	if o.HeadStart != nil {
		return presence.OwnHeadStart
	}
	return presence.ByZones(o.PreferredZones)
}

// Mode says which locks are held.
type Mode = multilock.Mode

// The modes.
const (
	// ModeLease holds only a Lease: for operators that never had another lock, or have
	// finished leaving it.
	ModeLease = multilock.Alone
	// ModeAuto holds a Lease and the legacy lock, and follows the phase of the
	// migration that the Lease carries: see docs/migration.md.
	ModeAuto = multilock.Auto
	// ModeDual is ModeAuto, except that it goes no further than phase dual.
	ModeDual = multilock.Dual
)

// LegacyKind says what the lock was before it was a Lease.
type LegacyKind string

// The kinds of legacy locks.
const (
	// LegacyLeaderForLife is the ConfigMap of operator-sdk's leader.Become.
	LegacyLeaderForLife LegacyKind = "ownerref"
	// LegacyConfigMap and LegacyEndpoints are client-go's old locks, an
	// annotation on such an object.
	LegacyConfigMap LegacyKind = "configmap"
	LegacyEndpoints LegacyKind = "endpoints"
)

// annotated are the objects whose annotation a legacy lock is.
var annotated = map[LegacyKind]annotation.Kind{LegacyConfigMap: annotation.ConfigMaps, LegacyEndpoints: annotation.Endpoints}

// MigrationOptions say how an operator leaves a legacy lock behind. The zero value is
// ready to use.
type MigrationOptions struct {
	// Mode is which locks are held. Empty means ModeLease in [Options], and ModeAuto
	// for [ShieldLock] and [TwinLock], which have no other modes than ModeAuto and
	// ModeDual. With LegacyLeaderForLife they need to run in a pod that knows its UID, see
	// [WhoAmI].
	Mode Mode
	// LegacyKind, for the modes that hold a legacy lock, is its kind. Empty means
	// LegacyLeaderForLife.
	LegacyKind LegacyKind
	// LegacyName is the legacy lock's name. Empty means that of the Lease.
	LegacyName string
	// What follows is for LegacyLeaderForLife alone.
	ownerref.LegacyPodOptions
	// Settle is how long a candidate waits for a garbage collector before Kubernetes
	// 1.34. Zero asks the API server for its version. Negative means no wait.
	Settle time.Duration
}

// check returns what is wrong with the mode and the kind.
func (o MigrationOptions) check() error {
	var errs []error
	if !slices.Contains([]Mode{"", ModeLease, ModeAuto, ModeDual}, o.Mode) {
		errs = append(errs, fmt.Errorf("mode %q is unknown: use %s, %s or %s", o.Mode, ModeLease, ModeAuto, ModeDual))
	}
	if !slices.Contains([]LegacyKind{"", LegacyLeaderForLife, LegacyConfigMap, LegacyEndpoints}, o.LegacyKind) {
		errs = append(errs, fmt.Errorf("legacy kind %q is unknown: use %s, %s or %s", o.LegacyKind, LegacyLeaderForLife, LegacyConfigMap, LegacyEndpoints))
	}
	return errors.Join(errs...)
}

// checkZones returns what is wrong with preferred zones.
func checkZones(preferred []string) error {
	var errs []error
	for i, z := range preferred {
		wrong := validation.IsValidLabelValue(z)
		switch {
		case z == "":
			errs = append(errs, fmt.Errorf("preferred zone %d of %d has no name: leave it out", i+1, len(preferred)))
		case len(wrong) > 0:
			errs = append(errs, fmt.Errorf("preferred zone %q is no zone: %s", z, strings.Join(wrong, "; ")))
		case slices.Contains(preferred[:i], z):
			errs = append(errs, fmt.Errorf("preferred zone %q is named twice: name it once, in its place", z))
		}
	}
	return errors.Join(errs...)
}
