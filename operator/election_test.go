// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/legacypods"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// inPod is a pod of namespace ns on an API server in memory.
func inPod(t *testing.T) (*apitest.Server, Options) {
	t.Helper()
	server := apitest.NewServer()
	server.Put(podPath, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "op-1", Namespace: "ns", UID: "uid-of-op-1"}})
	s := httptest.NewServer(server)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	for name, value := range map[string]string{
		"POD_NAME": "op-1", "POD_UID": "uid-of-op-1", "POD_NAMESPACE": "ns", "NODE_NAME": "", "NODE_ZONE": "za",
	} {
		t.Setenv(name, value)
	}
	return server, Options{Config: &rest.Config{Host: s.URL}, NoEvents: true}
}

// podPath is where the pod of this process is.
const podPath = "/api/v1/namespaces/ns/pods/op-1"

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (o Options) holder(t *testing.T, server *apitest.Server) string {
	t.Helper()
	server.Mu.Lock()
	defer server.Mu.Unlock()
	lease, found := server.Objects[leasePath]
	if !found {
		t.Fatalf("there is no Lease; there are %v", server.Objects)
	}
	holder, _ := lease["spec"].(map[string]any)["holderIdentity"].(string)
	return holder
}

func TestRunNeedsNothingButANameInAPod(t *testing.T) {
	server, o := inPod(t)
	must(t, Run(t.Context(), "op", func(ctx context.Context, term election.Term) error {
		if got := o.holder(t, server); !strings.HasPrefix(got, "op-1_uid-of-o_") || got != term.Holder {
			t.Errorf("the Lease is held by %q, the term by %q", got, term.Holder)
		}
		if term.Zone != "za" {
			t.Errorf("the zone is %q", term.Zone)
		}
		return nil
	}, o))
	if got := o.holder(t, server); got != "" {
		t.Errorf("the Lease is held by %q after Run", got)
	}
}

// TestTheNextProcessOfTheLeadersContainerLeadsAtOnce: the lease of an hour does not run out here.
func TestTheNextProcessOfTheLeadersContainerLeadsAtOnce(t *testing.T) {
	server, o := inPod(t)
	processLock = func() string { return "lock/2" }
	t.Cleanup(func() { processLock = environment.ProcessLock })
	server.Put(leasePath, apitest.Object{
		"metadata": apitest.Object{"name": "op", "namespace": "ns", "uid": "l", "annotations": apitest.Object{
			record.AnnotationHolder: "other", record.AnnotationProcessLock: "lock/1",
		}},
		"spec": apitest.Object{"holderIdentity": "other", "leaseDurationSeconds": 3600, "acquireTime": metav1.NewMicroTime(time.Now())},
	})
	must(t, Run(t.Context(), "op", func(_ context.Context, term election.Term) error {
		if term.Cause != status.CauseDied || term.Previous != "other" {
			t.Errorf("the term is %+v", term)
		}
		server.Mu.Lock()
		defer server.Mu.Unlock()
		noted := server.Objects[leasePath]["metadata"].(map[string]any)["annotations"].(map[string]any)
		if noted[record.AnnotationProcessLock] != "lock/2" {
			t.Errorf("the Lease says of it: %v", noted)
		}
		return nil
	}, o))
}

func TestBecomeLeadsUntilDoneReleases(t *testing.T) {
	server, o := inPod(t)
	ctx, cancel := context.WithCancel(t.Context())
	leading, done, err := o.Become(ctx, "op")
	must(t, err)
	term, ok := election.TermFromContext(leading)
	if !ok || leading.Err() != nil || term.TrustedFor() <= 0 {
		t.Errorf("it leads with %+v, %v", term, context.Cause(leading))
	}
	cancel()
	<-leading.Done()
	if cause := context.Cause(leading); !errors.Is(cause, election.ErrStopped) {
		t.Errorf("the cause is %v", cause)
	}
	if got := o.holder(t, server); got != term.Holder {
		t.Errorf("before done the Lease is held by %q", got)
	}
	done()
	done()
	if got := o.holder(t, server); got != "" {
		t.Errorf("after done the Lease is held by %q", got)
	}
}

