// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/shieldmap"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// brisk is a timing that a busy machine can keep.
var brisk = election.Timing{
	LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second,
	Exclusive: true,
}

// editedLock is one operator whose lock objects are edited by hand. Its candidates
// run inside the test process, its legacy pods in separate processes. At its end
// it checks that no two led.
type editedLock struct {
	*past
	t             *testing.T
	lock, variant string        // that of its legacy pods
	grace         time.Duration // LegacyGrace; zero is the default
	changes       int           // of the phase

	seats []*trial.Seat // of legacy pods
	ended map[*trial.Seat]time.Time

	guard   sync.Mutex
	reigns  []*reign
	logs    []string
	members []*member
}

// reign is one term of a candidate; end is zero while its work runs.
type reign struct {
	who        string
	start, end time.Time
	cause      error
}

func newEditedLock(t *testing.T, p *past, variant string) *editedLock {
	t.Helper()
	s := &editedLock{
		past: p, t: t, lock: nameOf(t), variant: variant,
		ended: map[*trial.Seat]time.Time{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(s.since(0), "\n"))
		}
	})
	return s
}

func (s *editedLock) logger(who string) logr.Logger {
	return funcr.New(func(_, line string) {
		s.guard.Lock()
		defer s.guard.Unlock()
		s.logs = append(s.logs, time.Now().Format("05.000 ")+who+" "+line)
	}, funcr.Options{})
}

// since returns the log lines after the first n.
func (s *editedLock) since(n int) []string {
	s.guard.Lock()
	defer s.guard.Unlock()
	return slices.Clone(s.logs[n:])
}

// said reports whether the log lines after the first n contain what.
func (s *editedLock) said(n int, what string) bool {
	return strings.Contains(strings.Join(s.since(n), "\n"), what)
}

// member is one candidate.
type member struct {
	*election.Elector
	s     *editedLock
	pod   ownerref.Owner
	wire  *cable
	stop  func()
	over  chan struct{}
	ended error // the error of Run, once over is closed
}

// entry is the configuration of a candidate.
type entry struct {
	zone   string
	cfg    *rest.Config
	self   environment.Self
	legacy shield.Config
	log    logr.Logger
	lock   locks.Lock // made from the others if nil
	alone  bool       // no pod is made for it
	plain  bool       // it runs in mode lease
}

func (e *entry) environment() *environment.Environment {
	return &environment.Environment{Config: e.cfg, Self: e.self, Namespace: "default", Timing: brisk.WithDefaults(), Logger: e.log}
}

// enter starts a candidate in a new pod.
func (s *editedLock) enter(name string, change ...func(*entry)) *member {
	s.t.Helper()
	m := &member{s: s, wire: &cable{}, over: make(chan struct{})}
	name = s.lock + "-" + name
	e := &entry{
		zone: "za", cfg: s.Cluster.RESTConfig("za"),
		self:   environment.Self{Identity: fmt.Sprintf("%s_%d", name, time.Now().UnixMicro()), PodName: name, Namespace: "default"},
		legacy: shield.Config{PodSelector: "app=" + s.lock, LegacyGrace: s.grace},
		log:    s.logger(name),
	}
	e.cfg.Wrap(m.wire.around)
	for _, f := range change {
		f(e)
	}
	e.self.Zone = e.zone
	if e.self.PodUID == "" && !e.alone {
		pod, err := s.Cluster.AddPod(s.ctx, e.zone, name, "default", map[string]string{"app": s.lock})
		must(s.t, err)
		e.self.PodUID, e.self.Node = string(pod.UID), pod.Spec.NodeName
	}
	m.pod = ownerref.Owner{Name: e.self.PodName, UID: types.UID(e.self.PodUID)}
	if e.plain {
		lock, _, err := e.environment().Plain(s.lock)
		must(s.t, err)
		e.lock = lock
	}
	if e.lock == nil {
		lock, err := e.environment().Shield(s.lock, e.legacy)
		must(s.t, err)
		e.lock = lock
	}
	var err error
	m.Elector, err = election.New(election.Config{Lock: e.lock, Candidate: e.self.Candidate(), Timing: brisk, Logger: s.logger(name)})
	must(s.t, err)
	ctx, cancel := context.WithCancel(s.ctx)
	m.stop = func() { cancel(); <-m.over }
	go func() {
		defer close(m.over)
		m.ended = m.Run(ctx, func(ctx context.Context, _ election.Term) error {
			r := s.begin(name)
			<-ctx.Done()
			s.finish(r, context.Cause(ctx))
			return nil
		})
	}()
	s.t.Cleanup(m.stop)
	s.members = append(s.members, m)
	return m
}

