// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaderservice points a Service without a selector to the leader's pod, by one
// EndpointSlice that each leader writes when its term begins.
//
// There is one slice with one address, so that a reader sees one leader at most, and the next
// leader removes the last one by the same write, also when the last one's zone is dark. Labels on
// pods would take two writes, one of them to a pod that may be gone.
//
// The slice notes the token of its term. Nobody replaces the slice of a later term, and each
// write replaces the version that was read (compare and swap), so that the late write of a former
// leader does not land on its successor's.
package leaderservice

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
)

// Config says which Service points where.
type Config struct {
	Core      rest.Interface // for the API group of Services; required
	Discovery rest.Interface // for discovery.k8s.io/v1; required
	Namespace string         // of the Service and of the pod; required
	Service   string         // its name; required
	Endpoint  Endpoint
	Labels    map[string]string // set on the slice; its other labels are kept
	// Trust is for how long a renewal of the lock is trusted: the RenewDeadline. Required.
	Trust time.Duration
	// Again is how often a leader looks whether the slice is still its own, and the most that it
	// waits between attempts that fail. Required.
	Again  time.Duration
	Logger logr.Logger
}

// Keeper points a Service to this process. Its methods are safe for concurrent use.
type Keeper struct {
	Config
	service rawapi.Object[corev1.Service, *corev1.Service]
	slice   rawapi.Object[discoveryv1.EndpointSlice, *discoveryv1.EndpointSlice]
}

// New returns a Keeper, or an error that lists everything that is wrong with c. It does no I/O.
func New(c Config) (*Keeper, error) {
	service := apierror.Object{Resource: apierror.Services, Namespace: c.Namespace, Name: c.Service}
	slice := apierror.Object{Resource: apierror.EndpointSlices, Namespace: c.Namespace, Name: sliceName(c.Service)}
	var err error
	c.Endpoint.Namespace = c.Namespace
	c.Endpoint, err = c.Endpoint.checked()
	if err := errors.Join(err, checkService(c.Service), rawapi.Check(c.Core, service), rawapi.CheckClient(c.Discovery, apierror.EndpointSlices)); err != nil {
		return nil, fmt.Errorf("pointing service %q to the leader: %w", c.Service, err)
	}
	return &Keeper{
		Config:  c,
		service: rawapi.New[corev1.Service](c.Core, service),
		slice:   rawapi.New[discoveryv1.EndpointSlice](c.Discovery, slice),
	}, nil
}

// Term is the term that a Service points to.
type Term interface {
	// TrustedFor is for how long the term is still trusted.
	TrustedFor() time.Duration
}

// Keep points the Service to this process until ctx ends, with the term. It mends what others
// change. Then it takes the address out, unless another leader has replaced it, and tries that for
// Trust at most. Nothing that goes wrong delays or ends the term: it is logged, and tried again.
func (k *Keeper) Keep(ctx context.Context, token uint64, term Term) {
	t := &tenure{Keeper: k, token: token, later: laterTerm{keeper: k, term: term}, live: time.Now()}
	t.point(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.Trust)
	defer cancel()
	if err := t.leave(ctx); err != nil {
		k.Logger.Error(err, "the Service may go on pointing to this process until another leads", "service", k.Service)
	}
}

// tenure is a Keeper in one term.
type tenure struct {
	*Keeper
	token uint64
	later laterTerm
	// live is since when the server was heard on the connections that serve. The others may have died
	// with the former leader's zone.
	live  time.Time
	limit time.Duration // of each request
	late  bool          // a request of this try had no answer in time
	// unanswered is a slice whose creation got no answer: it may appear at any time. Nil if none.
	unanswered *discoveryv1.EndpointSlice
}

// soon is the first pause after an attempt that failed, unless another's write came first, and
// the time that a first try has.
const soon = 250 * time.Millisecond

// attempt tries something. Who waits for an answer on a connection that died waits in vain, and
// the next try has a connection of its own. So at first each request has little time, and a try in
// which one runs out of it leaves the next try twice as much, for an API that is slow: up to Trust.
// It stays so until a try needs little of it.
func (t *tenure) attempt(ctx context.Context, try func(context.Context) error) error {
	for t.limit = max(t.limit, soon); ; t.limit = min(2*t.limit, t.Trust) {
		began := time.Now()
		t.late = false
		err := try(live.Since(ctx, t.live))
		if !t.late || ctx.Err() != nil {
			if time.Since(began) < t.limit/4 {
				t.limit /= 2
			}
			return err
		}
		if t.live = time.Now(); t.limit >= t.Trust {
			return err
		}
	}
}

// ask makes one request of an attempt, in the time that it has.
func ask[T any](ctx context.Context, t *tenure, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	answer, err := request(ctx)
	t.late = t.late || err != nil && ctx.Err() != nil
	return answer, err
}