// TestBecomeIsOverWithItsTerm, whatever ends that: there is no second term.
func TestBecomeIsOverWithItsTerm(t *testing.T) {
	server, o := inPod(t)
	leading, done, err := o.Become(t.Context(), "op")
	must(t, err)
	server.Change(leasePath, func(lease apitest.Object) {
		lease["metadata"].(apitest.Object)["annotations"].(apitest.Object)["zonelect.dev/phase"] = "legacy"
	})
	<-leading.Done()
	over := make(chan struct{})
	go func() { done(); close(over) }()
	select {
	case <-over:
	case <-time.After(2 * time.Minute):
		t.Error("it campaigns on")
	}
}

func TestBecomeGivesUpWithItsContext(t *testing.T) {
	_, o := inPod(t)
	_, done, err := o.Become(t.Context(), "op")
	must(t, err)
	defer done()
	gone := errors.New("not wanted any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, _, err := o.Become(ctx, "op"); !errors.Is(err, gone) {
		t.Errorf("Become: %v", err)
	}
}

func TestWithoutElectionOneLeadsAtOnceAndIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Disabled: true, PreferredZones: []string{"elsewhere"}, WaitOnAbsent: true}
		begun := time.Now()
		leading, done, err := o.Become(t.Context(), "op")
		must(t, err)
		if took := time.Since(begun); took > 0 {
			t.Errorf("it leads after %v", took)
		}
		time.Sleep(time.Hour)
		if term, _ := election.TermFromContext(leading); term.TrustedFor() <= 0 || leading.Err() != nil {
			t.Errorf("after an hour: %v", context.Cause(leading))
		}
		done()
	})
}

