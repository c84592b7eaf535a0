// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// polled is a sidecar that leads in a bubble, for a program that polls.
type polled struct {
	t    *testing.T
	b    *board
	e    *election.Elector
	lock *memory.Lock
	link *lockstest.Faulty // to the lock
	stop context.CancelFunc
	over chan error
}

func inBubble(t *testing.T, do func(p *polled)) {
	synctest.Test(t, func(t *testing.T) {
		p := &polled{t: t, lock: memory.New("l"), over: make(chan error, 1)}
		p.link = lockstest.NewFaulty(p.lock)
		var err error
		timing := election.Timing{}.WithDefaults()
		p.b = newBoard(timing)
		health := election.Health{Check: p.b.check, Interval: p.b.pause / 2}
		if p.e, err = election.New(election.Config{Lock: p.link, Candidate: locks.Candidate{Identity: "me"}, Health: health}); err != nil {
			t.Fatal(err)
		}
		p.b.resign = p.e.Resign
		if code, _ := p.ask("GET", "/leader"); code != http.StatusServiceUnavailable {
			t.Errorf("before it leads: %d", code)
		}
		var ctx context.Context
		ctx, p.stop = context.WithCancel(t.Context())
		go func() { p.over <- p.e.Run(ctx, p.b.during(lead)) }()
		for p.e.Term().TrustedFor() <= 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		do(p)
		p.stop()
		must(t, <-p.over)
		if code, _ := p.ask("GET", "/leader"); code != http.StatusServiceUnavailable {
			t.Errorf("when it leads no more: %d", code)
		}
	})
}

