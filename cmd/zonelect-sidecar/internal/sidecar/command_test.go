// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/operator"
)

// The test binary is also each command that the tests run, and the sidecar.
const (
	envRole   = "ZONELECT_TEST_ROLE"
	roleObey  = "obey"    // ends when it is asked to
	roleDeaf  = "deaf"    // does not
	roleStray = "stray"   // obeys, and leaves behind a deaf process in a session of its own
	roleBrood = "brood"   // obeys, and leaves behind a deaf process of its group
	roleLeave = "leave"   // ends at once, with code 7, and leaves behind a stray
	roleDie   = "die"     // kills itself
	roleGood  = "good"    // ends at once, with code 0
	roleSelf  = "sidecar" // runs the sidecar with the arguments
	envOfRole = "ZONELECT_TEST_CHILD"
)

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		os.Exit(m.Run())
	}
	if role == roleSelf {
		mustPlay(os.Setenv(envRole, os.Getenv(envOfRole)))
		os.Exit(Run(context.Background(), os.Args[1:]))
	}
	os.Exit(play(role))
}

// mustPlay ends a command on an error.
func mustPlay(err error) {
	if err != nil {
		panic(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// play is a command. It prints its process ID, and the token that it got.
func play(role string) int {
	asked := make(chan os.Signal, 9)
	if role == roleDeaf {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	} else {
		signal.Notify(asked, syscall.SIGTERM, syscall.SIGHUP)
	}
	left := 0
	switch role {
	case roleStray, roleLeave:
		left = leave(roleDeaf, &syscall.SysProcAttr{Setsid: true})
	case roleBrood:
		left = leave(roleDeaf, nil)
	}
	fmt.Println("runs", role, os.Getpid(), left, os.Getenv("ZONELECT_TOKEN"), os.Getenv("ZONELECT_LOCK"), os.Getenv("ZONELECT_IDENTITY"))
	switch role {
	case roleLeave:
		return 7
	case roleGood:
		return 0
	case roleDie:
		mustPlay(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	case roleDeaf:
		time.Sleep(time.Minute) // no test needs that: it ends one that a failing test has left
		fmt.Println("nobody ended", role)
		return 1
	}
	for s := range asked {
		fmt.Println("got", s)
		if s == syscall.SIGTERM {
			break
		}
	}
	return 0
}

// leave starts a process, waits until it runs, and leaves it alone.
func leave(role string, how *syscall.SysProcAttr) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), envRole+"="+role), how
	r, err := cmd.StdoutPipe()
	mustPlay(err)
	mustPlay(cmd.Start())
	_, err = bufio.NewReader(r).ReadString('\n')
	mustPlay(err)
	return cmd.Process.Pid
}

// gone reports whether there is no process of that ID, not even an unreaped one.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// running is what a command says when it runs.
type running struct {
	role, lock, identity string
	pid, left            int
	token                uint64
}

func (r running) gone() bool { return (r.pid == 0 || gone(r.pid)) && (r.left == 0 || gone(r.left)) }

// bench is a sidecar in this process, on an API server in memory.
type bench struct {
	t       *testing.T
	server  *apitest.Server
	refuses atomic.Bool // the API server
	options options
	signals chan os.Signal
	lines   *bufio.Scanner // what the command prints
	stop    context.CancelFunc
	over    chan error

	mu   sync.Mutex
	runs running // the newest command
	held []string
}

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"

// newBench prepares a sidecar that runs a command of that role.
func newBench(t *testing.T, role string) *bench {
	t.Helper()
	b := &bench{t: t, server: apitest.NewServer(), signals: make(chan os.Signal, 99), over: make(chan error, 1)}
	b.server.Before = func(verb, path string) (int, apitest.Object) {
		if b.refuses.Load() {
			return http.StatusInternalServerError, apitest.Status(http.StatusInternalServerError, "InternalError", "refused", "leases", "")
		}
		return 0, nil
	}
	b.server.Stored = b.stored
	s := httptest.NewServer(b.server)
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() {
		if b.stop != nil {
			b.stop()
			<-b.over
		}
		_, _ = w.Close(), r.Close()
		s.CloseClientConnections()
		s.Close()
	})
	for name, value := range map[string]string{"POD_NAME": "op-1", "POD_UID": "uid", "POD_NAMESPACE": "ns", "NODE_ZONE": "za", envRole: role} {
		t.Setenv(name, value)
	}
	b.lines = bufio.NewScanner(r)
	b.options = options{
		Options: operator.Options{Name: "op", Config: &rest.Config{Host: s.URL}, NoEvents: true, WorkOutlivesProcess: true},
		command: []string{os.Args[0]}, out: w,
	}
	return b
}