func TestOptionsThatCannotWorkAreRefusedWithWhatToDo(t *testing.T) {
	_, good := inPod(t)
	for want, change := range map[string]func(*Options){
		"has no name":              func(*Options) {},
		`mode "dul" is unknown`:    func(o *Options) { o.Legacy.Mode = "dul" },
		`lock "leasen" is unknown`: func(o *Options) { o.Legacy.ResourceLock = "leasen" },
		"the legacy grace is":      func(o *Options) { o.Legacy = Legacy{Mode: ModeAuto, Grace: time.Second} },
		"selector":                 func(o *Options) { o.Legacy = Legacy{Mode: ModeAuto, PodSelector: ","} },
		"LeaseDuration":            func(o *Options) { o.Timing.LeaseDuration = time.Second },
		`zone "" is not a zone`:    func(o *Options) { o.PreferredZones = []string{"za", ""} },
		`zone " zb" is not a zone`: func(o *Options) { o.PreferredZones = []string{"za", " zb"} },
		"POD_UID":                  func(o *Options) { o.Legacy.Mode = ModeAuto; t.Setenv("POD_UID", "") },
	} {
		o, name := good, "op"
		if want == "has no name" {
			name = ""
		}
		change(&o)
		if err := Run(t.Context(), name, nil, o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
		t.Setenv("POD_UID", "uid-of-op-1")
	}
}

// TestWhereAProcessRunsIsNoOption, so that its errors are no ErrOptions.
func TestWhereAProcessRunsIsNoOption(t *testing.T) {
	_, o := inPod(t)
	t.Setenv("POD_NAMESPACE", "")
	for want, config := range map[string]*rest.Config{"--leader-elect-resource-namespace": o.Config, "no-such-file": nil} {
		t.Setenv("KUBECONFIG", "no-such-file")
		o.Config = config
		if _, err := New(t.Context(), "op", o); err == nil || errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

func TestFlagsWinOverTheEnvironmentAndThatOverDefaults(t *testing.T) {
	t.Setenv("LEADER_ELECT_LEASE_DURATION", "60s")
	t.Setenv("LEADER_ELECT_RENEW_DEADLINE", "40s")
	t.Setenv("LEADER_ELECT_MODE", "auto")
	t.Setenv("LEADER_ELECT_PREFERRED_ZONES", "za,zb")
	var o Options
	must(t, o.FromEnvironment())
	fs := pflag.NewFlagSet("op", pflag.ContinueOnError)
	o.AddFlags(fs)
	args := []string{"--leader-elect-renew-deadline=30s", "--leader-elect=false", "--leader-elect-resource-name", "mine"}
	must(t, fs.Parse(args))
	if o.Timing.LeaseDuration != time.Minute || o.Timing.RenewDeadline != 30*time.Second || o.Timing.RenewInterval != 0 {
		t.Errorf("the timing is %+v", o.Timing)
	}
	if !slices.Equal(o.PreferredZones, []string{"za", "zb"}) {
		t.Errorf("the preferred zones are %q", o.PreferredZones)
	}
	if o.Legacy.Mode != ModeAuto || !o.Disabled || o.Name != "mine" || o.Legacy.Grace != legacypods.GraceDefault {
		t.Errorf("the options are %+v", o)
	}
	if err := fs.Parse([]string{"--leader-elect-legacy-grace=0"}); err != nil || o.Legacy.Grace >= 0 {
		t.Errorf("a grace of zero turns into %v, want never: %v", o.Legacy.Grace, err)
	}
	if o.AddFlags(pflag.NewFlagSet("op", pflag.ContinueOnError)); o.Legacy.Grace >= 0 {
		t.Errorf("flags that nobody gave turn never into %v", o.Legacy.Grace)
	}
	if err := fs.Parse([]string{"--leader-elect"}); err != nil || o.Disabled {
		t.Errorf("--leader-elect alone: disabled %v, %v", o.Disabled, err)
	}
}

func TestLeadershipIsWantedInThePreferredZones(t *testing.T) {
	_, o := inPod(t)
	o.PreferredZones, o.Timing = []string{"zb"}, timing.Fast()
	var c election.Config
	_, err := newElection(t.Context(), "op", o, func(made *election.Config) { c = *made }, nil)
	must(t, err)
	expired := election.Takeover{Cause: status.CauseExpired, PreviousZone: "za", Candidate: locks.Candidate{Identity: "me", Zone: "zb"}}
	spread := expired.Spread(timing.Fast()) // it knows no peers
	for zone, want := range map[string]time.Duration{"zb": spread, "zc": o.Timing.RenewInterval + spread} {
		expired.Candidate.Zone = zone
		if got := c.TakeoverDelay(expired); got != want {
			t.Errorf("in zone %s: %v, want %v", zone, got, want)
		}
	}
}

func TestGarbageInTheEnvironmentIsNamed(t *testing.T) {
	t.Setenv("LEADER_ELECT_LEASE_DURATION", "sixty")
	t.Setenv("LEADER_ELECT", "perhaps")
	var o Options
	err := o.FromEnvironment()
	if err == nil || !strings.Contains(err.Error(), "LEADER_ELECT_LEASE_DURATION") || !strings.Contains(err.Error(), "LEADER_ELECT:") {
		t.Errorf("FromEnvironment: %v", err)
	}
}

// stuckLog is a sink that blocks once it is shut.
type stuckLog struct {
	logr.LogSink
	shut atomic.Bool
	open chan struct{}
}

func (l *stuckLog) Init(logr.RuntimeInfo)          {}
func (l *stuckLog) Enabled(int) bool               { return true }
func (l *stuckLog) WithValues(...any) logr.LogSink { return l }
func (l *stuckLog) Info(int, string, ...any)       { l.wait() }
func (l *stuckLog) Error(error, string, ...any)    { l.wait() }

func (l *stuckLog) wait() {
	if l.shut.Load() {
		<-l.open
	}
}

func TestAnOverrunEndsTheProcessThoughItsLogBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &stuckLog{open: make(chan struct{})}
		e, err := New(t.Context(), "op", Options{
			Disabled: true, ExitOnOverrun: true, Logger: logr.New(log),
			Health: election.Health{Check: func(context.Context) error {
				if log.shut.Load() {
					return errors.New("a reason to log")
				}
				return nil
			}},
		})
		must(t, err)
		exited := make(chan int, 1)
		e.exit = func(code int) { exited <- code }
		release := make(chan struct{})
		end := running(t, e, func(context.Context, election.Term) error { <-release; return nil })
		time.Sleep(time.Minute)
		log.shut.Store(true)
		start := time.Now()
		timing := e.Timing()
		most := timing.RenewInterval + timing.RenewDeadline + timing.StopGrace + leastToLog
		if code, took := <-exited, time.Since(start); code != 1 || took > most {
			t.Errorf("exit %d after %v, want 1 after %v at most", code, took, most)
		}
		if s := e.Status(); s.State != status.StateStopping || !s.Overrun {
			t.Errorf("the state is %s, overrun %v", s.State, s.Overrun)
		}
		if err := e.Alive(nil); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("work goes on without trust: %v", err)
		}
		close(log.open)
		close(release)
		end()
	})
}

