// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/leaderservice"
	"github.com/zonelect/zonelect/internal/plain"
	"github.com/zonelect/zonelect/internal/proof"
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// Election is an operator's part in its election: an election.Elector with all that it needs.
// Its methods are safe for concurrent use.
type Election struct {
	*election.Elector
	options Options
	config  *rest.Config // nil if there is no API server
	roster  roster       // nil if the lock is none
	close   func()       // closes all connections of the election
	pods    *apiClients  // to the candidates' pods; nil if there is no API server
	witness *proof.Witness
	self    Self
	service *leaderservice.Keeper // nil without a Service that points to the leader
	shared  *Shared               // nil if this election shares nothing
	log     logr.Logger
	exit    func(code int)
}

// Run takes part in the election of that name until ctx ends, and calls lead for each term
// that this process wins: see election.Elector.Run. It returns the result of that call, or
// returns at once with what is wrong with the options or the environment.
func Run(ctx context.Context, name string, lead func(context.Context, election.Term) error, o Options) error {
	e, err := New(ctx, name, o)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// Become blocks until this process leads in the election of that name. leading ends with the
// leadership, and carries the term (election.TermFromContext). done says that the work has
// stopped: it releases the lock, and returns when that is done. It may be called more than
// once.
//
// Without done the lock is not released: after StopTimeout it is no longer renewed, and
// expires. When ctx ends, leading ends too, in good order. If ctx ends before this process leads,
// the error wraps election.ErrStopped: that is the normal end of a follower. There is no second
// term: a process that has lost its leadership normally ends.
//
// Options come from the environment, see Options.FromEnvironment. Become replaces
// operator-lib's leader.Become.
func Become(ctx context.Context, name string) (leading context.Context, done func(), err error) {
	var o Options
	if err := o.FromEnvironment(); err != nil {
		return nil, nil, err
	}
	return o.Become(ctx, name)
}

// Become is the function of the same name, with these options.
func (o Options) Become(ctx context.Context, name string) (leading context.Context, done func(), err error) {
	e, err := newElection(ctx, name, o, func(c *election.Config) { c.StopAtLoss = true }, nil)
	if err != nil {
		return nil, nil, err
	}
	began, finished := make(chan context.Context), make(chan struct{})
	over := make(chan error, 1)
	once, end := context.WithCancel(ctx)
	go func() {
		over <- e.Run(once, func(ctx context.Context, _ election.Term) error {
			began <- ctx
			<-finished
			end() // whatever ended the term
			return nil
		})
	}()
	select {
	case leading = <-began:
		return leading, sync.OnceFunc(func() {
			close(finished)
			if err := <-over; err != nil && !errors.Is(err, election.ErrLost) {
				e.log.Error(err, "the election ended with an error")
			}
		}), nil
	case err := <-over:
		end()
		if err == nil {
			err = fmt.Errorf("%w before this process led: %w", election.ErrStopped, context.Cause(ctx))
		}
		return nil, nil, err
	}
}

// New returns an Election that does nothing until its Run is called. It asks the API server
// only for this node's zone, if it may read that.
func New(ctx context.Context, name string, o Options) (*Election, error) {
	return newElection(ctx, name, o, func(*election.Config) {}, nil)
}

func newElection(ctx context.Context, name string, o Options, change func(*election.Config), in *Shared) (*Election, error) {
	if in == nil {
		name = cmp.Or(o.Name, name)
	}
	if in == nil && o.Heartbeat { // one lock on a heartbeat is kept as many are
		var err error
		if in, err = newShared(ctx, name, o); err != nil {
			return nil, err
		}
		o = in.options
	}
	o, err := o.resolved()
	if err != nil {
		return nil, fmt.Errorf("election %q: %w: %w", name, ErrOptions, err)
	}
	o.Logger, o.goesFirst = logger(ctx, o), o.advertisedStart()
	if in == nil {
		o.tellUnread()
	}
	e := &Election{options: o, log: o.Logger, exit: os.Exit, close: func() {}, shared: in}
	c := election.Config{
		Timing: o.Timing, HeadStart: o.headStart(), Health: o.Health,
		CampaignUnfinished: o.CampaignUnfinished,
		TracerProvider:     o.TracerProvider, MeterProvider: o.MeterProvider, Logger: e.log,
	}
	if o.ExitOnOverrun {
		c.OnOverrun = e.exitOnOverrun
	}
	change(&c)
	if err = o.validate(name); err != nil {
		err = fmt.Errorf("%w: %w", ErrOptions, err)
	} else {
		c.Lock, c.Candidate, err = e.place(ctx, name)
	}
	if lock, closes := c.Lock.(interface{ CloseConnections() }); closes {
		e.close = lock.CloseConnections
	}
	if lock, knows := c.Lock.(roster); knows {
		c.Peers, e.roster = e.peers(lock), lock
	}
	if e.witness != nil {
		c.ProcessID, c.Dead = e.witness.ProcessID, e.witness.Dead
		closeLock := e.close
		e.close = func() { e.pods.transport.CloseConnections(); closeLock() }
	}
	if e.shared != nil {
		c.ProcessID, c.Dead = e.shared.witness.ProcessID, e.shared.deaths.dead
	}
	if err == nil && o.LeaderService != "" {
		if err = e.prepareService(c.Lock.Describe().Namespace); err != nil {
			err = fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	if err == nil {
		e.Elector, err = election.New(c)
	}
	if err != nil {
		return nil, fmt.Errorf("election %q: %w", name, err)
	}
	return e, nil
}

// logger returns the logger of the options, or of ctx, or slog's default. Others write much of
// what it logs, such as the names of holders.
func logger(ctx context.Context, o Options) logr.Logger {
	l := o.Logger
	if l.GetSink() == nil {
		var err error
		if l, err = logr.FromContext(ctx); err != nil {
			l = logr.FromSlogHandler(slog.Default().Handler())
		}
	}
	return plain.Logger(l)
}

// roster is a lock that knows its candidates, and informs others of this one.
type roster interface {
	Peers(ctx context.Context, tell func([]locks.Peer))
	SetUnhealthy(why string)
}

// peers returns the function that reports the lock's peers. It logs preferred zones that have
// had no candidate for a LeaseDuration: their names may be wrong.
func (e *Election) peers(lock roster) func(context.Context, func([]locks.Peer)) {
	if len(e.options.PreferredZones) == 0 {
		return lock.Peers
	}
	return func(ctx context.Context, tell func([]locks.Peer)) {
		var empty []string
		forget := func() bool { return false }
		defer func() { forget() }()
		lock.Peers(ctx, func(all []locks.Peer) {
			tell(all)
			now := slices.DeleteFunc(slices.Clone(e.options.PreferredZones), func(z string) bool {
				return slices.ContainsFunc(all, func(p locks.Peer) bool { return p.Zone == z })
			})
			if slices.Equal(now, empty) {
				return
			}
			forget()
			if empty = now; len(now) > 0 {
				forget = time.AfterFunc(e.options.Timing.WithDefaults().LeaseDuration, func() {
					e.log.Info("no candidate is known in some preferred zones: others lead meanwhile; are the names right?", "zones", now)
				}).Stop
			}
		})
	}
}

// memoryLock is the lock of a process without election.
type memoryLock struct {
	locks.Lock
	candidate locks.Candidate
}

// Peers reports the only candidate there is.
func (l memoryLock) Peers(_ context.Context, tell func([]locks.Peer)) {
	tell([]locks.Peer{{Candidate: l.candidate}})
}

// SetUnhealthy has nobody to tell.
func (memoryLock) SetUnhealthy(string) {}

// place finds out where this process runs, and makes its lock.
func (e *Election) place(ctx context.Context, name string) (locks.Lock, locks.Candidate, error) {
	if e.options.Disabled {
		e.log.Info("leader election is off: this process leads at once, and nothing keeps another from leading too")
		self := e.options.Self
		who := locks.Candidate{Identity: cmp.Or(self.Identity, "unelected"), Zone: self.Zone, Node: self.Node}
		return memoryLock{memory.New(name), who}, who, nil
	}
	if e.shared != nil {
		e.config, e.self = e.shared.election.config, e.shared.election.self
		lock, err := e.shared.lock(name)
		return lock, e.shared.candidate, err
	}
	namespace, err := e.locate(ctx)
	if err != nil {
		return nil, locks.Candidate{}, err
	}
	self := e.self
	lock, err := e.lock(self, namespace, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOptions, err) // making a lock asks nobody
	} else {
		err = e.prepareProof(self, namespace, name)
	}
	return lock, self.Candidate(), err
}

// locate finds out where the API server is, who this process is, and the namespace of the
// lock.
func (e *Election) locate(ctx context.Context) (namespace string, err error) {
	if e.config = e.options.Config; e.config == nil {
		if e.config, _, err = RESTConfig(e.options.Self.Kubeconfig); err != nil {
			return "", err
		}
	}
	e.config = warning(e.config, e.log)
	e.self, err = WhoAmI(ctx, e.config, e.log, e.options.Self)
	namespace = cmp.Or(e.options.Namespace, e.self.Namespace)
	if err == nil && namespace == "" {
		err = errors.New("the namespace of the lock is not known: set POD_NAMESPACE by the downward API, or --leader-elect-resource-namespace")
	}
	return namespace, err
}

// prepareProof makes the witness, which proves that leaders are dead, this one included.
func (e *Election) prepareProof(self Self, namespace, name string) error {
	var err error
	if e.pods, err = newAPIClients(e.config, e.options.Timing, e.options.LockOptions); err != nil {
		return fmt.Errorf("preparing to see the leader's pod: %w", err)
	}
	e.witness = proof.New(proof.Config{
		Lock: namespace + "/" + name, Namespace: cmp.Or(self.Namespace, namespace),
		PodName: self.PodName, PodUID: self.PodUID, Container: self.Container, Unproven: e.options.Unproven, Patience: patienceOf(e.options.Timing),
		Pods: e.pods.core, Logger: e.log,
	})
	return nil
}

// patienceOf is how long a read may take that only adds to an election: as long as one of the
// elector, whose dial and whose answer may take a RenewDeadline each.
func patienceOf(t election.Timing) time.Duration { return 2 * t.WithDefaults().RenewDeadline }

// lock makes the lock of the mode.
func (e *Election) lock(self Self, namespace, name string) (locks.Lock, error) {
	o := e.options
	switch {
	case o.Mode == "" || o.Mode == ModeLease:
		return LeaseOnlyLock(e.config, o.Timing, self, namespace, name, o.LockOptions)
	case o.LegacyKind == LegacyConfigMap, o.LegacyKind == LegacyEndpoints:
		return TwinLock(e.config, o.Timing, self, namespace, name, o.MigrationOptions, o.LockOptions)
	}
	return ShieldLock(e.config, o.Timing, self, namespace, name, o.MigrationOptions, o.LockOptions)
}

// Run is election.Elector.Run, with Kubernetes Events on the Lease, as the options say. It
// leaves no connection of the election open.
func (e *Election) Run(ctx context.Context, lead func(context.Context, election.Term) error) error {
	defer e.close() // after the last request of what is started below
	var pointing sync.WaitGroup
	defer pointing.Wait() // after the heartbeat's Lease is released, which waits for no Service
	if e.shared != nil {
		leave, err := e.shared.enter(ctx, e)
		if err != nil {
			return err
		}
		defer leave()
	}
	telling, end := context.WithCancel(context.WithoutCancel(ctx))
	var tellers sync.WaitGroup
	defer tellers.Wait()
	defer end()
	if e.options.Health.Check != nil && e.roster != nil {
		transitions := e.Subscribe(telling)
		tellers.Go(func() { tellHealth(transitions, e.roster) })
	}
	if e.options.OnNewLeader != nil {
		go tellNewLeaders(e.Subscribe(telling), e.options.OnNewLeader) // not waited for: it runs program code
	}
	if e.shared == nil {
		transitions := e.Subscribe(telling)
		tellers.Go(func() { remind(e.log, transitions) })
	}
	if !e.options.NoEvents && e.config != nil && e.shared == nil {
		if err := e.postEvents(e.Subscribe(telling), &tellers); err != nil {
			return err
		}
	}
	if e.witness != nil {
		tellers.Go(func() { e.witness.FindContainer(telling) })
	}
	return e.Elector.Run(ctx, e.pointing(lead, &pointing))
}

// tellNewLeaders calls tell whenever the leader changes.
func tellNewLeaders(transitions <-chan election.Transition, tell func(identity string)) {
	last := ""
	for t := range transitions {
		if holder := t.Status.Holder; holder != "" && holder != last {
			last = holder
			tell(holder)
		}
	}
}

// tellHealth tells the other candidates whether this one is healthy.
func tellHealth(transitions <-chan election.Transition, others roster) {
	for t := range transitions {
		switch {
		case t.Change != status.ChangeHealth:
		case t.Status.Unhealthy == nil:
			others.SetUnhealthy("")
		default:
			others.SetUnhealthy(t.Status.Unhealthy.Error())
		}
	}
}

// leastToLog is how long an ending process waits for its last log line.
const leastToLog = 10 * time.Millisecond

// exitOnOverrun ends the process. It waits for the log only while no other candidate may
// lead, or for a moment: a log that blocks may be why the work is late.
func (e *Election) exitOnOverrun(term election.Term, cause error) {
	what := "the work has not stopped in time"
	if errors.Is(cause, election.ErrUnfinished) {
		what = "the work says that part of it may go on"
	}
	logged := make(chan struct{})
	go func() { // the process ends before the log line if the log hangs
		defer close(logged)
		e.log.Error(cause, what+": this process ends now, so that the next leader is alone")
	}()
	patience := time.NewTimer(max(leastToLog, min(term.TrustedFor(), time.Second)))
	defer patience.Stop()
	select {
	case <-logged:
	case <-patience.C:
	}
	e.exit(1)
}

// postEvents posts Kubernetes Events on the Leases of elections, with a client of its own, until
// transitions is closed. What client-go logs goes to the election's logger.
func (e *Election) postEvents(transitions <-chan election.Transition, tellers *sync.WaitGroup) error {
	cfg := named(e.config)
	cfg.Wrap(transport.Bounded)
	client, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("preparing to post Events: %w", err)
	}
	end, cancel := context.WithCancel(context.Background())
	log := e.log.WithSink(&eventLog{LogSink: e.log.GetSink(), end: end})
	ctx := logr.NewContext(end, log)
	// The context of the broadcaster never ends: its end would be that of the broadcaster, before
	// that of the transitions.
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartRecordingToSink(eventSink{ctx, client.Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "zonelect"}).WithLogger(log)
	tellers.Go(func() {
		defer cancel()
		RecordEvents(recorder, transitions)
		broadcaster.Shutdown()
	})
	return nil
}

// Alive is a check for a liveness probe, in the form that controller-runtime takes. It fails
// only in states that nothing but the end of the process is certain to fix: work continues in
// a term that is no longer trusted and should have stopped, or the elector does not move, see
// election.Elector.Alive. It never fails because the API is unavailable, or because this
// candidate is unhealthy or does not lead. A nil Election, such as that of a manager without
// election, is alive.
func (e *Election) Alive(*http.Request) error {
	if e == nil {
		return nil
	}
	if s := e.Status(); s.Overrun && s.Term.TrustedFor() <= 0 {
		return fmt.Errorf("%w: the work of token %d on %v goes on", election.ErrUntrusted, s.Term.Token, s.Lock)
	}
	if e.shared != nil && e.shared.heartbeat != nil {
		if err := e.shared.heartbeat.Alive(); err != nil {
			return fmt.Errorf("the heartbeat: %w", err)
		}
	}
	return e.Elector.Alive()
}

// LivenessHandler answers a liveness probe with the result of Alive: 200 and "ok", or 503 and
// the reason, in text.
func (e *Election) LivenessHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := e.Alive(req); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // a client that has gone needs no answer
	})
}