// stored notes whether the command was there when the lock was released.
func (b *bench) stored(_ *http.Request, path string, _, after apitest.Object) {
	if path != leasePath || after == nil {
		return
	}
	if holder, _ := after["spec"].(map[string]any)["holderIdentity"].(string); holder != "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held = append(b.held, "released"); !b.runs.gone() {
		b.held = append(b.held, fmt.Sprintf("while %+v runs", b.runs))
	}
}

// releases returns what was seen of releases.
func (b *bench) releases() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.held, " ")
}

// run starts the sidecar.
func (b *bench) run() {
	var ctx context.Context
	ctx, b.stop = context.WithCancel(b.t.Context())
	go func() { b.over <- b.options.run(ctx, b.signals); close(b.over) }()
}

// lead starts the sidecar, and waits until its command runs.
func (b *bench) lead() running {
	b.t.Helper()
	b.run()
	return b.next()
}

// next waits until a command runs.
func (b *bench) next() (r running) {
	b.t.Helper()
	if _, err := fmt.Sscanf(b.says("runs"), "runs %s %d %d %d %s %s", &r.role, &r.pid, &r.left, &r.token, &r.lock, &r.identity); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = r
	return r
}

// says waits for a line that begins like this.
func (b *bench) says(begins string) string {
	b.t.Helper()
	for b.lines.Scan() {
		if strings.HasPrefix(b.lines.Text(), begins) {
			return b.lines.Text()
		}
	}
	b.t.Fatalf("it never said %q: %v", begins, b.lines.Err())
	return ""
}

func TestACommandKnowsItsTermAndGetsSignals(t *testing.T) {
	b := newBench(t, roleObey)
	r := b.lead()
	b.signals <- syscall.SIGHUP
	b.says("got hangup")
	b.server.Mu.Lock()
	holder := b.server.Objects[leasePath]["spec"].(map[string]any)["holderIdentity"]
	b.server.Mu.Unlock()
	if r.token == 0 || r.lock != "ns/op" || r.identity != holder {
		t.Errorf("it got %+v, and %v holds the Lease", r, holder)
	}
}

// free is an address that nobody listens on.
func free() string {
	s := httptest.NewServer(nil)
	s.Close()
	return s.Listener.Addr().String()
}

// get returns what is served at a URL as long as the test runs.
func get(t *testing.T, url string) (code int, text string) {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // it is there as long as the test
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

// TestASidecarShowsMetricsAndHealth on an address of their own, where nothing else is served.
func TestASidecarShowsMetricsAndHealth(t *testing.T) {
	b := newBench(t, roleObey)
	b.options.metrics = free()
	b.lead()
	for path, want := range map[string]string{
		"/healthz": "ok",
		"/metrics": `election_leader{election_lock_kind="Lease",election_lock_name="op",k8s_namespace_name="ns"} 1`,
		"/leader":  "404 page not found",
	} {
		if _, text := get(t, "http://"+b.options.metrics+path); !strings.Contains(text, want) {
			t.Errorf("%s: no line is %s: %s", path, want, text)
		}
	}
}

// TestTheLockIsReleasedWhenNothingThatTheCommandHasStartedIsLeft: one that ignores its stop is killed before.
func TestTheLockIsReleasedWhenNothingThatTheCommandHasStartedIsLeft(t *testing.T) {
	for _, role := range []string{roleObey, roleBrood, roleDeaf, roleStray} {
		t.Run(role, func(t *testing.T) {
			b := newBench(t, role)
			b.options.Timing.StopTimeout = 3 * time.Second
			r := b.lead()
			b.stop()
			must(t, <-b.over)
			if got := b.releases(); got != "released" || !r.gone() {
				t.Errorf("%q, and everything of %+v is gone: %v", got, r, r.gone())
			}
			if role != roleDeaf {
				b.says("got terminated")
			}
		})
	}
}

// TestALostTermLeavesNothingForTheNextToOverlapWith: the API refuses all, and the command ignores its
// stop. The sidecar goes on, and is alive by its probe. It starts the next command when the first is
// dead.
func TestALostTermLeavesNothingForTheNextToOverlapWith(t *testing.T) {
	b := newBench(t, roleDeaf)
	b.options.Timing = election.Timing{
		LeaseDuration: 2 * time.Second, RenewDeadline: 500 * time.Millisecond, RenewInterval: 100 * time.Millisecond,
		Exclusive: true, StopTimeout: time.Second,
	}
	b.options.metrics = free()
	first := b.lead()
	b.refuses.Store(true)
	for !gone(first.pid) {
		time.Sleep(time.Millisecond) // until it is killed
	}
	for late := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // until the sidecar knows that it is dead
		code, text := get(t, "http://"+b.options.metrics+"/healthz")
		if code == http.StatusOK {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("without the API, it is not alive: %d, %s", code, text)
		}
	}
	b.refuses.Store(false)
	second := b.next()
	if second.token <= first.token || second.pid == first.pid {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if got := b.releases(); got != "" {
		t.Errorf("meanwhile: %s", got)
	}
}

func TestACommandThatEndsByItselfEndsTheSidecarWithItsCode(t *testing.T) {
	for role, want := range map[string]int{roleLeave: 7, roleGood: 0, roleDie: codeSignaled + int(syscall.SIGKILL)} {
		t.Run(role, func(t *testing.T) {
			b := newBench(t, role)
			r := b.lead()
			if got := exitCode(<-b.over); got != want {
				t.Errorf("exit code %d, want %d", got, want)
			}
			if got := b.releases(); got != "released" || !r.gone() {
				t.Errorf("%q, and everything of %+v is gone: %v", got, r, r.gone())
			}
		})
	}
}

func TestACommandThatCannotBeStartedLeavesTheLock(t *testing.T) {
	b := newBench(t, roleObey)
	b.options.command = []string{t.TempDir()}
	if err := b.options.run(t.Context(), b.signals); err == nil || !strings.Contains(err.Error(), "starting the command") {
		t.Errorf("it ends with: %v", err)
	}
	if got := b.releases(); got != "released" {
		t.Errorf("the lock: %q", got)
	}
}

// TestNoCommandIsStartedInATermThatIsOver, whether its context has ended yet or not. The command
// could not be started, which would be another error.
func TestNoCommandIsStartedInATermThatIsOver(t *testing.T) {
	for _, later := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r := &runner{argv: []string{t.TempDir()}, log: logr.Discard()}
		if later {
			go cancel(election.ErrLost)
		} else {
			cancel(election.ErrLost)
		}
		if err := r.lead(ctx, election.Term{}); !errors.Is(err, context.Canceled) {
			t.Errorf("its context ends later: %v: %v", later, err)
		}
	}
}

