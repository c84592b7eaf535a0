// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/transport/live"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// refusal is an error in the API's answer.
type refusal int

func (r refusal) Error() string { return http.StatusText(int(r)) }

// wire is the way of one process to the API servers: an http.RoundTripper that
// fails like a lock in memory. Each request takes a few milliseconds each way,
// so that those of different processes arrive in any order. Its requests stay
// with one server until it connects again, and so do its watches.
type wire struct {
	fronts []*apitest.Front
	by     *process
	sees   string // the path of a ConfigMap whose last answer is kept

	mu     sync.Mutex
	dice   *rand.Rand
	conns  [2]conn // for requests, and for watches
	fault  lockstest.Fault
	change chan struct{} // closed when fault changes
	muted  chan struct{} // closed when the running watches fall silent
	broken chan struct{} // closed when they break
}

// conn is a connection to a server.
type conn struct {
	to    *apitest.Front
	alive time.Time // when that has answered last
}

func newWire(by *process) *wire {
	w := &wire{
		fronts: by.world.fronts.all, by: by,
		dice:   rand.New(rand.NewPCG(by.world.seed, uint64(by.started.UnixNano())+uint64(by.seat))),
		change: make(chan struct{}), muted: make(chan struct{}), broken: make(chan struct{}),
	}
	w.connect()
	return w
}

// connect moves to any of the servers, or stays. The caller holds mu.
func (w *wire) connect() {
	for i := range w.conns {
		w.conns[i].renew(w)
	}
}

func (c *conn) renew(w *wire) { *c = conn{w.fronts[w.dice.IntN(len(w.fronts))], time.Now()} }

// serverFor returns the server that a request goes to. Now and then a server sends a watch that
// begins away, as one with --goaway-chance does.
func (w *wire) serverFor(r *http.Request) *apitest.Front {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, away := &w.conns[0], false
	if isWatch(r) {
		c, away = &w.conns[1], w.dice.IntN(3) == 0
	}
	if since, wants := live.Wanted(r.Context()); away || wants && since.After(c.alive) {
		c.renew(w)
	}
	return c.to
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

// answered notes that the server has answered a request.
func (w *wire) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[0].alive = time.Now()
}

// Set changes how the wire fails from now on.
func (w *wire) Set(f lockstest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
	close(w.change)
	w.change = make(chan struct{})
	if f.Hang || f.Late || f.Mute {
		close(w.muted)
		w.muted = make(chan struct{})
	}
	if f.Hang || f.Late {
		w.connect()
	}
	if f.Err != nil {
		w.endWatches()
	}
}

// reset breaks all watches, including those that are silent or not yet
// answered.
func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endWatches()
}

// endWatches breaks all connections. The caller holds mu.
func (w *wire) endWatches() {
	close(w.broken)
	w.broken = make(chan struct{})
	w.connect()
}

// now returns how it fails, and how long a request takes one way.
func (w *wire) now() (f lockstest.Fault, change <-chan struct{}, way time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault, w.change, w.fault.Delay + time.Duration(w.dice.Int64N(int64(5*time.Millisecond)))
}

// sender is the key of the process that makes a request.
type sender struct{}

func senderOf(r *http.Request) *process {
	if r == nil {
		return nil
	}
	p, _ := r.Context().Value(sender{}).(*process)
	return p
}

// late is the key of requests that arrive when their process goes on.
type late struct{}

func isLate(r *http.Request) bool { return r.Context().Value(late{}) != nil }