func (s *editedLock) begin(who string) *reign {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.reigns = append(s.reigns, &reign{who: who, start: time.Now()})
	return s.reigns[len(s.reigns)-1]
}

func (s *editedLock) finish(r *reign, cause error) {
	s.guard.Lock()
	defer s.guard.Unlock()
	r.end, r.cause = time.Now(), cause
}

// terms are the candidates' terms up to now.
func (s *editedLock) terms() []reign {
	s.guard.Lock()
	defer s.guard.Unlock()
	var all []reign
	for _, r := range s.reigns {
		all = append(all, *r)
	}
	return all
}

// until waits until the condition holds, and returns how long that took.
func (s *editedLock) until(what string, so func() bool) time.Duration {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if so() {
			return time.Since(begun)
		}
		if time.Since(begun) > soon {
			s.t.Fatalf("%s did not come true: %s", what, s.state())
		}
	}
}

// state describes the current state, for people.
func (s *editedLock) state() string {
	var b strings.Builder
	for _, m := range s.members {
		now := m.Status()
		fmt.Fprintf(&b, "%s is %s, waits for %q, its problem is %v; ", m.pod.Name, now.State, now.Waiting, now.Problem)
	}
	r, cm := s.record()
	fmt.Fprintf(&b, "the ConfigMap is %s %+v, owners %v, annotations %v; ", r.Kind, shieldmap.StateOf(r), cm.OwnerReferences, cm.Annotations)
	if l := s.lease(); l != nil {
		fmt.Fprintf(&b, "the Lease is %v %v", l.Annotations, l.Spec)
	}
	return b.String()
}

// leader waits until exactly one candidate leads.
func (s *editedLock) leader() *member {
	s.t.Helper()
	var leader *member
	s.until("a leader", func() bool {
		leader = nil
		for _, m := range s.members {
			if m.Status().State == status.StateLeader {
				leader = m
			}
		}
		return leader != nil && s.works()
	})
	return leader
}

// works reports whether the work of a term is running. It begins a moment after the
// status says that a member leads.
func (s *editedLock) works() bool {
	return slices.ContainsFunc(s.terms(), func(r reign) bool { return r.end.IsZero() })
}

// record returns what is in the legacy lock's place.
func (s *editedLock) record() (ownerref.Record, *corev1.ConfigMap) {
	cm, err := s.client.CoreV1().ConfigMaps("default").Get(s.ctx, s.lock, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ownerref.Recognize(nil), &corev1.ConfigMap{}
	}
	must(s.t, err)
	return ownerref.Recognize(cm), cm
}

// lease returns the lock's Lease; nil if there is none.
func (s *editedLock) lease() *coordinationv1.Lease {
	l, err := s.client.CoordinationV1().Leases("default").Get(s.ctx, s.lock, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return l
}

// presenceOf returns a member's presence object.
func (s *editedLock) presenceOf(m *member) ownerref.Owner {
	s.t.Helper()
	list, err := s.client.CoordinationV1().Leases("default").List(s.ctx, metav1.ListOptions{})
	must(s.t, err)
	for _, o := range presence.Among(list.Items, s.lock) {
		if o.Pod.UID == m.pod.UID {
			return ownerref.Owner{Name: o.Name, UID: o.UID}
		}
	}
	return ownerref.Owner{}
}

// present reports whether the presences of all members that still run own the
// shield.
func (s *editedLock) present(r ownerref.Record) bool {
	for _, m := range s.members {
		select {
		case <-m.over:
		default:
			if p := s.presenceOf(m); p.UID == "" || !r.Has(p) {
				return false
			}
		}
	}
	return true
}

func (s *editedLock) deleteConfigMap() {
	s.deleteNow(s.client.CoreV1().ConfigMaps("default").Delete, s.lock)
}

func (s *editedLock) deleteLease(name string) {
	s.deleteNow(s.client.CoordinationV1().Leases("default").Delete, name)
}

// deleteNow deletes an object by its bare name, as a person would.
func (s *editedLock) deleteNow(remove deleter, name string) {
	s.t.Helper()
	must(s.t, remove(s.ctx, name, metav1.DeleteOptions{}))
}

// updateConfigMap changes the current ConfigMap, even if others write it
// meanwhile.
func (s *editedLock) updateConfigMap(change func(*corev1.ConfigMap)) {
	s.t.Helper()
	must(s.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		_, cm := s.record()
		change(cm)
		_, err := s.client.CoreV1().ConfigMaps("default").Update(s.ctx, cm, metav1.UpdateOptions{})
		return err
	}))
}

func (s *editedLock) patchConfigMap(patch string) {
	s.t.Helper()
	_, err := s.client.CoreV1().ConfigMaps("default").Patch(s.ctx, s.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.t, err)
}

