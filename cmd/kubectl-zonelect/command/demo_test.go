// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/internal/apitest"
)

// stages gives an environment the parts of demo, in virtual time: candidates run in this process, and reach
// the handler through pipes, so that they can be cut off.
func (w *world) stages(to http.Handler, env *environment) *stage {
	s := &stage{world: w, Pipes: apitest.NewPipes(), handler: to}
	server := &http.Server{Handler: to, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(s) }()
	w.t.Cleanup(func() {
		_ = server.Close()
		s.wait.Wait()
	})
	env.restConfig, env.launch = func() (*rest.Config, error) { return s.Config(), nil }, s.launch
	env.persist = func() func() { return func() {} }
	return s
}

// stage is where the candidates of a demonstration run.
type stage struct {
	*world
	*apitest.Pipes
	handler http.Handler
	wait    sync.WaitGroup

	mu      sync.Mutex
	started int
}

// launch runs a candidate in this process.
func (s *stage) launch(args []string, out, errOut io.Writer) (process, error) {
	in, words := io.Pipe()
	p := &actor{WriteCloser: words, out: out, ended: make(chan struct{}), killed: make(chan struct{}), told: make(chan struct{})}
	env := s.environment(s.handler, genericiooptions.IOStreams{In: in, Out: voice{p}, ErrOut: errOut})
	env.restConfig = func() (*rest.Config, error) {
		cfg := s.Config()
		cfg.Dial = p.through(s.Dial)
		return cfg, nil
	}
	env.alone = func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-p.told:
			case <-p.killed:
			case <-ctx.Done():
			}
			cancel()
		}()
		return ctx, cancel
	}
	s.count(1)
	s.wait.Go(func() {
		_ = run(context.Background(), env, args)
		_ = in.Close()
		close(p.ended)
	})
	return p, nil
}

func (s *stage) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started += n
}

// actor is a candidate in this process. Nothing of one that was killed reaches anybody.
type actor struct {
	io.WriteCloser
	out                 io.Writer
	ended, killed, told chan struct{}

	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (p *actor) through(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil && p.dead {
			_ = c.Close()
			err = errors.New("dead")
		}
		p.conns = append(p.conns, c)
		return c, err
	}
}

// voice is its standard output.
type voice struct{ *actor }

func (p voice) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return len(text), nil
	}
	return p.out.Write(text)
}

func (p *actor) Terminate() error { close(p.told); return nil }

func (p *actor) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	close(p.killed)
	return nil
}

func (p *actor) Wait() error {
	select {
	case <-p.ended:
	case <-p.killed:
	}
	return nil
}

// demonstrates runs demo in the world for as long as ctx lasts.
func (w *world) demonstrates(ctx context.Context, args ...string) (result, *stage) {
	var out, errOut buffer
	env := w.environment(w, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	s := w.stages(w, env)
	code := run(ctx, env, append([]string{"demo"}, args...))
	return result{code, out.String(), errOut.String()}, s
}

// leases are the paths of the Leases that there are.
func (w *world) leases() []string {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	var all []string
	for path := range w.server.Objects {
		if strings.Contains(path, "/leases/") {
			all = append(all, path)
		}
	}
	return all
}

// varying is what differs from run to run: who wins, when, and by how much.
var varying = regexp.MustCompile(`zonelect-demo-[a-z0-9]{5}|candidate-\d_\d| *\d+\.\ds  |\d+(\.\d+)? m?s|from \d+ to \d+`)

// alike replaces it by words.
func alike(text string) string {
	switch first, _, _ := strings.Cut(strings.TrimSpace(text), "-"); {
	case first == "zonelect":
		return "LOCK"
	case first == "candidate":
		return "CANDIDATE"
	case strings.HasPrefix(text, "from"):
		return "from TOKEN to TOKEN"
	case strings.HasSuffix(text, "  "):
		return "AT  "
	}
	return "SOON"
}

// TestADemonstrationKeepsAllPromisesAndLeavesNothing, in less than a minute.
func TestADemonstrationKeepsAllPromisesAndLeavesNothing(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		r, _ := w.demonstrates(t.Context())
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		if left := w.leases(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		for line := range strings.Lines(r.out) {
			if len([]rune(line)) > 101 {
				t.Errorf("a line has %d characters: %s", len([]rune(line)), line)
			}
		}
		r.out = varying.ReplaceAllStringFunc(r.out, alike)
		golden(t, "demo", r)
	})
}

