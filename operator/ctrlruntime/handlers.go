// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// handlers are those that a term has on the informers of its manager's cache.
type handlers struct {
	mu         sync.Mutex
	over       bool
	registered map[*registration]cache.Informer
	calls      sync.WaitGroup // of handlers
}

// registration is that of a handler of a term. Those of some caches are not keys of a map.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

// add registers a handler, unless the term is over.
func (h *handlers) add(i cache.Informer, register func() (toolscache.ResourceEventHandlerRegistration, error)) (toolscache.ResourceEventHandlerRegistration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, errOver
	}
	inner, err := register()
	if err != nil {
		return nil, err
	}
	if h.registered == nil {
		h.registered = map[*registration]cache.Informer{}
	}
	r := &registration{inner}
	h.registered[r] = i
	return r, nil
}

// informers are those that have handlers.
func (h *handlers) informers() []cache.Informer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.registered))
}

// forget says that a handler was removed.
func (h *handlers) forget(r *registration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.registered, r)
}

// remove removes all handlers, and waits for those that are being called.
func (h *handlers) remove() {
	h.mu.Lock()
	h.over = true
	registered := h.registered
	h.registered = nil
	h.mu.Unlock()
	for r, i := range registered {
		_ = i.RemoveEventHandler(r.ResourceEventHandlerRegistration) // an informer that has stopped has none
	}
	h.calls.Wait()
}

// call calls a handler, unless the term is over.
func (h *handlers) call(handler func()) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return
	}
	h.calls.Add(1)
	h.mu.Unlock()
	defer h.calls.Done()
	handler()
}

// termHandler is a handler that is not called when its term is over.
type termHandler struct {
	toolscache.ResourceEventHandler
	handlers *handlers
}

func (h termHandler) OnAdd(o any, initial bool) {
	h.handlers.call(func() { h.ResourceEventHandler.OnAdd(o, initial) })
}

func (h termHandler) OnUpdate(before, after any) {
	h.handlers.call(func() { h.ResourceEventHandler.OnUpdate(before, after) })
}

func (h termHandler) OnDelete(o any) {
	h.handlers.call(func() { h.ResourceEventHandler.OnDelete(o) })
}

// termInformer is an informer whose handlers end with a term.
type termInformer struct {
	cache.Informer
	handlers *handlers
}

func (i termInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.handlers.add(i.Informer, func() (toolscache.ResourceEventHandlerRegistration, error) {
		return i.Informer.AddEventHandler(termHandler{h, i.handlers})
	})
}

func (i termInformer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.handlers.add(i.Informer, func() (toolscache.ResourceEventHandlerRegistration, error) {
		return i.Informer.AddEventHandlerWithResyncPeriod(termHandler{h, i.handlers}, period)
	})
}

func (i termInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.handlers.add(i.Informer, func() (toolscache.ResourceEventHandlerRegistration, error) {
		return i.Informer.AddEventHandlerWithOptions(termHandler{h, i.handlers}, o)
	})
}

func (i termInformer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if own, is := r.(*registration); is {
		i.handlers.forget(own)
		r = own.ResourceEventHandlerRegistration
	}
	return i.Informer.RemoveEventHandler(r)
}

// termCache is the lasting manager's cache as a term sees it.
type termCache struct {
	cache.Cache
	term *term
}

func (c termCache) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return c.tracked(c.Cache.GetInformer(ctx, o, opts...))
}

func (c termCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return c.tracked(c.Cache.GetInformerForKind(ctx, kind, opts...))
}

func (c termCache) tracked(i cache.Informer, err error) (cache.Informer, error) {
	if err != nil {
		return nil, err
	}
	return termInformer{i, &c.term.handlers}, nil
}

// WaitForCacheSync waits for the informers that the term has handlers on, and for what they are to hear
// since it began. Others may never sync.
func (c termCache) WaitForCacheSync(ctx context.Context) bool {
	var synced []toolscache.InformerSynced
	for _, i := range c.term.handlers.informers() {
		synced = append(synced, i.HasSynced)
	}
	return toolscache.WaitForCacheSync(ctx.Done(), synced...) && c.term.lasting.informers.await(ctx, c.term.lasting.syncTimeout()) == nil
}

// RemoveInformer removes the indexes, too.
func (c termCache) RemoveInformer(ctx context.Context, o client.Object) error {
	kind, err := apiutil.GVKForObject(o, c.term.GetScheme())
	if err != nil {
		return err
	}
	l := c.term.lasting
	l.indexing.Lock()
	defer l.indexing.Unlock()
	for _, has := range []map[index]bool{c.term.indexed, l.indexes} {
		maps.DeleteFunc(has, func(i index, _ bool) bool { return i.kind == kind && i.form == reflect.TypeOf(o) })
	}
	return c.Cache.RemoveInformer(ctx, o)
}

// index is an index of the lasting manager's cache.
type index struct {
	kind  schema.GroupVersionKind
	form  reflect.Type // typed, unstructured and metadata have caches of their own
	field string
}

// IndexField makes an index once: the first term's function stays.
func (c termCache) IndexField(ctx context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	kind, err := apiutil.GVKForObject(o, c.term.GetScheme())
	if err != nil {
		return err
	}
	one := index{kind, reflect.TypeOf(o), field}
	c.term.lasting.indexing.Lock()
	defer c.term.lasting.indexing.Unlock()
	if c.term.indexed[one] {
		return fmt.Errorf("%v is indexed by %q twice", kind, field)
	}
	c.term.indexed[one] = true
	if c.term.lasting.indexes[one] {
		return nil
	}
	if err := c.Cache.IndexField(ctx, o, field, extract); err != nil {
		return err
	}
	c.term.lasting.indexes[one] = true
	return nil
}
