// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
)

// TestSetupsThatIndexTheSameFieldAreRefused: each works alone, and no term could begin with both (B5).
func TestSetupsThatIndexTheSameFieldAreRefused(t *testing.T) {
	w := newWorld(t, 0)
	for range 2 {
		w.mustLead(indexing)
	}
	if err := w.Start(t.Context()); err == nil || errors.Is(err, errTerm) || !strings.Contains(err.Error(), `is indexed by "f" twice`) {
		t.Errorf("Start: %v", err)
	}
}

// TestWhatCannotBeRepeatedIsRefused when Lead is called, with what to do.
func TestWhatCannotBeRepeatedIsRefused(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "refused_total"})
	w := newWorld(t, 0)
	for want, setup := range map[string]func(ctrl.Manager) error{
		"the webhook /a cannot be added in each term: add it to the lasting manager": func(m ctrl.Manager) error {
			m.GetWebhookServer().Register("/a", &webhook.Admission{Handler: admission.HandlerFunc(nil)})
			return nil
		},
		"the health check a cannot be":    func(m ctrl.Manager) error { return m.AddHealthzCheck("a", healthz.Ping) },
		"the readiness check b cannot be": func(m ctrl.Manager) error { return m.AddReadyzCheck("b", healthz.Ping) },
		"handler of /m cannot be":         func(m ctrl.Manager) error { return m.AddMetricsServerExtraHandler("/m", http.NotFoundHandler()) },
		"everywhere needs no leader, so that it belongs to no term": func(m ctrl.Manager) error {
			return m.Add(everywhere(func(context.Context) error { return nil }))
		},
		"fails the second time: panic: duplicate metrics collector registration": func(ctrl.Manager) error {
			metrics.Registry.MustRegister(counter)
			return nil
		},
		"no such thing":              func(ctrl.Manager) error { return errors.New("no such thing") },
		"none can remove one":        func(m ctrl.Manager) error { return m.GetCache().RemoveInformer(t.Context(), &corev1.ConfigMap{}) },
		"the lasting manager starts": func(m ctrl.Manager) error { return m.Start(t.Context()) },
	} {
		if err := w.Lead(setup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
	if err := w.Add(manager.RunnableFunc(nil)); err == nil || !strings.Contains(err.Error(), "add it in a function given to Lead") {
		t.Errorf("Add: %v", err)
	}
	w.started.Store(true)
	if err := w.Lead(func(ctrl.Manager) error { return nil }); err == nil || !strings.Contains(err.Error(), "after Start") {
		t.Errorf("Lead after Start: %v", err)
	}
}

// TestTermsThatFailArePacedAndCounted: the fifth in a row ends Start.
func TestTermsThatFailArePacedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newElectedWorld(t)
		var terms []time.Time
		calls := 0
		w.mustLead(func(m ctrl.Manager) error {
			if calls++; calls <= 3 { // rehearsals
				return nil
			}
			terms = append(terms, time.Now())
			if len(terms) == 3 {
				return m.Add(manager.RunnableFunc(func(context.Context) error { time.Sleep(longTerm + time.Second); return errors.New("later") }))
			}
			return errors.New("at once")
		})
		err := w.Start(t.Context())
		if !errors.Is(err, errTerm) || !strings.Contains(err.Error(), "5 terms in a row: ") || len(terms) != 7 {
			t.Errorf("%d terms, and then: %v", len(terms), err)
		}
		for n, at := range terms[1:3] {
			if pause := at.Sub(terms[n]); pause < 400*time.Millisecond {
				t.Errorf("term %d began %v after the one before", n+1, pause)
			}
		}
	})
}

// TestATermThatEndsWellEndsARowOfThoseThatFail: it may have lasted for weeks.
func TestATermThatEndsWellEndsARowOfThoseThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newElectedWorld(t)
		terms, calls := 0, 0
		w.mustLead(func(m ctrl.Manager) error {
			if calls++; calls <= 3 { // rehearsals
				return nil
			}
			if terms++; terms != 4 {
				return errors.New("at once")
			}
			return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				_ = w.Election.Resign(ctx) // which ends with the term
				return nil
			}))
		})
		if err := w.Start(t.Context()); !errors.Is(err, errTerm) || terms != 4+inARow {
			t.Errorf("%d terms, and then: %v", terms, err)
		}
	})
}

// newElectedWorld has an election that nobody else takes part in.
func newElectedWorld(t *testing.T, change ...func(*ctrl.Options)) *world {
	t.Helper()
	return newWorld(t, 1, append(change, func(o *ctrl.Options) { o.LeaderElection, o.LeaderElectionID = true, "op" })...)
}

