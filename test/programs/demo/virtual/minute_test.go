// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtual_test plays a minute of an election in virtual time and draws it. It is what
// newcomers look at while the demo and its control plane are built, so it is a package of its own
// that is built soon: it needs no Kubernetes.
package virtual_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
	"github.com/zonelect/zonelect/test/kit/spans"
)

// lease is the LeaseDuration of all.
const lease = timing.DefaultLeaseDuration

var zones = []string{"za", "zb", "zc"}

// page is where TestAMinuteInVirtualTime draws what happened.
var page = flag.String("page", "", "file to write; empty means none")

// player is one candidate of the minute.
type player struct {
	*electiontest.Seat
	name, zone string
	link       *lockstest.Faulty
	traces     bytes.Buffer
}

// minute is what happens to three candidates in three zones.
type minute struct {
	t       *testing.T
	lock    *memory.Lock
	players []*player
	drawn   timeline.History
}

// enter starts a candidate of a zone.
func (m *minute) enter(s *electiontest.Stage, zone string, known []locks.Peer) *player {
	p := &player{name: "op-" + zone, zone: zone, link: lockstest.NewFaulty(m.lock)}
	p.link.Set(lockstest.Fault{Delay: 2 * time.Millisecond})
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(&p.traces))
	if err != nil {
		m.t.Fatal(err)
	}
	p.Seat = s.Seat(election.Config{
		Lock: p.link, Candidate: locks.Candidate{Identity: p.name, Zone: zone},
		WatchPeers:     func(ctx context.Context, tell func([]locks.Peer)) { tell(known); <-ctx.Done() },
		TracerProvider: trace.NewTracerProvider(trace.WithSyncer(exporter)),
	})
	p.Start()
	m.players = append(m.players, p)
	m.drawn.Lanes = append(m.drawn.Lanes, timeline.Lane{ID: p.name, Zone: zone, Group: "op"})
	return p
}

// leads waits for the next term of a candidate.
func (m *minute) leads(p *player) {
	m.t.Helper()
	term, _ := p.Leads()
	m.drawn.Terms = append(m.drawn.Terms, timeline.Term{Lane: p.name, From: time.Now(), Token: term.Token, Cause: string(term.Cause)})
}

// ended ends the last term.
func (m *minute) ended(why string) {
	last := &m.drawn.Terms[len(m.drawn.Terms)-1]
	last.To, last.Ended = time.Now(), why
}

// TestAMinuteInVirtualTime: an outage of the API costs no term, a loss of power costs a lease, and
// a handover milliseconds.
func TestAMinuteInVirtualTime(t *testing.T) {
	m := new(minute)
	electiontest.Scenario(t, func(s *electiontest.Stage) {
		t := s.T
		m.t, m.lock = t, memory.New("op")
		m.drawn.Title, m.drawn.Zones, m.drawn.Begin = "A minute in virtual time", zones, time.Now()
		var known []locks.Peer
		for _, zone := range zones {
			known = append(known, locks.Peer{Candidate: locks.Candidate{Identity: "op-" + zone, Zone: zone}})
		}
		a := m.enter(s, zones[0], known)
		m.leads(a)
		b, c := m.enter(s, zones[1], known), m.enter(s, zones[2], known)
		time.Sleep(5 * time.Second)

		m.everywhere(lockstest.Fault{Hang: true})
		out := time.Now()
		time.Sleep(6 * time.Second)
		m.everywhere(lockstest.Fault{Delay: 2 * time.Millisecond})
		m.drawn.Faults = append(m.drawn.Faults, timeline.Fault{Kind: timeline.API, From: out, To: time.Now(), Text: "no API server answers"})
		time.Sleep(6 * time.Second)

		a.link.Set(lockstest.Fault{Hang: true})
		m.ended("power loss")
		cut := time.Now()
		m.drawn.Faults = append(m.drawn.Faults, timeline.Fault{Kind: timeline.Power, Zone: a.zone, From: cut, Text: "zone " + a.zone + " loses power"})
		left, err := m.lock.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.leads(b)
		if gap := time.Since(cut); gap > lease+time.Second {
			t.Errorf("nobody led for %v", gap)
		}
		m.drawn.Expiries = append(m.drawn.Expiries, timeline.Expiry{Lane: a.name, At: left.Record.RenewTime.Add(left.Record.LeaseDuration)})
		time.Sleep(8 * time.Second)

		asked := time.Now()
		m.drawn.Notes = append(m.drawn.Notes, timeline.Note{Lane: b.name, At: asked, Text: "asked to hand over to " + c.name})
		if err := b.HandOver(t.Context(), locks.Successor{Identity: c.name}); err != nil {
			t.Fatal(err)
		}
		m.ended("handover")
		m.leads(c)
		if gap := time.Since(asked); gap > 100*time.Millisecond {
			t.Errorf("the handover took %v", gap)
		}
		time.Sleep(8 * time.Second)
		m.drawn.End = time.Now()
		if len(m.drawn.Terms) != 3 || m.drawn.Terms[0].To != cut {
			t.Errorf("%+v", m.drawn.Terms)
		}
	})
	m.t = t
	m.draw()
}

// everywhere sets the same fault for all candidates.
func (m *minute) everywhere(f lockstest.Fault) {
	for _, p := range m.players {
		p.link.Set(f)
	}
}

// draw writes the page, with the phases of each takeover.
func (m *minute) draw() {
	for i, term := range m.drawn.Terms[1:] {
		p := m.players[i+1]
		file := filepath.Join(m.t.TempDir(), "traces")
		if err := os.WriteFile(file, p.traces.Bytes(), 0o600); err != nil {
			m.t.Fatal(err)
		}
		span, err := spans.LastFailover(file)
		if err != nil {
			m.t.Fatal(err)
		}
		m.drawn.Failovers = append(m.drawn.Failovers, timeline.Failover{
			Lane: term.Lane, Previous: m.drawn.Terms[i].Lane, Cause: term.Cause, Token: term.Token, Phases: span.Drawn(),
		})
	}
	var text bytes.Buffer
	if err := timeline.Render(&text, m.drawn); err != nil {
		m.t.Fatal(err)
	}
	if *page != "" {
		if err := os.WriteFile(*page, text.Bytes(), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
}
