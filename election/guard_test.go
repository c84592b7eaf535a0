// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// server answers requests after a delay, unless they are cut off before. The body of the
// answer comes after another such delay.
type server struct {
	delay time.Duration
	sent  atomic.Int64
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent.Add(1)
	if err := s.wait(req.Context()); err != nil {
		return nil, err
	}
	body, end := io.Pipe()
	go func() { _ = end.CloseWithError(s.wait(req.Context())) }()
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}

func (s *server) wait(ctx context.Context) error {
	select {
	case <-time.After(s.delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

func write(ctx context.Context) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, "https://server/thing", &closable{Reader: strings.NewReader("{}")})
	if err != nil {
		panic(err)
	}
	return req
}

// try sends a request and reads its answer.
func try(rt http.RoundTripper, req *http.Request) error {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.ReadAll(resp.Body)
	return err
}

func TestS12AGuardRefusesWritesOnceTheTermIsNotTrusted(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.candidate("a")
		asleep := suspends(a)
		a.Start()
		term, _ := a.Leads()
		var server server
		if err := try(election.Term{}.Guard(&server), write(s.T.Context())); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("a write without a term: %v", err)
		}
		rt := term.Guard(&server)
		if err := try(rt, write(s.T.Context())); err != nil {
			t.Errorf("a write while the term is trusted: %v", err)
		}
		asleep(deadline) // no timer has run yet
		req := write(s.T.Context())
		err := try(rt, req)
		want := fmt.Sprintf("not sent: %v: token %d on %v", election.ErrUntrusted, term.Token, term.Lock)
		if !errors.Is(err, election.ErrUntrusted) || err.Error() != want {
			t.Errorf("after a suspension: %v", err)
		}
		if !req.Body.(*closable).closed {
			t.Errorf("the body of a refused write is not closed")
		}
		read, _ := http.NewRequestWithContext(s.T.Context(), http.MethodGet, "https://server/thing", nil)
		if err := try(rt, read); err != nil {
			t.Errorf("a read: %v", err)
		}
		upgrades := []*http.Request{read}
		for _, of := range []string{"exec", "attach", "portforward"} {
			bare := read.Clone(s.T.Context())
			bare.URL.Path = "/api/v1/namespaces/ns/pods/p/" + of // client-go's executors set the header later
			upgrades = append(upgrades, bare)
		}
		read.Header.Set("Upgrade", "websocket")
		for _, upgrade := range upgrades {
			if err := try(rt, upgrade); !errors.Is(err, election.ErrUntrusted) {
				t.Errorf("an upgrade to %s: %v", upgrade.URL.Path, err)
			}
		}
		if sent := server.sent.Load(); sent != 2 {
			t.Errorf("%d requests were sent, want 2", sent)
		}
		asleep(0)
	})
}

func TestS12AWriteThatIsOnItsWayIsCutOffAtTheTermsEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration // of the answer, and again of its body
	}{{"before the answer", time.Hour}, {"within the answer", deadline - time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				a := s.start("a")
				term, _ := a.Leads()
				a.link.Set(cut)
				ended := make(chan error, 1)
				go func() { ended <- try(term.Guard(&server{delay: c.delay}), write(s.T.Context())) }()
				a.Loses()
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, election.ErrUntrusted) || !strings.Contains(err.Error(), "may have been done") {
						t.Errorf("the write: %v", err)
					}
				default:
					t.Error("the write goes on after the end of the term")
				}
			})
		})
	}
}

// upgrade answers that a connection is upgraded: to its body, or one that it keeps.
type upgrade struct {
	body io.ReadCloser
	ctx  context.Context // of the request
}

func (u *upgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	u.ctx = req.Context()
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: u.body}, nil
}

// TestS12AnUpgradedConnectionIsCutOffAtTheTermsEnd, and nothing is kept of one that was closed, or that
// somebody below the guard keeps.
func TestS12AnUpgradedConnectionIsCutOffAtTheTermsEnd(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		term, _ := a.Leads()
		begin := func(body io.ReadCloser) (*upgrade, io.ReadCloser) {
			u := &upgrade{body: body}
			resp, err := term.Guard(u).RoundTrip(write(s.T.Context()))
			must(t, err)
			return u, resp.Body
		}
		if kept, _ := begin(http.NoBody); kept.ctx.Err() == nil {
			t.Error("the guard keeps what it cannot cut off")
		}
		here, there := net.Pipe()
		closed, body := begin(here)
		go func() { _, _ = body.(io.Writer).Write([]byte("a")) }()
		if n, err := there.Read(make([]byte, 1)); n != 1 {
			t.Errorf("nothing is written: %v", err)
		}
		if _ = body.Close(); closed.ctx.Err() == nil {
			t.Error("the guard keeps a connection that was closed")
		}
		here, there = net.Pipe()
		late := time.Now().Add(time.Hour)
		must(t, errors.Join(here.SetDeadline(late), there.SetDeadline(late)))
		_, body = begin(here)
		a.link.Set(cut)
		a.Loses()
		if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("after the term the connection ends with: %v", err)
		}
		if _, err := body.(io.Writer).Write([]byte("a")); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("a write after the term: %v", err)
		}
	})
}

func TestAStopInGoodOrderLetsTheWorkFinishItsWrites(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		term, _ := a.Leads()
		a.SetStopTime(2 * deadline)
		a.Stop()
		rt := term.Guard(&server{})
		for range 19 {
			time.Sleep(time.Second)
			if err := try(rt, write(s.T.Context())); err != nil {
				t.Errorf("a write while the work stops: %v", err)
			}
		}
		s.ends(a)
		if err := try(rt, write(s.T.Context())); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("a write after the work has returned: %v", err)
		}
	})
}

func TestAWriteBelongsToTheTermThatItsContextCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := election.New(election.Config{Lock: memory.New("lock"), Candidate: locks.Candidate{Identity: "a"}})
		must(t, err)
		var terms []context.Context
		for range 2 {
			err := e.Run(t.Context(), func(ctx context.Context, term election.Term) error {
				terms = append(terms, context.WithoutCancel(ctx))
				if err := try(term.Guard(&server{}), write(terms[0])); errors.Is(err, election.ErrUntrusted) != (len(terms) == 2) {
					t.Errorf("a write of term 1 in term %d: %v", len(terms), err)
				}
				return try(election.Term{}.Guard(&server{}), write(ctx))
			})
			if err != nil {
				t.Errorf("a write of the current term: %v", err)
			}
		}
	})
}
