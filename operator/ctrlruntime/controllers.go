// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Gate returns a reconciler that does nothing once its context has ended. The queue of a controller
// hands out what it holds even then. Controllers of a [Lasting] manager whose requests are
// reconcile.Request have one already, except those of controller.NewUnmanaged. It is as safe for
// concurrent use as r is.
func Gate[R comparable](r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return gate[R]{r}
}

type gate[R comparable] struct{ next reconcile.TypedReconciler[R] }

func (g gate[R]) Reconcile(ctx context.Context, r R) (reconcile.Result, error) {
	if ctx.Err() != nil {
		return reconcile.Result{}, nil
	}
	return g.next.Reconcile(ctx, r)
}

func (gate[R]) gates() {}

// controllerOf returns the fields of a controller of controller-runtime, whose type cannot be named.
// It reports whether r is one.
func controllerOf(r manager.Runnable) (fields reflect.Value, is bool) {
	v := reflect.ValueOf(r)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	fields = v.Elem()
	return fields, fields.Type().PkgPath() == "sigs.k8s.io/controller-runtime/pkg/internal/controller" && strings.HasPrefix(fields.Type().Name(), "Controller[")
}

// gateController puts a gate before the reconciler of a controller.
func gateController(r manager.Runnable) error {
	c, is := controllerOf(r)
	if !is {
		return nil
	}
	do := c.FieldByName("Do")
	switch next := do.Interface().(type) {
	case interface{ gates() }:
	case reconcile.Reconciler:
		do.Set(reflect.ValueOf(Gate(next)))
	default:
		return fmt.Errorf("the controller %s has requests of a type of its own: pass its reconciler through Gate of this package", c.FieldByName("Name"))
	}
	return nil
}

// controllersOf are the names of the controllers among runnables.
func controllersOf(all ...manager.Runnable) (names []string) {
	for _, r := range all {
		if c, is := controllerOf(r); is {
			names = append(names, c.FieldByName("Name").String())
		}
	}
	return names
}

// shares says which sources a rehearsed term has in common with another, or that do not end with it.
func (t *term) shares(with *term) error {
	seen := map[uintptr]bool{}
	for _, s := range t.sources() {
		if s.Kind() == reflect.Pointer {
			seen[s.Pointer()] = true
		}
	}
	for _, s := range with.sources() {
		if s.Kind() != reflect.Pointer {
			continue
		}
		if seen[s.Pointer()] {
			return fmt.Errorf("%v was made outside of it: a source starts once, so make it inside", s.Type())
		}
		if s.Elem().Kind() != reflect.Struct {
			continue
		}
		foreign := func(field string, own reflect.Type) bool {
			c := s.Elem().FieldByName(field)
			return c.IsValid() && c.Kind() == reflect.Interface && !c.IsNil() && c.Elem().Type() != own
		}
		if foreign("Cache", reflect.TypeFor[termCache]()) || foreign("Informer", reflect.TypeFor[termInformer]()) {
			return fmt.Errorf("%v watches through a cache that is not that of the manager which it is given: its handlers would stay when the term is over", s.Type())
		}
	}
	return nil
}

// sources are what the controllers of a rehearsed term watch.
func (t *term) sources() (all []reflect.Value) {
	for _, r := range t.runnables {
		all = append(all, sourcesOf(r)...)
	}
	return all
}

// sourcesOf are what a controller that has not started watches.
func sourcesOf(r manager.Runnable) (all []reflect.Value) {
	if c, is := controllerOf(r); is {
		if watches := c.FieldByName("startWatches"); watches.IsValid() {
			for i := range watches.Len() {
				all = append(all, watches.Index(i).Elem())
			}
		}
	}
	return all
}

// isChannel reports whether a source is a source.Channel, whose type cannot be named.
func isChannel(source reflect.Value) bool {
	return source.Kind() == reflect.Pointer && strings.HasPrefix(source.Type().Elem().Name(), "channel[")
}

// queueHangs says that controller-runtime's priority queue may never shut down: see its issue 3538.
// It is the default from v0.23 on, and v0.25 mended it.
var queueHangs = func() bool {
	build, _ := debug.ReadBuildInfo()
	if build == nil {
		return false
	}
	for _, m := range build.Deps {
		if m.Path == "sigs.k8s.io/controller-runtime" {
			if m.Replace != nil {
				m = m.Replace
			}
			v, err := version.ParseSemantic(m.Version)
			return err == nil && v.LessThan(version.MustParseSemantic("v0.25.0"))
		}
	}
	return false
}()

// queueGauges are those of controllers' queues. A registry tells them only to who registers gauges like
// them, of the same description.
var queueGauges = sync.OnceValue(func() (all []*prometheus.GaugeVec) {
	registry, is := metrics.Registry.(prometheus.Collector)
	if !is {
		return nil
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	var like []*prometheus.GaugeVec
	for d := range descriptions {
		if m := queueGauge.FindStringSubmatch(d.String()); m != nil {
			help, _ := strconv.Unquote(m[2])
			like = append(like, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m[1], Help: help}, strings.Split(m[3], ",")))
		}
	}
	for _, l := range like {
		var there prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(l); errors.As(err, &there) {
			if vector, is := there.ExistingCollector.(*prometheus.GaugeVec); is {
				all = append(all, vector)
			}
		}
	}
	return all
})

// queueGauge matches the description of such a gauge.
var queueGauge = regexp.MustCompile(`fqName: "(workqueue_(?:depth|unfinished_work_seconds|longest_running_processor_seconds))", help: ("(?:[^"\\]|\\.)*"), .*variableLabels: {([^}]*)}`)

// gaugeUsers counts the terms with running queues, by the names of their controllers.
type gaugeUsers struct {
	mu   sync.Mutex
	live map[string]int
}

// gauges are those of this process, as the registry is: several managers may have controllers of the same
// names.
var gauges = gaugeUsers{live: map[string]int{}}

// begin says that controllers are about to start. Their queues count from zero on, unless others of those
// names count.
func (g *gaugeUsers) begin(controllers []string) {
	g.reset(controllers)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range controllers {
		g.live[name]++
	}
}

// end says that the term of controllers is over, and whether they began. Their gauges would look like those
// of a queue. It removes them in a second, because a priority queue that is shut down may count until then.
func (g *gaugeUsers) end(controllers []string, began bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range controllers {
		if !began {
			break
		}
		if g.live[name]--; g.live[name] == 0 {
			delete(g.live, name)
		}
	}
	time.AfterFunc(time.Second, func() { g.reset(controllers) })
}

// reset removes the gauges of controllers of which none runs.
func (g *gaugeUsers) reset(controllers []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range controllers {
		if g.live[name] > 0 {
			continue
		}
		for _, vector := range queueGauges() {
			vector.DeletePartialMatch(prometheus.Labels{"name": name})
		}
	}
}
