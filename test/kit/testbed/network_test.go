// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait for something that must come.
const patience = 60 * time.Second

// bench is a network without a control plane. It has an echo server in place of
// each zone's apiserver.
type bench struct {
	t        *testing.T
	network  fabric
	launcher *launcher
	dir      string
	servers  map[string]*helper
	state    state
}

// helper is a program that runs in a zone of a bench.
type helper struct {
	t      *testing.T
	task   *task
	output *transcript
}

var benchZones = []string{"za", "zb", "zc"}

// onEachNetwork runs a test on both networks, as far as they are possible here.
func onEachNetwork(t *testing.T, test func(t *testing.T, kind NetworkKind)) {
	for _, kind := range []NetworkKind{Links, Namespaces} {
		t.Run(kind.String(), func(t *testing.T) {
			if err := NamespacesPossible(); kind == Namespaces && err != nil {
				t.Skip(err)
			}
			test(t, kind)
		})
	}
}

// newBench makes a bench on this network, in which everything passes.
func newBench(t *testing.T, kind NetworkKind) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes real time: make test-long runs it")
	}
	b := &bench{t: t, launcher: newLauncher(), dir: t.TempDir(), servers: map[string]*helper{}, state: newState()}
	var err error
	if kind == Namespaces {
		b.network, err = newNamespaces(t.Context(), benchZones)
	} else {
		b.network, err = newLinks(benchZones)
	}
	must(t, err)
	t.Cleanup(func() {
		b.launcher.close()
		must(t, b.network.close())
	})
	for _, zone := range benchZones {
		b.state.vip[zone] = benchZones
		server := b.start(zone, "serve", zone, b.network.site(zone).apiserver)
		server.hearsMore(0) // it listens
		b.servers[zone] = server
	}
	b.apply()
	return b
}

// apply brings the network into the bench's state.
func (b *bench) apply() {
	b.t.Helper()
	must(b.t, b.network.apply(b.t.Context(), b.state.clone()))
}

// start runs a helper in a zone until the test ends.
func (b *bench) start(zone, role string, args ...string) *helper {
	b.t.Helper()
	output := &transcript{}
	task, err := b.launcher.start(command{
		name: role, argv: b.network.inside(zone, append([]string{os.Args[0]}, args...)),
		env: []string{roleVariable + "=" + role}, stdout: output, stderr: filepath.Join(b.dir, role+".log"),
	})
	must(b.t, err)
	b.t.Cleanup(func() { must(b.t, task.kill(context.Background())) })
	return &helper{t: b.t, task: task, output: output}
}

// vip is the address of a zone's virtual IP.
func (b *bench) vip(zone string) string { return hostOf(b.t, b.network.vip(zone)) }

// hostOf returns the HOST:PORT of a URL.
func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Host
}

// dials connects count times through the virtual IP of a zone and returns the
// outcomes.
func (b *bench) dials(zone string, count string) []string {
	b.t.Helper()
	h := b.start(zone, "dial", b.vip(zone), count)
	<-h.task.done
	return h.output.all()
}

// hold has zone za keep a connection to another, or to itself.
func (b *bench) hold(backend string) *helper {
	b.t.Helper()
	b.state.vip["za"] = []string{backend}
	b.apply()
	teller := b.start("za", "tell", b.vip("za"))
	teller.hearsMore(1) // the greeting, and an answer
	return teller
}

// fallsSilent waits until a helper hears nothing any more, and returns how many lines it has heard.
func (h *helper) fallsSilent() int {
	h.t.Helper()
	before := 0
	eventually(h.t, "wait for silence", func(context.Context) error {
		before = h.heard()
		time.Sleep(silence)
		if h.heard() > before {
			return errors.New("it is answered")
		}
		return nil
	})
	return before
}

// breaks waits until a helper's connection is broken.
func (h *helper) breaks() {
	h.t.Helper()
	eventually(h.t, "wait for the end of a connection", func(context.Context) error {
		if !h.task.ended() {
			return errors.New("it stands")
		}
		return nil
	})
}

// kinds returns the sorted set of outcomes.
func kinds(outcomes []string) string {
	sorted := slices.Sorted(slices.Values(outcomes))
	return strings.Join(slices.Compact(sorted), " ")
}