// TestWorkThatIsNotTrustedEndsItsProcessWithoutWaitingForTheLog: another may lead.
func TestWorkThatIsNotTrustedEndsItsProcessWithoutWaitingForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &stuckLog{open: make(chan struct{})}
		defer close(log.open)
		log.shut.Store(true)
		e, start := &Election{log: logr.New(log), exit: func(int) {}}, time.Now()
		e.exitOnOverrun(election.Term{}, errors.New("late"))
		if took := time.Since(start); took > leastToLog {
			t.Errorf("it ends after %v, want %v", took, leastToLog)
		}
	})
}

// running runs an election until end is called.
func running(t *testing.T, e *Election, lead func(context.Context, election.Term) error) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx, lead) }()
	return func() {
		t.Helper()
		cancel()
		must(t, <-over)
	}
}

// obedient is work that stops when it is told to.
func obedient(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil }

// probed returns the liveness handler's answer.
func probed(e *Election) (int, string) {
	w := httptest.NewRecorder()
	e.LivenessHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", nil))
	return w.Code, w.Body.String()
}

func TestTheLivenessHandlerFailsForAnElectorThatIsWedgedAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		e, err := newElection(t.Context(), "op", Options{Disabled: true}, func(c *election.Config) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { <-let; return 0 }
		}, nil)
		must(t, err)
		end := running(t, e, obedient)
		if code, text := probed(e); code != http.StatusOK || text != "ok\n" {
			t.Errorf("at first: %d %q", code, text)
		}
		for range 3 {
			time.Sleep(timing.DefaultRenewDeadline)
			_, _ = probed(e)
		}
		if code, text := probed(e); code != http.StatusServiceUnavailable || !strings.Contains(text, "the elector has been stuck") {
			t.Errorf("wedged: %d %q", code, text)
		}
		close(let)
		synctest.Wait()
		if code, text := probed(e); code != http.StatusOK {
			t.Errorf("as it goes on: %d %q", code, text)
		}
		end()
	})
}

// said is a slog handler that passes on its messages.
type said struct{ lines chan string }

func (s said) Enabled(context.Context, slog.Level) bool { return true }
func (s said) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s said) WithGroup(string) slog.Handler            { return s }

func (s said) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	select {
	case s.lines <- line:
	default:
	}
	return nil
}

func TestALoggerInTheContextIsUsedBeforeSlogsDefault(t *testing.T) {
	told := said{make(chan string, 1000)}
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(told))
	logged := 0
	ctx := logr.NewContext(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{}))
	_, err := New(ctx, "op", Options{Disabled: true})
	must(t, err)
	if len(told.lines) > 0 || logged == 0 {
		t.Errorf("slog's default was told %d lines, the context's logger %d", len(told.lines), logged)
	}
	if _, err := New(logr.NewContext(t.Context(), logr.Discard()), "op", Options{Disabled: true}); err != nil || len(told.lines) > 0 {
		t.Errorf("slog's default was told %d lines though the context says to drop them; %v", len(told.lines), err)
	}
}

// TestWhoHasLedIsAlive: a term that is over is no reason to end the process, which may lead again.
func TestWhoHasLedIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(t.Context(), "op", Options{Disabled: true})
		must(t, err)
		end := running(t, e, obedient)
		time.Sleep(time.Minute)
		must(t, e.Resign(t.Context()))
		if term := e.Term(); term.Token == 0 || term.TrustedFor() > 0 {
			t.Fatalf("it has not led, or leads: %+v", term)
		}
		if code, text := probed(e); code != http.StatusOK {
			t.Errorf("the answer is %d, %s", code, text)
		}
		end()
	})
}

func TestWorkThatMayOutliveItsProcessNotesNothingThatProvesItsEnd(t *testing.T) {
	server, o := inPod(t)
	t.Setenv("POD_UID", rand.Text())
	o.WorkOutlivesProcess = true
	processLock = func() string { return "lock/1" }
	t.Cleanup(func() { processLock = environment.ProcessLock })
	must(t, Run(t.Context(), "op", func(context.Context, election.Term) error {
		server.Mu.Lock()
		defer server.Mu.Unlock()
		for path, object := range server.Objects {
			noted, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
			if noted[record.AnnotationProcessLock] != nil {
				t.Errorf("%s says %v", path, noted)
			}
		}
		return nil
	}, o))
}