func TestTheReportOfADemonstrationIsOneObject(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		r, _ := w.demonstrates(t.Context(), "-o", "json")
		var report DemoReport
		if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != exitOK {
			t.Fatalf("exit code %d, %v: %s%s", r.code, err, r.out, r.errors)
		}
		if report.Kind != "DemoReport" || report.Namespace != "ns" || report.Context != "c" || report.Broken+report.Unknown != 0 || len(report.Promises) != len(demo.Names()) || len(report.Terms) != 4 || report.LeaseDurationSeconds != 15 {
			t.Errorf("%+v", report)
		}
		if !strings.Contains(r.errors, "SIGKILL to candidate-") {
			t.Errorf("people are told %s", r.errors)
		}
	})
}

// TestDemoBeginsNothingWhereItCannotEnd: it says why, and creates nothing.
func TestDemoBeginsNothingWhereItCannotEnd(t *testing.T) {
	create := "create " + strings.TrimSuffix(leasesPath, "/")
	status := func(code int, reason, message string) func(string, string) (int, apitest.Object) {
		return func(string, string) (int, apitest.Object) {
			return code, apitest.Status(code, reason, message, "leases", "x")
		}
	}
	for name, tc := range map[string]struct {
		breaks func(*world)
		want   string
	}{
		"no right":   {func(w *world) { w.denied = true }, "you may not get, list, watch, create, update, delete leases.coordination.k8s.io in namespace ns; nothing was created\nClusterRole zonelect-demo grants that: kubectl apply -k https://github.com/zonelect/zonelect//config/people/demo && kubectl create rolebinding zonelect-demo --clusterrole=zonelect-demo --user=USER -n ns\n"},
		"no context": {func(w *world) { w.absent = errors.New(`context "gone" does not exist`) }, `context "gone" does not exist`},
		"read-only": {func(w *world) {
			w.answers(create, status(http.StatusForbidden, "Forbidden", `leases "x" is forbidden: ValidatingAdmissionPolicy 'frozen' denied request`))
		}, "a trial of creating a Lease was refused"},
		"no writes": {func(w *world) {
			w.answers(create, status(http.StatusMethodNotAllowed, "MethodNotAllowed", "the server does not allow this method"))
		}, "a trial of creating a Lease was refused"},
		"no namespace": {func(w *world) {
			w.answers(create, status(http.StatusNotFound, "NotFound", `namespaces "ns" not found`))
		}, `namespaces "ns" not found`},
		"no answer":   {func(w *world) { w.deaf.Store(true) }, "a trial of creating a Lease was refused"},
		"cannot list": {func(w *world) { w.forbid("list", "/leases") }, "needs verb \"list\""},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				tc.breaks(w)
				r, s := w.demonstrates(t.Context())
				if r.code != exitError || !strings.Contains(r.errors, tc.want) || s.started > 0 || len(w.leases()) > 0 {
					t.Errorf("exit code %d after %d starts, %v: %s%s", r.code, s.started, w.leases(), r.out, r.errors)
				}
				if name != "no context" && !strings.Contains(r.errors, "; nothing was created\n") {
					t.Errorf("it does not say that nothing was created: %s", r.errors)
				}
			})
		})
	}
}

// TestWhoeverInterruptsADemonstrationFindsNothingLeft, whenever that is: before it begins, while a
// lease runs out, and while the leader is cut off.
func TestWhoeverInterruptsADemonstrationFindsNothingLeft(t *testing.T) {
	for _, after := range []time.Duration{time.Nanosecond, time.Second, 3 * time.Second, 10 * time.Second, 25 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(after, stop)
				r, s := w.demonstrates(ctx)
				if r.code != exitInterrupted || !strings.HasSuffix(r.errors, "interrupted: nothing is left in the cluster\n") {
					t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
				}
				if left := w.leases(); len(left) > 0 || s.started == 0 {
					t.Errorf("%v are left after %d starts", left, s.started)
				}
			})
		})
	}
}

// TestCandidatesWhoseParentIsGoneRemoveEverything: nobody else is there to do it, and one of them was killed.
func TestCandidatesWhoseParentIsGoneRemoveEverything(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		env := w.environment(w, genericiooptions.NewTestIOStreamsDiscard())
		w.stages(w, env)
		c := newCast(env, []string{"demo-candidate", "--lock=zonelect-demo-x"})
		for _, name := range []string{"a", "b", "c"} {
			if _, err := c.start(name); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		if err := c.tell("b_1", wordCut); err != nil {
			t.Fatal(err)
		}
		if err := c.kill(t.Context(), "a_1"); err != nil {
			t.Fatal(err)
		}
		if there := w.leases(); len(there) != 4 {
			t.Fatalf("%v are there", there)
		}
		if killed := c.end(time.Minute); len(killed) > 0 || len(w.leases()) > 0 {
			t.Errorf("%v did not end, and %v are left", killed, w.leases())
		}
	})
}