// oneTerm starts a manager that ends when during returns, which gets the manager of a term.
func (w *world) oneTerm(during func(m ctrl.Manager)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.mustLead(func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(context.Context) error { during(m); cancel(); return nil }))
	})
	must(w.t, w.Start(ctx))
}

// TestALastingManagerIsElectedForNoTerm: what waits for Elected would go on without leadership.
func TestALastingManagerIsElectedForNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said atomic.Bool
		w := newElectedWorld(t, func(o *ctrl.Options) {
			o.Logger = funcr.New(func(_, args string) {
				said.Store(said.Load() || strings.Contains(args, "is never closed"))
			}, funcr.Options{})
		})
		w.oneTerm(func(m ctrl.Manager) {
			<-m.Elected()
			if w.Elected() != nil {
				t.Error("it is elected for ever")
			}
		})
		if !said.Load() {
			t.Error("it does not say so")
		}
	})
}

// TestTheClientOfATermIsGuarded: it writes only while this process leads.
func TestTheClientOfATermIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		write := func(c client.Client) error {
			return c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}})
		}
		var last client.Client
		newElectedWorld(t).oneTerm(func(m ctrl.Manager) {
			last = m.GetClient()
			if err := write(last); errors.Is(err, election.ErrUntrusted) {
				t.Errorf("while it leads: %v", err)
			}
		})
		if err := write(last); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("when the term is over: %v", err)
		}
	})
}

// TestWorkThatOutlivesItsTermEndsTheProcess whatever the options say. The test runs itself as that process.
func TestWorkThatOutlivesItsTermEndsTheProcess(t *testing.T) {
	if os.Getenv("OUTLIVES") != "" {
		short := 100 * time.Millisecond
		w := newElectedWorld(t, func(o *ctrl.Options) { o.GracefulShutdownTimeout = &short })
		ctx, cancel := context.WithCancel(t.Context())
		w.mustLead(func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { cancel(); fmt.Println("it works"); select {} }))
		})
		t.Fatal(w.Start(ctx))
	}
	newWorld(t, 0) // skips with an old controller-runtime
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), "OUTLIVES=yes")
	out, err := process.CombinedOutput()
	said := string(out)
	if ended := new(exec.ExitError); !errors.As(err, &ended) || !strings.Contains(said, "it works") || strings.Contains(said, "FAIL") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestTheReleaseFollowsTheGracefulShutdownTimeout, which is the controllers' alone (B7).
func TestTheReleaseFollowsTheGracefulShutdownTimeout(t *testing.T) {
	newWorld(t, 0) // skips with an old controller-runtime
	server := apitest.NewServer()
	var stopping atomic.Bool
	server.Before = func(verb, _ string) (int, apitest.Object) {
		if stopping.Load() && verb == "update" {
			time.Sleep(700 * time.Millisecond)
		}
		return 0, nil
	}
	api := httptest.NewServer(server)
	defer api.Close()
	defer api.CloseClientConnections()
	config := &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	o, grace := options(), time.Second
	o.GracefulShutdownTimeout = &grace
	m, err := NewLasting(config, o, self)
	must(t, err)
	endless := time.Duration(-1)
	if got := m.Election.Timing().StopTimeout; got != grace || patience(&endless) < time.Hour || patience(nil) != 0 {
		t.Errorf("StopTimeout is %v, %v without an end, and %v by default", got, patience(&endless), patience(nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	must(t, m.Lead(func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			time.Sleep(grace - 300*time.Millisecond)
			stopping.Store(true)
			return nil
		}))
	}))
	must(t, m.Start(ctx))
	if s := m.Election.Status(); s.Holder != "" {
		t.Errorf("the lease is held by %q", s.Holder)
	}
}

// TestAnOlderControllerRuntimeIsRefused with what to do, and one that the build does not name is not.
func TestAnOlderControllerRuntimeIsRefused(t *testing.T) {
	for built, refused := range map[string]bool{"v0.22.5": true, "v0.24.9": true, "v0.25.0": false, "v1.0.0": false, "(devel)": false} {
		instead := debug.Module{Path: "sigs.k8s.io/controller-runtime", Version: "v0.0.1", Replace: &debug.Module{Version: built}}
		err := newEnough(&debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.22.0"}, &instead}}, true)
		if errors.Is(err, errTooOld) != refused || refused && !strings.Contains(err.Error(), "use NewManager (this is "+built) {
			t.Errorf("%s: %v", built, err)
		}
	}
	must(t, newEnough(nil, false))
}
