// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

func quiet() logr.Logger { return logr.Discard() }

// node is a node that a test labels, and that fails or not.
type node struct {
	mu    sync.Mutex
	zone  string
	err   error
	asked int
}

func (n *node) look() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return n.zone, n.err
}

func (n *node) is(zone string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.zone, n.err = zone, err
}

func (n *node) questions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// watching runs watchZone in a bubble, and returns what it has told so far.
func watching(t *testing.T, known string, n *node) (told func() []string) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var mu sync.Mutex
	var zones []string
	go watchZone(ctx, known, n.look, func(z string) {
		mu.Lock()
		defer mu.Unlock()
		zones = append(zones, z)
	})
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(zones)
	}
}

func TestAZoneIsKnownWithinThirtySecondsOfBeingKnowable(t *testing.T) {
	for range 20 {
		for _, after := range []time.Duration{0, 7 * time.Second, time.Minute, 9*time.Minute + 30*time.Second} {
			synctest.Test(t, func(t *testing.T) {
				n := &node{err: errors.New("forbidden")}
				told := watching(t, "", n)
				time.Sleep(after)
				n.is("z1", nil)
				time.Sleep(30*time.Second - laterPatience)
				if got := told(); !slices.Equal(got, []string{"z1"}) {
					t.Errorf("%q is told of a zone that can be known after %v", got, after)
				}
			})
		}
	}
}

// TestAZoneThatNobodyTellsIsAskedForSeldom: 500 candidates would ask twice a second.
func TestAZoneThatNobodyTellsIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{err: errors.New("forbidden")}
		told := watching(t, "", n)
		time.Sleep(time.Hour)
		told()
		first := n.questions()
		time.Sleep(10 * time.Hour)
		told()
		if perHour := (n.questions() - first) / 10; perHour < 10 || perHour > 15 {
			t.Errorf("it asks %d times an hour", perHour)
		}
		if first > 75 {
			t.Errorf("it asked %d times in the first hour", first)
		}
		n.is("z1", nil)
		time.Sleep(zoneLater * 12 / 10)
		if got := told(); !slices.Equal(got, []string{"z1"}) {
			t.Errorf("told %q", got)
		}
	})
}

func TestAZoneThatChangesIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{zone: "z1"}
		told := watching(t, "z1", n)
		time.Sleep(10 * time.Hour)
		if got := told(); len(got) > 0 || n.questions() < 15 || n.questions() > 25 {
			t.Errorf("told %q after %d questions", got, n.questions())
		}
		n.is("", errors.New("the label is gone"))
		time.Sleep(time.Hour)
		n.is("z2", nil)
		time.Sleep(time.Hour)
		if got := told(); !slices.Equal(got, []string{"z2"}) {
			t.Errorf("told %q", got)
		}
	})
}

func TestAZoneIsNotWatchedWhereNothingCanChangeIt(t *testing.T) {
	for name, self := range map[string]Self{
		"said by the program":     {Node: "n", Zone: "z", Found: Found{Zone: FromOption}},
		"said by the environment": {Node: "n", Zone: "z", Found: Found{Zone: FromEnvironment}},
		"on no node":              {},
	} {
		(&Environment{Self: self}).WatchZone(t.Context(), func(z string) { t.Errorf("%s: told %q", name, z) })
	}
}