func (s *editedLock) patchLease(patch string) {
	s.t.Helper()
	_, err := s.client.CoordinationV1().Leases("default").Patch(s.ctx, s.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.t, err)
}

// deletePod deletes a pod by force.
func (s *editedLock) deletePod(name string) {
	s.t.Helper()
	zero := int64(0)
	must(s.t, s.client.CoreV1().Pods("default").Delete(s.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero}))
}

// overlaps are the times longer than most in which a candidate and another
// program led at the same time. The legacy programs' terms are known from their
// output.
func (s *editedLock) overlaps(most time.Duration, legacy ...reign) (all []history.Overlap) {
	var h history.History
	led := func(r reign, legacy bool) {
		if r.end.IsZero() {
			r.end = time.Now()
		}
		h = append(h, history.Span{Pod: r.who, Legacy: legacy, Start: r.start, End: r.end})
	}
	for _, r := range s.terms() {
		led(r, false)
	}
	for _, r := range legacy {
		led(r, true)
	}
	for _, seat := range s.seats {
		for _, e := range seat.Events() {
			if e.Event == "leading" {
				led(reign{who: seat.Identity, start: e.Time, end: s.ended[seat]}, true)
			}
		}
	}
	for _, o := range h.Overlaps() {
		if o.Ours() && o.Length() > most {
			all = append(all, o)
		}
	}
	return all
}

// neverTwo fails if two led at the same time.
func (s *editedLock) neverTwo() {
	s.t.Helper()
	for _, o := range s.overlaps(0) {
		s.t.Error(o)
	}
}

// cable is where a candidate's requests pass. It counts them. Once it is cut,
// nothing passes, not even on open connections.
type cable struct {
	next http.RoundTripper

	mu    sync.Mutex
	isCut bool
	sent  map[string]int
}

func (c *cable) around(next http.RoundTripper) http.RoundTripper {
	c.next = next
	return c
}

func (c *cable) cut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = cut
}

func (c *cable) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isCut
}

// counts returns the requests so far, by method and path.
func (c *cable) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.sent)
}

// RoundTrip implements http.RoundTripper.
func (c *cable) RoundTrip(req *http.Request) (*http.Response, error) {
	method := req.Method
	if req.URL.Query().Has("watch") {
		method = "WATCH"
	}
	c.mu.Lock()
	if c.sent == nil {
		c.sent = map[string]int{}
	}
	c.sent[method+" "+req.URL.Path]++
	c.mu.Unlock()
	if c.silent() { // like a dial
		select {
		case <-req.Context().Done():
		case <-time.After(brisk.RenewInterval / 2):
		}
		return nil, errors.Join(errors.New("nobody answers"), req.Context().Err())
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &cableEnd{resp.Body, c, req.Context()}
	return resp, nil
}

// cableEnd is the body of an answer.
type cableEnd struct {
	io.ReadCloser
	cable *cable
	ctx   context.Context
}

// Read withholds data until the cable is whole again.
func (b *cableEnd) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for err == nil && b.cable.silent() {
		select {
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return n, err
}

// isLegacy reports whether a term ended because the legacy side was lost.
func isLegacy(cause error) bool { return errors.Is(cause, shield.ErrLegacy) }

// start starts a legacy program in a new pod.
func (s *editedLock) start(zone, name string) *trial.Seat {
	s.t.Helper()
	return s.startAt(s.lock, zone, name)
}

// startAt is start with a ConfigMap whose name differs from the lock's.
func (s *editedLock) startAt(configMap, zone, name string) *trial.Seat {
	s.t.Helper()
	name = s.lock + "-" + name
	pod, err := s.Cluster.AddPod(s.ctx, zone, name, "default", map[string]string{"app": s.lock})
	must(s.t, err)
	seat, err := trial.Start(s.ctx, s.Testbed, trial.Legacy, zone, configMap, name, "--variant", s.variant, "--pod-uid", string(pod.UID))
	must(s.t, err)
	s.seats = append(s.seats, seat)
	s.await(s.t, seat, "started")
	return seat
}

// end kills a legacy program and deletes its pod, and returns the time when it
// was gone.
func (s *editedLock) end(seat *trial.Seat) time.Time {
	s.t.Helper()
	s.ended[seat] = s.kill(s.t, seat)
	s.deletePod(seat.Identity)
	return time.Now()
}

// phase changes the phase on the Lease.
func (s *editedLock) phase(phase string) {
	s.t.Helper()
	s.changes++
	s.patchLease(fmt.Sprintf(`{"metadata":{"annotations":{"zonelect.dev/phase":%q,"zonelect.dev/phase-step":"%d"}}}`, phase, s.changes+1))
}