// RoundTrip sends a request.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := context.WithValue(r.Context(), sender{}, w.by)
	if w.by.gate.pass() {
		ctx = context.WithValue(ctx, late{}, true)
	}
	defer w.by.gate.pass()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body) // reading from memory cannot fail
		_ = r.Body.Close()
	}
	request := func(ctx context.Context) *http.Request {
		r := r.Clone(ctx)
		r.Body = io.NopCloser(bytes.NewReader(body))
		return r
	}
	front := w.serverFor(r)
	f, change, way := w.now()
	if f.Unstored && w.by.ours && r.Method == http.MethodPut { // client-go takes that for a renewal
		r = r.Clone(r.Context())
		r.URL.RawQuery = "dryRun=All"
	}
	if f.Late && r.Method != http.MethodGet {
		go func() {
			<-change
			front.ServeHTTP(httptest.NewRecorder(), request(context.WithValue(context.WithoutCancel(ctx), late{}, true)))
		}()
	}
	if isWatch(r) {
		return w.watch(front, request(ctx), f, way)
	}
	if err := suffer(ctx, f, way); err != nil {
		return w.failed(r, err)
	}
	answer := httptest.NewRecorder()
	front.ServeHTTP(answer, request(ctx))
	w.note(r, answer)
	f, _, way = w.now()
	if f.LoseAnswers && (f.Mute || r.Method != http.MethodGet) {
		f.Hang = true
	}
	if err := suffer(ctx, f, way); err != nil {
		return w.failed(r, err)
	}
	w.answered()
	resp := answer.Result()
	resp.Request = r
	return resp, nil
}

// note keeps what an answer says about the object at sees.
func (w *wire) note(r *http.Request, answer *httptest.ResponseRecorder) {
	created := r.Method == http.MethodPost && r.URL.Path+"/lock" == w.sees
	if w.sees == "" || r.URL.Path != w.sees && !created {
		return
	}
	var o apitest.Object
	switch {
	case answer.Code == http.StatusNotFound || r.Method == http.MethodDelete:
	case answer.Code > http.StatusCreated:
		return
	default:
		must(json.Unmarshal(answer.Body.Bytes(), &o))
	}
	saw := &sight{time.Now(), shieldOf(o)}
	w.by.view.Store(saw)
	if saw.record.Armed {
		w.by.armed.Store(saw)
	}
}

// suffer delays or fails one direction of a request.
func suffer(ctx context.Context, f lockstest.Fault, way time.Duration) error {
	if f.Err != nil {
		return f.Err
	}
	if f.Hang || f.Late {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	timer := time.NewTimer(way)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failed returns an error, or the API's answer with that error.
func (w *wire) failed(r *http.Request, err error) (*http.Response, error) {
	var code refusal
	if !errors.As(err, &code) {
		return nil, err
	}
	answer := httptest.NewRecorder()
	apitest.Reply(answer, int(code), apitest.Status(int(code), "", code.Error(), "", ""))
	resp := answer.Result()
	resp.Request = r
	return resp, nil
}

// watch opens a watch.
func (w *wire) watch(front *apitest.Front, r *http.Request, f lockstest.Fault, way time.Duration) (*http.Response, error) {
	w.mu.Lock()
	muted, broken := w.muted, w.broken
	if f.Mute {
		muted = make(chan struct{})
		close(muted)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithCancelCause(r.Context())
	go func() {
		select {
		case <-broken:
			cancel(errBroken)
		case <-ctx.Done():
		}
	}()
	if err := suffer(ctx, f, way); err != nil {
		cancel(nil)
		return w.failed(r, err)
	}
	resp, err := apitest.Transport(front).RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &stream{resp.Body, ctx, func() { cancel(nil) }, muted, w.by.gate}
	return resp, nil
}

var errBroken = errors.New("connection reset by peer")

// stream is the answer to a watch.
type stream struct {
	io.ReadCloser
	ctx    context.Context
	cancel func()
	muted  <-chan struct{}
	gate   *gate
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.gate.pass()
	select {
	case <-s.muted:
		<-s.ctx.Done()
		return 0, context.Cause(s.ctx)
	default:
		return n, err
	}
}

func (s *stream) Close() error {
	s.cancel()
	return s.ReadCloser.Close()
}

// config returns how a client gets to the server.
func (w *wire) config(timeout time.Duration) (*rest.Config, *http.Client) {
	return &rest.Config{Host: "http://apiserver.test", ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		&http.Client{Transport: w, Timeout: timeout}
}

// client returns one for a group and version, as candidates have.
func (w *wire) client(gv schema.GroupVersion) rest.Interface {
	cfg, client := w.config(0)
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.GroupVersion, cfg.NegotiatedSerializer = &gv, scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientForConfigAndClient(cfg, client)
	must(err)
	return c
}

// clientset returns one for all, as other programs have.
func (w *wire) clientset(timeout time.Duration) kubernetes.Interface {
	c, err := kubernetes.NewForConfigAndClient(w.config(timeout))
	must(err)
	return c
}
