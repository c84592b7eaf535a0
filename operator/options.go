// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/locks/annotation"
)

// Options configures an operator's election. The zero value is ready to use in a
// pod: a Lease in the pod's namespace, with the timing of package election.
type Options struct {
	// Name of the lock. Empty means the name that Run, Become or New is given.
	Name string
	// Namespace of the lock. Empty means the pod's, or outside a cluster that of the
	// kubeconfig's current context.
	Namespace string
	// Timing of the election, such as timing.Patient(). Zero fields have their defaults. All
	// candidates should have the same.
	Timing election.Timing
	// PreferredZones are the zones that should have the leader, most wanted first, if a
	// healthy candidate is there: see zone.Order. They should be the same for all candidates.
	PreferredZones []string
	// Health is how this candidate knows whether it should lead.
	Health election.Health
	// Logger gets the messages that people should see. The zero value means the logger in the
	// context, or else that of slog.Default, which writes to stderr unless the program says
	// otherwise. To drop the log, use logr.FromSlogHandler(slog.DiscardHandler).
	Logger logr.Logger
	// TracerProvider and MeterProvider receive traces and metrics. Nil means none.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// ExitOnOverrun ends the process with status 1 when the work has not stopped in time, as
	// OnOverrun of election.Config says. Nothing that hangs in this process prevents that: no
	// log, health check or subscriber.
	ExitOnOverrun bool
	// NoEvents posts no Kubernetes Events on the Lease.
	NoEvents bool
	// Disabled leads at once, with a lock in the memory of this process: for one replica, and
	// for development. It needs no API server.
	Disabled bool

	// Config says how to reach the API server. Nil means the first of these that exists: the
	// files in KUBECONFIG, the service account of the pod, and ~/.kube/config.
	Config *rest.Config
	// Self says what need not be found out about this process.
	Self SelfOptions
	// Labels are set on the Lease and on whatever else the election creates: the candidate's
	// presence object, and the legacy object in ModeDual. Others on them are kept. None may begin with zonelect.dev/. Events have no labels.
	Labels map[string]string
	// WaitOnAbsent makes a candidate that finds no record wait a LeaseDuration before it takes the lock, and
	// another before its work begins: somebody may have deleted the record of a holder that still
	// leads. See [election.Config]. It has no meaning if Disabled.
	WaitOnAbsent bool
	// WorkOutlivesProcess says that the work may go on when this process has ended, such as work in another
	// process. The record then holds nothing by which other candidates, or the next process of
	// this pod, could prove that this one is dead, so they wait until the lease has run out.
	WorkOutlivesProcess bool

	// Legacy is the lock that this operator leaves behind. The zero value means none.
	Legacy Legacy

	given given
}

// Legacy is a lock that an operator leaves behind: see docs/migration.md.
type Legacy struct {
	// Mode is which locks are held. Empty means ModeDual with a ResourceLock of two objects, and
	// ModeLease otherwise. For leader-for-life, the other modes need to run in a pod that knows
	// its UID, see [SelfOptions].
	Mode Mode
	// ResourceLock names the kind of the legacy lock in client-go's words, as in the flag
	// --leader-elect-resource-lock of Kubernetes' components: configmapsleases or endpointsleases
	// is client-go's annotation on such an object. Empty or leases is the ConfigMap of
	// operator-sdk's leader.Become. Those without a Lease, configmaps and endpoints, are refused.
	ResourceLock string
	// Name of the legacy lock. Empty means that of the Lease.
	Name string
	// PodSelector and Grace are for leader-for-life alone, see shield.Config of
	// locks/multilock/shield.
	PodSelector string
	Grace       time.Duration
}

// given is what flags and variables say besides the options.
type given struct {
	elects   bool  // whether there is an election
	mistaken error // what was wrong with the environment when flags were added
}

// ErrOptions is wrapped by errors about Options, and about the variables that stand for them.
var ErrOptions = errors.New("the options cannot be used")

// flags adds a flag to fs for each field that has one. Fields whose zero value means a
// default stay zero unless the flag is given, so that other sources of them count.
func (o *Options) flags(fs *pflag.FlagSet) {
	elect := fs.VarPF(o.elect(), electFlag, "",
		"Elect one leader among the replicas. If false, this replica leads at once, without an election.")
	elect.NoOptDefVal = "true"
	fs.StringVar(&o.Name, "leader-elect-resource-name", o.Name, "Name of the Lease. Empty: the name that the program gives.")
	fs.StringVar(&o.Namespace, "leader-elect-resource-namespace", o.Namespace, "Namespace of the Lease. Empty: the pod's namespace.")
	t := o.Timing.WithDefaults()
	durations := []*defaulted{
		{value: &o.Timing.LeaseDuration, unlessGiven: t.LeaseDuration}, {value: &o.Timing.RenewDeadline, unlessGiven: t.RenewDeadline},
		{value: &o.Timing.RenewInterval, unlessGiven: t.RenewInterval},
	}
	fs.Var(o.named(durations), "leader-elect-timing", "Sets the next three flags by name: default, "+
		"patient (60s, 54s, 6s: a leader outlives an API outage of 45s) or fast (3s, 2.5s, 0.5s, for a Lease that no client-go "+
		"candidate shares). Any of the three that is given wins.")
	fs.Var(durations[0].flag(), "leader-elect-lease-duration",
		"How long other replicas wait for a silent leader before they take the Lease. Whole seconds.")
	fs.Var(durations[1].flag(), "leader-elect-renew-deadline", "How long the leader keeps working without an acknowledged renewal. "+
		"Shorter than the lease duration by at least the time that the work needs to stop.")
	fs.Var(durations[2].flag(), "leader-elect-retry-period", "How often the leader renews the Lease.")
	fs.StringSliceVar(&o.PreferredZones, "leader-elect-preferred-zones", o.PreferredZones,
		"Preferred zones for the leader, most preferred first, separated by commas.")
	l := &o.Legacy
	fs.StringVar(&l.ResourceLock, "leader-elect-resource-lock", l.ResourceLock,
		"client-go's name for the lock: leases, configmapsleases or endpointsleases. "+
			"The last two add client-go's annotation lock, in mode dual unless another is set.")
	fs.StringVar((*string)(&l.Mode), "leader-elect-mode", string(l.Mode),
		"lease (the default), auto (moves off a legacy lock) or dual (like auto, but keeps the legacy lock). "+
			"The legacy lock is operator-sdk's leader-for-life, unless the resource lock names another.")
	fs.StringVar(&l.Name, "leader-elect-legacy-name", l.Name, "Name of the legacy lock. Empty: the name of the Lease.")
	fs.StringVar(&l.PodSelector, "leader-elect-pod-selector", l.PodSelector,
		"Label selector of all pods of this operator, old and new. Empty: the selector of the pod's own Deployment.")
	l.Grace = cmp.Or(l.Grace, legacypods.GraceDefault)
	fs.Var(l.grace(), "leader-elect-legacy-grace", "How long a node must be silent before a legacy pod on it counts as gone. 0: never.")
}