func TestVIPSpreadsAndSteersNewConnectionsOnly(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		b := newBench(t, kind)
		if got := kinds(b.dials("za", "60")); got != "za zb zc" {
			t.Errorf("60 connections went to %q, want all three zones", got)
		}
		held := b.hold("zb")
		b.state.vip["za"] = []string{"zc"}
		b.apply()
		if got := kinds(b.dials("za", "20")); got != "zc" {
			t.Errorf("new connections went to %q, want zc", got)
		}
		// The held connection still goes to zb: it ends with zb's server.
		must(t, b.servers["zb"].task.kill(t.Context()))
		held.breaks()
	})
}

func TestCutIsSilent(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		b := newBench(t, kind)
		held := b.hold("zb")
		b.state.dark["zb"] = true
		b.apply()
		must(t, b.servers["zb"].task.kill(t.Context()))
		before := held.fallsSilent()
		if got := kinds(b.dials("za", "2")); got != "silent" {
			t.Errorf("new connections to a dead zone are %q, want silence", got)
		}
		if got := dialOnce(hostOf(t, b.network.observe("zb"))); got != "silent" {
			t.Errorf("the host hears %q from a dead zone, want silence", got)
		}
		b.state.vip["za"] = []string{"za", "zc"}
		b.apply()
		if got := kinds(b.dials("za", "40")); got != "za zc" {
			t.Errorf("without the dead backend connections went to %q", got)
		}
		if held.heard() > before || held.task.ended() {
			t.Error("the held connection was not silent all along")
		}
		b.state.dark["zb"] = false
		b.apply()
		held.breaks() // the zone that is back knows nothing of it
	})
}

// onTheirWay is how many lines the server may have received whose answers were in
// flight when the connection was cut. TCP lets ten and more arrive before it waits for
// an answer.
const onTheirWay = 5

// TestAPartitionCutsEachWayAndHeals: nothing breaks, and the others hear all.
func TestAPartitionCutsEachWayAndHeals(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		b := newBench(t, kind)
		server := b.servers["zb"]
		// The teller hears the greeting and answers, the server the lines.
		base := server.heard()
		teller := b.hold("zb")
		for _, lost := range []struct {
			way   pair
			heard bool // whether the teller's lines still arrive, without an answer
		}{{pair{"zb", "za"}, true}, {pair{"za", "zb"}, false}} {
			b.state.severed[lost.way] = true
			b.apply()
			// Meanwhile packets in flight arrive.
			if got := kinds(b.dials("za", "1")); got != "silent" {
				t.Errorf("with %v cut a new connection is %q, want silence", lost.way, got)
			}
			before := teller.heard()
			if got := server.heard() - base - (before - 1); got > onTheirWay != lost.heard {
				t.Errorf("with %v cut the server has heard %d lines that were not answered", lost.way, got)
			}
			if got := kinds(b.dials("zc", "40")); got != "za zb zc" {
				t.Errorf("zone zc, on no side of the partition, reaches %q", got)
			}
			for _, zone := range benchZones {
				if got := dialOnce(hostOf(t, b.network.observe(zone))); got != zone {
					t.Errorf("the host hears %q from zone %s through the partition", got, zone)
				}
			}
			delete(b.state.severed, lost.way)
			b.apply()
			teller.hearsMore(before)
		}
	})
}

func TestSilencedConnectionsStaySilentAndNewOnesWork(t *testing.T) {
	if err := NamespacesPossible(); err != nil {
		t.Skip(err)
	}
	b := newBench(t, Namespaces)
	for _, backend := range []string{"zb", "za"} { // through the host, and inside the zone
		server := b.servers[backend]
		for what, heard := range map[Silence]bool{BothWays: false, Answers: true} { // in any order
			base := server.heard()
			teller := b.hold(backend)
			b.state.silenced["za"] = append(b.state.silenced["za"], what)
			b.apply()
			time.Sleep(silence / 2) // packets in flight arrive
			before := teller.heard()
			if got := server.heard() - base - (before - 1); got > onTheirWay != heard {
				t.Errorf("with %s lost the server in %s has heard %d lines that were not answered", what, backend, got)
			}
			if got := kinds(b.dials("za", "3")); got != backend {
				t.Errorf("new connections go to %q, want %s", got, backend)
			}
			if after := teller.heard(); after != before {
				t.Errorf("with %s lost %d answers came from %s", what, after-before, backend)
			}
			must(t, teller.task.kill(t.Context()))
		}
	}
}

// heard returns how many lines a helper has printed.
func (h *helper) heard() int { return len(h.output.all()) }

// hearsMore waits until a helper has printed more lines than that.
func (h *helper) hearsMore(than int) {
	h.t.Helper()
	eventually(h.t, "wait for lines", func(context.Context) error {
		if h.heard() <= than {
			return errors.New("there are no more")
		}
		return nil
	})
}