// TestALaterDemonstrationRemovesWhatAnEarlierOneLeft, and nothing that may belong to one that runs.
func TestALaterDemonstrationRemovesWhatAnEarlierOneLeft(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		for name, ago := range map[string]time.Duration{"older": 11 * time.Minute, "younger": time.Minute} {
			w.server.Put(leasesPath+name, apitest.Object{"metadata": apitest.Object{
				"name": name, "namespace": "ns", "uid": "uid-" + name, "labels": apitest.Object{demoLabel: demoValue, demoRunLabel: "x"},
				"creationTimestamp": time.Now().Add(-ago).UTC().Format(time.RFC3339),
			}})
		}
		w.putLease(newLease("op", "op-a_1", "za"))
		r, _ := w.demonstrates(t.Context())
		if left := w.leases(); r.code != exitOK || len(left) != 2 || strings.Contains(strings.Join(left, " "), "older") || !strings.Contains(r.out, "an earlier demo left 1 Lease: removed") {
			t.Errorf("exit code %d, %v are left: %s%s", r.code, left, r.out, r.errors)
		}
	})
}

// TestABrokenPromiseIsAnError: here nobody can lead after the first.
func TestABrokenPromiseIsAnError(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.server.Before = func(verb, path string) (int, apitest.Object) {
			if verb == "update" && time.Since(began) > 3*time.Second {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		r, _ := w.demonstrates(t.Context())
		if r.code != exitError || !strings.Contains(r.out, "✗") || !strings.Contains(r.errors, "not kept: "+demo.Page) || len(w.leases()) > 0 {
			t.Errorf("exit code %d, %v are left: %s%s", r.code, w.leases(), r.out, r.errors)
		}
	})
}

// TestACandidateThatEndsByItselfIsAnError, which says what the candidate said.
func TestACandidateThatEndsByItselfIsAnError(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		var out, errOut buffer
		env := w.environment(w, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		s := w.stages(w, env)
		env.launch = func(args []string, out, errOut io.Writer) (process, error) {
			return s.launch(append(args, "--no-such-flag"), out, errOut)
		}
		code := run(t.Context(), env, []string{"demo"})
		if code != exitError || !strings.Contains(errOut.String(), "ended by itself") || !strings.Contains(errOut.String(), "--no-such-flag") {
			t.Errorf("exit code %d: %s%s", code, out.String(), errOut.String())
		}
		env.launch = func([]string, io.Writer, io.Writer) (process, error) { return nil, errors.New("no such file") }
		if code := run(t.Context(), env, []string{"demo"}); code != exitError || !strings.Contains(errOut.String(), "no such file") {
			t.Errorf("exit code %d: %s", code, errOut.String())
		}
		synctest.Wait()
	})
}

// TestNothingOfTheCandidatesIsShownToPeople: neither in the help nor in completions.
func TestNothingOfTheCandidatesIsShownToPeople(t *testing.T) {
	w := newWorld(t)
	for _, line := range []string{"--help", "__complete demo"} {
		if r := w.run(strings.Fields(line)...); !strings.Contains(r.out, "demo") || strings.Contains(r.out, "demo-candidate") {
			t.Errorf("%s: %s%s", line, r.out, r.errors)
		}
	}
}

// TestCandidatesGoToTheClusterOfTheirParent, by the same flags, and in the context that was current then.
func TestCandidatesGoToTheClusterOfTheirParent(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		env := w.environment(w, genericiooptions.NewTestIOStreamsDiscard())
		w.stages(w, env)
		var asked []string
		env.launch = func(args []string, _, _ io.Writer) (process, error) { asked = args; return nil, errors.New("enough") }
		run(t.Context(), env, strings.Fields("demo --as jane --as-group a --as-group b -n other --kubeconfig testdata/kubeconfig.yaml --request-timeout 7s"))
		line := strings.Join(asked, " ")
		for _, want := range []string{"demo-candidate --lock=zonelect-demo-", " --as=jane", " --as-group=a --as-group=b", " --kubeconfig=testdata/kubeconfig.yaml", " --context=c --namespace=other --identity=candidate-1_1"} {
			if !strings.Contains(line, want) {
				t.Errorf("%s has not %q", line, want)
			}
		}
	})
}
