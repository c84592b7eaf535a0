// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// term is the manager of one term. What is added to it ends with the term, and so does what that has
// hung on the informers of the lasting manager.
type term struct {
	manager.Manager
	lasting *Lasting
	again   bool // what it adds was added before

	ctx     context.Context // of the term, once it has begun
	fail    context.CancelCauseFunc
	running sync.WaitGroup // runnables, and calls of handlers

	mu        sync.Mutex
	refused   []error
	runnables []manager.Runnable
	used      map[index]cache.Informer // those that somebody asked for, by no field
	handlers  map[registration]cache.Informer
	runs      bool
	over      bool
}

func (m *Lasting) newTerm(again bool) *term {
	return &term{
		Manager: m.Manager, lasting: m, again: again, used: map[index]cache.Informer{},
		handlers: map[registration]cache.Informer{},
	}
}

// setUp calls functions that add controllers.
func (t *term) setUp(setups ...func(manager.Manager) error) error {
	for _, setup := range setups {
		if err := setup(t); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.refused...)
}

// begin begins the term, after a rehearsal perhaps, and returns the function that ends it.
func (t *term) begin(ctx context.Context) (end func()) {
	t.ctx, t.fail = context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = false
	return func() {
		t.fail(nil)
		t.close()
	}
}

// close returns when all that was added has returned, and no handler is called any more.
func (t *term) close() {
	t.mu.Lock()
	t.over = true
	handlers := t.handlers
	t.handlers = map[registration]cache.Informer{}
	t.mu.Unlock()
	for r, i := range handlers {
		_ = i.RemoveEventHandler(r) // an informer that has stopped has none
	}
	t.running.Wait()
}

// sync waits for the informers that setup has asked for, as a manager does before its controllers start.
func (t *term) sync() error {
	within := cmp.Or(t.GetControllerOptions().CacheSyncTimeout, 2*time.Minute) // controller-runtime's default
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	if t.GetCache().WaitForCacheSync(ctx) {
		return nil
	}
	return fmt.Errorf("the cache has no %s after %v: is that kind still there, and may this operator list and watch it?",
		strings.Join(t.missing(), ", "), within)
}

// missing are the kinds that the term uses, and whose informers have not synced.
func (t *term) missing() (kinds []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, i := range t.used {
		if !i.HasSynced() {
			kinds = append(kinds, of.kind.String())
		}
	}
	return kinds
}

// run runs all that was added until the term ends, or until something fails.
func (t *term) run() error {
	t.mu.Lock()
	t.runs = true
	for _, r := range t.runnables {
		t.start(r)
	}
	t.mu.Unlock()
	<-t.ctx.Done()
	return context.Cause(t.ctx)
}

// start starts a runnable. t.mu is held, so that the term is not over.
func (t *term) start(r manager.Runnable) {
	t.running.Go(func() {
		if t.ctx.Err() != nil { // it ended while it was set up
			return
		}
		if err := r.Start(t.ctx); err != nil {
			t.fail(err)
		}
	})
}

// errOver is what is said to who adds something to a term that is over.
var errOver = errors.New("the term is over")

// Add adds what runs until the term ends.
func (t *term) Add(r manager.Runnable) error {
	if !needsLeader(r) {
		return t.refuse(fmt.Errorf("%T needs no leader, so that it belongs to no term: add it to the lasting manager, outside Lead", r))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return errOver
	}
	if t.runnables = append(t.runnables, r); t.runs {
		t.start(r)
	}
	return nil
}

// refuse has setUp return the error, even if the function that sets up does not.
func (t *term) refuse(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = append(t.refused, err)
	return err
}

// needsLeader reports whether a manager runs r only on the leader, as controller-runtime decides it.
func needsLeader(r manager.Runnable) bool {
	switch r := r.(type) {
	case interface{ GetCache() cache.Cache }: // a cluster
		return false
	case manager.LeaderElectionRunnable:
		return r.NeedLeaderElection()
	}
	return true
}

// Start is not for terms.
func (t *term) Start(context.Context) error {
	return errors.New("the lasting manager starts a term's manager")
}

// Elected returns a closed channel.
func (t *term) Elected() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// GetClient returns a client that writes only while this process leads.
func (t *term) GetClient() client.Client { return t.lasting.guarded }

// GetControllerOptions returns the manager's, but names are used again in each term.
func (t *term) GetControllerOptions() config.Controller {
	o := t.Manager.GetControllerOptions()
	if t.again && o.SkipNameValidation == nil {
		o.SkipNameValidation = ptr.To(true)
	}
	return o
}

// GetCache returns the manager's cache, through which handlers end with the term.
func (t *term) GetCache() cache.Cache { return termCache{t.Manager.GetCache(), t} }

// GetFieldIndexer returns GetCache.
func (t *term) GetFieldIndexer() client.FieldIndexer { return t.GetCache() }

// outside is the error about what belongs to the lasting manager.
func (t *term) outside(what string) error {
	return t.refuse(fmt.Errorf("%s cannot be added in each term: add it to the lasting manager, outside Lead", what))
}

// AddHealthzCheck refuses.
func (t *term) AddHealthzCheck(name string, _ healthz.Checker) error {
	return t.outside("the health check " + name)
}

// AddReadyzCheck refuses.
func (t *term) AddReadyzCheck(name string, _ healthz.Checker) error {
	return t.outside("the readiness check " + name)
}

// AddMetricsServerExtraHandler refuses.
func (t *term) AddMetricsServerExtraHandler(path string, _ http.Handler) error {
	return t.outside("the metrics server's handler of " + path)
}

// GetWebhookServer returns a server that refuses whatever is registered: it would answer with the
// closures of one term in all that follow.
func (t *term) GetWebhookServer() webhook.Server {
	return noWebhooks{webhook.NewServer(webhook.Options{}), t}
}

type noWebhooks struct {
	webhook.Server
	term *term
}

// Register refuses.
func (n noWebhooks) Register(path string, _ http.Handler) {
	_ = n.term.outside("the webhook " + path) // setUp returns it
}
