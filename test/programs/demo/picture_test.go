// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/trial"
)

func TestATakeoverThatWasOnlySeenFromOutsideIsDrawn(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	x := &team{kind: trial.ClientGo, name: "client-go", end: at(25)}
	for _, zone := range zones[:2] {
		x.seats = append(x.seats, &trial.Seat{Identity: "peer-" + zone, Zone: zone})
	}
	d := &demo{teams: []*team{x}, start: start, cut: at(10), results: []result{{name: x.name, nextLeader: "peer-zb", after: 59 * time.Second}}}
	drawn := d.draw(at(80))
	for _, want := range []string{"peer-za", "election.silence, 15.000 s", "nobody leads, 44.000 s"} {
		if !bytes.Contains(drawn, []byte(want)) {
			t.Errorf("it lacks %q: %s", want, drawn)
		}
	}
	var err error
	for decoder := xml.NewDecoder(bytes.NewReader(drawn)); err == nil; {
		_, err = decoder.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