func (p *polled) ask(method, path string) (int, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	trusted := func() string { return fmt.Sprint(p.e.Term().TrustedFor().Milliseconds()) }
	before := trusted() // a renewal may be acknowledged meanwhile
	p.b.handler().ServeHTTP(w, r)
	said := w.Header().Get("Zonelect-Trusted-Milliseconds")
	if w.Code == http.StatusOK && method == "GET" && said != before && said != trusted() {
		p.t.Errorf("it may work for %q ms, want %s", said, before)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

func (p *polled) holder() string {
	s, err := p.lock.Read(p.t.Context())
	if err != nil {
		p.t.Error(err)
	}
	return s.Record.Holder
}

// released waits until the lock is released, and returns how long that took.
func (p *polled) released() time.Duration {
	begun := time.Now()
	for p.holder() != "" {
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// TestTheLockIsHeldForTheTimeThatAProgramMayWorkOn, unless it says that it has stopped, or was told nothing.
func TestTheLockIsHeldForTheTimeThatAProgramMayWorkOn(t *testing.T) {
	for name, asks := range map[string]bool{"works on": true, "stops": true, "asks nothing": false} {
		inBubble(t, func(p *polled) {
			token, want := "", time.Duration(0)
			if asks {
				_, token = p.ask("GET", "/leader")
			}
			p.stop()
			synctest.Wait()
			switch name {
			case "works on":
				want = 4 * election.Timing{}.WithDefaults().StopGrace / 5
				if code, _ := p.ask("GET", "/leader"); code != http.StatusServiceUnavailable {
					t.Errorf("while it stops: %d", code)
				}
			case "stops":
				if code, body := p.ask("POST", "/stopped?token="+token); code != http.StatusOK {
					t.Errorf("%d %s", code, body)
				}
			}
			if took := p.released(); took < want || took > want+time.Millisecond {
				t.Errorf("the program %s: released after %v, want %v", name, took, want)
			}
		})
	}
}

// TestNoProgramIsToldToLeadOnceOneHasStopped: the lock is about to be released, and waits for nobody.
func TestNoProgramIsToldToLeadOnceOneHasStopped(t *testing.T) {
	inBubble(t, func(p *polled) {
		if unwanted, err := p.b.stopped(p.e.Term().Token); !unwanted || err != nil {
			t.Errorf("the term is to end: %v, %v", unwanted, err)
		}
		if code, token := p.ask("GET", "/leader"); code != http.StatusServiceUnavailable {
			t.Errorf("before it has ended: %d %s", code, token)
		}
	})
}

// TestAProgramThatWasToldIsWaitedForThoughAnotherWasNot: after a suspension a term may have no trust and not be over.
func TestAProgramThatWasToldIsWaitedForThoughAnotherWasNot(t *testing.T) {
	b := newBoard(election.Timing{}.WithDefaults())
	b.now = &told{ctx: t.Context(), any: true}
	if b.leading(); !b.now.any {
		t.Error("nobody is waited for")
	}
}

// TestATermIsOverOnceTheCommandHasEnded: no program is told that it leads, and none has to end it.
func TestATermIsOverOnceTheCommandHasEnded(t *testing.T) {
	b := newBoard(election.Timing{})
	b.now = &told{ctx: t.Context(), settle: func() {}}
	b.end(b.now)
	if unwanted, err := b.stopped(b.now.Token); !b.now.over || unwanted || err != nil {
		t.Errorf("%+v, %v", b.now, err)
	}
}

func TestOnlyTheTermThatIsNamedHasStopped(t *testing.T) {
	inBubble(t, func(p *polled) {
		bad, conflict := http.StatusBadRequest, http.StatusConflict
		for query, want := range map[string]int{"": bad, "?token=x": bad, "?token=99999": conflict} {
			if code, body := p.ask("POST", "/stopped"+query); code != want {
				t.Errorf("%q: %d %s, want %d", query, code, body, want)
			}
		}
		if code, _ := p.ask("GET", "/leader"); code != http.StatusOK {
			t.Errorf("then: %d", code)
		}
		if code, _ := p.ask("GET", "/stopped?token=1"); code != http.StatusMethodNotAllowed {
			t.Errorf("GET /stopped: %d", code)
		}
	})
}

// TestALeaderWithoutTrustTellsNobody: and it does not lead again before the program that was
// told has had its time.
func TestALeaderWithoutTrustTellsNobody(t *testing.T) {
	inBubble(t, func(p *polled) {
		_, first := p.ask("GET", "/leader")
		p.link.Set(lockstest.Fault{Hang: true})
		for p.e.Term().TrustedFor() > 0 {
			if code, _ := p.ask("GET", "/leader"); code != http.StatusOK {
				t.Errorf("while it is trusted: %d", code)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		ended := time.Now()
		if code, _ := p.ask("GET", "/leader"); code != http.StatusServiceUnavailable {
			t.Errorf("without trust: %d", code)
		}
		p.link.Set(lockstest.Fault{})
		for {
			if code, token := p.ask("GET", "/leader"); code == http.StatusOK {
				if token == first {
					t.Errorf("the term of token %s is back", token)
				}
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(ended); took < p.b.grace-100*time.Millisecond {
			t.Errorf("it leads again after %v, and a program may work for %v", took, p.b.grace)
		}
		if p.e.Status().Overrun {
			t.Error("the wait for the program was too long")
		}
	})
}

func TestAReplicaWhoseProgramDoesNotAskIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(election.Timing{}.WithDefaults())
		for _, step := range []struct {
			wait    time.Duration
			asks    bool
			healthy bool
		}{
			{15 * time.Second, false, true}, {time.Second, false, false}, {0, true, true},
			{15 * time.Second, false, true}, {time.Second, false, false},
		} {
			if time.Sleep(step.wait); step.asks {
				b.leading()
			}
			if err := b.check(t.Context()); (err == nil) != step.healthy {
				t.Errorf("%+v: %v", step, err)
			}
		}
	})
}

// TestAfterStoppedNobodyCampaignsUntilAProgramAsks, whether the program ended the term or answered its
// end. A program that asks on is back in the race before anything is taken from it.
func TestAfterStoppedNobodyCampaignsUntilAProgramAsks(t *testing.T) {
	for name, end := range map[string]func(*polled){
		"the program ends the term": func(*polled) {},
		"the term ends first": func(p *polled) {
			go func() { _ = p.e.Resign(context.Background()) }()
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p *polled) {
				p.ask("GET", "/leader")
				end(p)
				stopped := fmt.Sprint("/stopped?token=", p.e.Term().Token)
				if code, body := p.ask("POST", stopped); code != http.StatusOK {
					t.Errorf("%d %s", code, body)
				}
				for range 100_000 {
					if time.Sleep(10 * time.Millisecond); p.holder() != "" {
						t.Fatal("it leads again, and nobody has asked")
					}
				}
				p.ask("GET", "/leader")
				time.Sleep(time.Second)
				synctest.Wait()
				code, token := p.ask("GET", "/leader")
				if code != http.StatusOK {
					t.Errorf("a second after a program has asked: %d %s", code, token)
				}
				p.ask("POST", "/stopped?token="+token)
				for range 10 {
					time.Sleep(time.Second)
					p.ask("GET", "/leader")
				}
				if code, _ := p.ask("GET", "/leader"); code != http.StatusOK {
					t.Errorf("a program that has asked on: %d", code)
				}
			})
		})
	}
}