// FromEnvironment sets every field that has a flag from the environment, where the variable
// of the flag's name is set: LEADER_ELECT_LEASE_DURATION for --leader-elect-lease-duration.
// It is for programs that have no flags: AddFlags, AddGoFlags and Become call it themselves.
func (o *Options) FromEnvironment() error {
	fs := pflag.NewFlagSet("environment", pflag.ContinueOnError)
	o.flags(fs)
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, set := os.LookupEnv(name); set {
			o.given.elects = o.given.elects || f.Name == electFlag
			if err := fs.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
			}
		}
	})
	return errors.Join(errs...)
}

// validate returns all that is wrong with o, except its timing.
func (o Options) validate(name string) error {
	var errs []error
	if name == "" {
		errs = append(errs, errors.New("the lock has no name: give it one, or set --leader-elect-resource-name"))
	}
	return errors.Join(append(errs, o.given.mistaken, o.Legacy.check(), checkZones(o.PreferredZones))...)
}

// environment returns what the options say of the environment.
func (o Options) environment() environment.Environment {
	return environment.Environment{
		Config: o.Config, Namespace: o.Namespace, Timing: o.Timing.WithDefaults(),
		Labels: o.Labels, Logger: o.Logger,
	}
}

// SelfOptions say what need not be found out about this process. In a pod, nothing need be said:
// the token of its service account names the pod, its UID and namespace, and since Kubernetes 1.30
// its node; the label of the node is the zone.
// Where these say nothing the environment counts: POD_NAME, POD_UID, POD_NAMESPACE and NODE_NAME; and
// NODE_ZONE comes before the label of the node. docs/install.md has the whole order. Every field that is set overrides all that.
// Outside of a pod the identity is made of the host's name and the kubeconfig's user.
type SelfOptions struct {
	Identity  string // must be unique per process start; zero makes one up
	PodName   string
	PodUID    string
	Namespace string
	Node      string
	Zone      string
}

// Mode says which locks are held.
type Mode string

// The modes.
const (
	// ModeLease holds only a Lease: for operators that never had another lock, or have
	// finished leaving it.
	ModeLease Mode = "lease"
	// ModeAuto holds a Lease and the legacy lock, and follows the phase of the
	// migration that the Lease carries: see docs/migration.md.
	ModeAuto Mode = "auto"
	// ModeDual is ModeAuto, except that it goes no further than phase dual.
	ModeDual Mode = "dual"
)

// annotated are client-go's words for a Lease and an annotation on an object.
var annotated = map[string]annotation.Kind{"configmapsleases": annotation.ConfigMaps, "endpointsleases": annotation.Endpoints}

// mode returns which locks are held.
func (l Legacy) mode() Mode {
	if _, two := annotated[l.ResourceLock]; two {
		return cmp.Or(l.Mode, ModeDual)
	}
	return cmp.Or(l.Mode, ModeLease)
}

// check returns what is wrong with the mode and the resource lock.
func (l Legacy) check() error {
	var errs []error
	if !slices.Contains([]Mode{"", ModeLease, ModeAuto, ModeDual}, l.Mode) {
		errs = append(errs, fmt.Errorf("mode %q is unknown: use %s, %s or %s", l.Mode, ModeLease, ModeAuto, ModeDual))
	}
	switch _, two := annotated[l.ResourceLock]; {
	case two && l.Mode == ModeLease:
		errs = append(errs, fmt.Errorf("mode %s holds a Lease alone, and resource lock %s is two objects: leave one of them out",
			l.Mode, l.ResourceLock))
	case two || l.ResourceLock == "" || l.ResourceLock == "leases":
	case l.ResourceLock == "configmaps" || l.ResourceLock == "endpoints":
		errs = append(errs, fmt.Errorf("resource lock %[1]s has no Lease: use %[1]sleases, which also keeps candidates with %[1]s away; "+
			"with --leader-elect-mode=auto it can leave the old lock behind", l.ResourceLock))
	default:
		errs = append(errs, fmt.Errorf("resource lock %q is unknown: use leases, configmapsleases or endpointsleases", l.ResourceLock))
	}
	return errors.Join(errs...)
}

// checkZones returns what is wrong with preferred zones.
func checkZones(preferred []string) error {
	var errs []error
	for _, z := range preferred {
		if wrong := validation.IsValidLabelValue(z); z == "" || len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("preferred zone %q is not a zone: %s", z, strings.Join(wrong, "; ")))
		}
	}
	return errors.Join(errs...)
}
