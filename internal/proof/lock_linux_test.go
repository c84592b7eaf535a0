// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"crypto/rand"
	"testing"
	"time"
)

// began is after the start of this process.
var began = time.Now()

func TestASeatIsTakenOnce(t *testing.T) {
	lock := rand.Text()
	socket, taken := takeLock(lock)
	if !taken || socket == "" {
		t.Fatalf("a free process lock %q is not taken", socket)
	}
	if again, taken := takeLock(lock); taken || again != socket {
		t.Errorf("taken again: %v, as %q", taken, again)
	}
	if other, taken := takeLock(lock + "2"); !taken || other == socket {
		t.Errorf("another process lock is free: %v, and is %q", taken, other)
	}
}

func TestASeatsNameFitsASocket(t *testing.T) {
	if n := len(lockName(rand.Text())); n > 107 {
		t.Errorf("it has %d bytes", n)
	}
}

func TestAProcessKnowsWhenItStarted(t *testing.T) {
	asked := time.Now()
	start, err := processStart()
	if err != nil {
		t.Fatal(err)
	}
	if start.After(began.Add(20*time.Millisecond+time.Since(asked))) || began.Sub(start) > time.Minute {
		t.Errorf("it started at %v, and ran at %v", start, began)
	}
}

func TestAnAgeIsReadFromProc(t *testing.T) {
	const stat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 7 0 12345 99 1"
	for _, test := range []struct {
		stat, uptime string
		want         time.Duration
		ok           bool
	}{
		{stat, "200.50 399.99\n", 200500*time.Millisecond - 123450*time.Millisecond, true},
		{stat, "123.45 1.00", 0, true},
		{stat, "100.00 1.00", 0, false}, // from another machine
		{stat, "", 0, false},
		{"4711 (a) S 1", "200.50 1.00", 0, false},
		{"", "200.50 1.00", 0, false},
		{"1 (a) S 1 1 1 0 -1 1 1 2 3 4 5 6 7 8 20 0 7 0 x", "200.50 1.00", 0, false},
	} {
		if got, err := ageOf(test.stat, test.uptime); got != test.want || (err == nil) != test.ok {
			t.Errorf("%q and %q: %v, %v", test.stat, test.uptime, got, err)
		}
	}
}
