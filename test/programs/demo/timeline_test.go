// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestATakeoverThatWasOnlySeenFromOutsideIsDrawn(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	x := &team{kind: trial.ClientGo, name: "client-go", end: at(25)}
	for _, zone := range zones[:2] {
		x.seats = append(x.seats, &trial.Seat{Identity: "peer-" + zone, Zone: zone})
	}
	h, err := (&demo{teams: []*team{x}, start: start, cut: at(10)}).recorded(at(80))
	if err != nil || len(h.Failovers) != 0 || timeline.Render(io.Discard, h) != nil {
		t.Fatalf("%+v, %v", h, err)
	}
	f, err := x.failover([]timeline.Term{{Lane: "peer-za", From: at(1)}, {Lane: "peer-zb", From: at(69)}}, at(10))
	if err != nil || len(f) != 1 || f[0].Lane != "peer-zb" || len(f[0].Phases) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	if silence, idle := f[0].Phases[0], f[0].Phases[1]; !silence.From.Equal(at(10)) || !silence.To.Equal(at(25)) || !idle.To.Equal(at(69)) {
		t.Errorf("%+v", f[0].Phases)
	}
}