// TestTheTimeThatTheStartOfACommandTakesCounts: all of it is over by the end of that.
func TestTheTimeThatTheStartOfACommandTakesCounts(t *testing.T) {
	t.Setenv(envRole, roleDeaf)
	p, err := start(exec.Command(os.Args[0]))
	must(t, err)
	l := limit{timing: election.Timing{StopGrace: time.Hour}, until: time.Now().Add(-time.Hour)}
	r := &runner{log: logr.Discard()}
	if got, want := r.follow(t.Context(), election.Term{}, p, l), codeSignaled+int(syscall.SIGKILL); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
}

// TestTheStopGraceOfACommandThatStartsLateIsOver: it counts from the end of trust.
func TestTheStopGraceOfACommandThatStartsLateIsOver(t *testing.T) {
	b, grace, deadline := newBench(t, roleDeaf), time.Second, 500*time.Millisecond
	timing := election.Timing{
		LeaseDuration: 2 * time.Second, RenewDeadline: deadline, RenewInterval: deadline / 5, StopGrace: grace, Exclusive: true,
	}
	b.options.Timing = timing
	_ = operator.Run(t.Context(), "op", func(ctx context.Context, term election.Term) error {
		b.refuses.Store(true)
		r, starts := &runner{argv: b.options.command, out: b.options.out, timing: timing, log: logr.Discard()}, time.Now().Add(deadline+grace)
		r.mu.Lock()
		time.AfterFunc(time.Until(starts), r.mu.Unlock)
		_ = r.lead(ctx, term)
		if had := time.Since(starts); had >= most(grace) {
			t.Errorf("it had %v more", had)
		}
		return election.ErrUnfinished // which ends the election
	}, b.options.Options)
}

func TestWhatEndsWhileNoCommandRunsIsReaped(t *testing.T) {
	orphan := exec.Command("true")
	orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, orphan.Start())
	awaitEnd(orphan.Process.Pid)
	signals := make(chan os.Signal)
	go new(runner).pass(t.Context(), signals)
	for range 2 { // the second is taken when the first has been dealt with
		signals <- syscall.SIGCHLD
	}
	if !gone(orphan.Process.Pid) {
		t.Error("it is not reaped")
	}
}

// sidecarOf starts the program itself, without an election, with a command of that role. It
// returns what the command prints.
func sidecarOf(t *testing.T, role string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], named, "--leader-elect=false", "--", os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+roleSelf, envOfRole+"="+role)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "runs") {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, r
}

// TestACommandDiesWithItsSidecar: the pipe ends when nobody can write to it.
func TestACommandDiesWithItsSidecar(t *testing.T) {
	cmd, out := sidecarOf(t, roleDeaf)
	must(t, cmd.Process.Kill())
	if said, err := io.ReadAll(out); err != nil || len(said) > 0 {
		t.Errorf("it said %q, %v", said, err)
	}
}

func TestASidecarThatIsToldToEndEndsItsCommandInGoodOrder(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd, out := sidecarOf(t, roleObey)
		must(t, cmd.Process.Signal(s))
		said, err := io.ReadAll(out)
		if err != nil || string(said) != "got terminated\n" {
			t.Errorf("%v: it said %q, %v", s, said, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}
