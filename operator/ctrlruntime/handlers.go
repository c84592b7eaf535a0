// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// termCache is the lasting manager's cache as a term sees it.
type termCache struct {
	cache.Cache
	term *term
}

type (
	getOption    = cache.InformerGetOption
	eventHandler = toolscache.ResourceEventHandler
	registration = toolscache.ResourceEventHandlerRegistration
)

func (c termCache) GetInformer(ctx context.Context, o client.Object, opts ...getOption) (cache.Informer, error) {
	of, err := c.indexOf(o, "")
	if err != nil {
		return nil, err
	}
	i, err := c.Cache.GetInformer(ctx, o, c.term.waiting(opts)...)
	return c.term.use(of, i, err)
}

func (c termCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, opts ...getOption) (cache.Informer, error) {
	i, err := c.Cache.GetInformerForKind(ctx, kind, c.term.waiting(opts)...)
	return c.term.use(index{kind: kind}, i, err)
}

// waiting adds to options that setup does not wait for an informer, as none does before a manager has started.
func (t *term) waiting(opts []getOption) []getOption {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.runs {
		opts = append(opts, cache.BlockUntilSynced(false))
	}
	return opts
}

// use notes that the term uses an informer.
func (t *term) use(of index, i cache.Informer, err error) (cache.Informer, error) {
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[of] = i
	return termInformer{i, t}, nil
}

// WaitForCacheSync waits for the informers that the term uses. Others may never sync.
func (c termCache) WaitForCacheSync(ctx context.Context) bool {
	return toolscache.WaitForCacheSync(ctx.Done(), func() bool { return len(c.term.missing()) == 0 })
}

// RemoveInformer refuses: the next term would count on its indexes.
func (c termCache) RemoveInformer(context.Context, client.Object) error {
	return errors.New("informers serve all terms, so none can remove one")
}

// index is an index of the lasting manager's cache.
type index struct {
	kind  schema.GroupVersionKind
	form  reflect.Type // typed, unstructured and metadata have caches of their own
	field string
}

func (c termCache) indexOf(o client.Object, field string) (index, error) {
	kind, err := apiutil.GVKForObject(o, c.term.GetScheme())
	return index{kind, reflect.TypeOf(o), field}, err
}

// IndexField makes an index once for all terms: the first function stays.
func (c termCache) IndexField(ctx context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	of, err := c.indexOf(o, field)
	if err != nil {
		return err
	}
	l := c.term.lasting
	l.indexing.Lock()
	defer l.indexing.Unlock()
	last, there := l.indexes[of]
	if last == c.term {
		return fmt.Errorf("%v is indexed by %q twice", of.kind, field)
	}
	if !there {
		if err := c.Cache.IndexField(ctx, o, field, extract); err != nil {
			return err
		}
	}
	l.indexes[of] = c.term
	return nil
}

// termInformer is an informer whose handlers end with a term.
type termInformer struct {
	cache.Informer
	term *term
}

func (i termInformer) AddEventHandler(h eventHandler) (registration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

func (i termInformer) AddEventHandlerWithResyncPeriod(h eventHandler, period time.Duration) (registration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions keeps the registration until the term ends.
func (i termInformer) AddEventHandlerWithOptions(h eventHandler, o toolscache.HandlerOptions) (registration, error) {
	i.term.mu.Lock()
	defer i.term.mu.Unlock()
	if i.term.over {
		return nil, errOver
	}
	r, err := i.Informer.AddEventHandlerWithOptions(i.term.handler(h), o)
	if err == nil {
		i.term.handlers[r] = i.Informer
	}
	return r, err
}

func (i termInformer) RemoveEventHandler(r registration) error {
	i.term.mu.Lock()
	delete(i.term.handlers, r)
	i.term.mu.Unlock()
	return i.Informer.RemoveEventHandler(r)
}

// handler is h, but it is not called when the term is over.
func (t *term) handler(h eventHandler) eventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { t.call(func() { h.OnAdd(o, initial) }) },
		UpdateFunc: func(before, after any) { t.call(func() { h.OnUpdate(before, after) }) },
		DeleteFunc: func(o any) { t.call(func() { h.OnDelete(o) }) },
	}
}

// call calls a handler, unless the term is over.
func (t *term) call(handler func()) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.running.Add(1)
	t.mu.Unlock()
	defer t.running.Done()
	handler()
}