// pauses returns what says how long to wait after an attempt. What failed is tried again soon, and
// then after pauses that double. What is in time is looked at now and then.
func (k *Keeper) pauses() func(error) time.Duration {
	growing := backoff.NewExponentialBackOff(backoff.WithInitialInterval(5*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(k.Again), backoff.WithMaxElapsedTime(0))
	return func(err error) time.Duration {
		if err == nil {
			growing.Reset()
			return k.Again/2 + rand.N(k.Again/4) // what is tried again after it is in time, too
		}
		pause := min(growing.NextBackOff(), k.Again)
		if !conflict(err) {
			pause = max(pause, min(soon, k.Again))
		}
		return pause
	}
}

// point points the Service to this process until ctx ends.
func (t *tenure) point(ctx context.Context) {
	pause, told := t.pauses(), ""
	for ctx.Err() == nil {
		err := t.attempt(ctx, t.once)
		if ctx.Err() != nil {
			return
		}
		next := pause(err)
		if !conflict(err) || next > soon { // conflicts are rare, and over at once
			told = t.tell(err, told)
		}
		_ = sleep.For(ctx, next) // the loop ends with ctx
	}
}

// leave takes the address out. It gives up when ctx ends, or when the API server says no. The end is
// near, so its pauses stay short.
func (t *tenure) leave(ctx context.Context) error {
	for pause := t.pauses(); ; {
		err := t.attempt(ctx, t.clear)
		if err == nil || !conflict(err) && !unserved(err) {
			return err
		}
		if sleep.For(ctx, min(pause(err), t.Trust/10)) != nil {
			return err
		}
	}
}

// tell logs the result of an attempt, unless that is what was told last. It returns what is told
// now; empty for none.
func (k *Keeper) tell(err error, told string) string {
	kind := kindOf(err)
	switch {
	case kind == told:
	case err != nil:
		k.Logger.Error(err, "the Service may not point to this process, which leads", "service", k.Service)
	default:
		k.Logger.Info("the Service points to this process again", "service", k.Service)
	}
	return kind
}

// kindOf returns what is the same in errors that are worth one line in the log; empty for none.
// A request without a proper answer fails in other words each time, such as those of its ports.
func kindOf(err error) string {
	switch {
	case err == nil:
		return ""
	case unserved(err):
		return "the API server does not serve requests"
	}
	return err.Error()
}

// unserved reports whether a request failed without an answer, or with one that does not say
// whether the request is good.
func unserved(err error) bool {
	var request interface{ Timeout() bool }
	var answer interface{ StatusCode() int }
	return errors.As(err, &request) &&
		(!errors.As(err, &answer) || answer.StatusCode() >= http.StatusInternalServerError || answer.StatusCode() == http.StatusTooManyRequests)
}

// conflict reports whether another's write came first.
func conflict(err error) bool { return errors.Is(err, locks.ErrConflict) && !apierrors.IsNotFound(err) }

// errLater says that the slice is that of a later term.
var errLater = errors.New("the EndpointSlice is of a later term, or of another election that points the same Service")

// once points the Service to this process, if it does not already.
func (t *tenure) once(ctx context.Context) error {
	service, err := ask(ctx, t, t.service.Get)
	if err != nil {
		return err
	}
	old, err := t.read(ctx)
	if err != nil {
		return err
	}
	if tokenOf(old) > t.token && !t.later.isInvented(tokenOf(old)) {
		return errLater
	}
	slice, err := t.Endpoint.wanted(service, old, t.Labels, t.token)
	switch {
	case err != nil:
		return err
	case old == nil:
		err = t.create(ctx, slice)
	case old.AddressType != slice.AddressType:
		if err := t.empty(ctx, old); err != nil { // a former leader's
			return err
		}
		err = fmt.Errorf("EndpointSlice %s is for %s, which nobody can change, and this pod has an %s address: delete the slice", old.Name, old.AddressType, slice.AddressType)
	case !same(old, slice):
		err = t.update(ctx, slice)
	}
	return err
}

// create makes the slice where there is none.
func (t *tenure) create(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	_, err := ask(ctx, t, func(ctx context.Context) (*discoveryv1.EndpointSlice, error) { return t.slice.Create(ctx, slice) })
	if t.unanswered = nil; unserved(err) {
		t.unanswered = slice
	}
	return err
}

// clear takes the address of a term, or of one before it, out of the slice. A write that was
// given up does not land later, because the version that it replaces is gone, or because the slice
// that it makes is there.
func (t *tenure) clear(ctx context.Context) error {
	old, err := t.read(ctx)
	if err == nil && old == nil && t.unanswered != nil {
		slice := t.unanswered.DeepCopy()
		slice.Endpoints = nil
		return t.create(ctx, slice)
	}
	if err != nil || old == nil || tokenOf(old) > t.token {
		return err
	}
	return t.empty(ctx, old)
}

// empty replaces a slice by one without an address, in the name of the term.
func (t *tenure) empty(ctx context.Context, old *discoveryv1.EndpointSlice) error {
	if tokenOf(old) == t.token && len(old.Endpoints) == 0 {
		return nil
	}
	slice := old.DeepCopy()
	slice.Endpoints = nil
	noteToken(slice, t.token)
	return t.update(ctx, slice)
}

// update replaces the slice.
func (t *tenure) update(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	_, err := ask(ctx, t, func(ctx context.Context) (*discoveryv1.EndpointSlice, error) { return t.slice.Update(ctx, slice) })
	return err
}

// read returns the slice; nil if there is none.
func (t *tenure) read(ctx context.Context) (*discoveryv1.EndpointSlice, error) {
	slice, err := ask(ctx, t, t.slice.Get)
	if apierrors.IsNotFound(err) && !errors.Is(err, locks.ErrNoAPI) {
		return nil, nil
	}
	return slice, err
}

// laterTerm tells a later term from a token that somebody made up.
type laterTerm struct {
	keeper *Keeper
	term   Term
	token  uint64
	seen   time.Time
}

// isInvented reports whether the token is of no term. If this term was renewed after the token
// was seen, nobody else has led since this term began, so a later term cannot have written it.
func (l *laterTerm) isInvented(token uint64) bool {
	now := time.Now()
	if l.token != token {
		l.token, l.seen = token, now
	}
	return l.term.TrustedFor() > l.keeper.Trust-now.Sub(l.seen)
}
