// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

// timeLeft returns the value of election.term.time_left, and whether there is one.
func (c *seat) timeLeft() (time.Duration, bool) {
	c.t.Helper()
	all := points(c.metric("election.term.time_left"))
	if len(all) != 1 {
		return 0, false
	}
	return time.Duration(all[0].value * float64(time.Second)).Round(time.Microsecond), true
}

// wantCounts checks the values of a counter or gauge. Counters that count nothing yet do not
// matter.
func (c *seat) wantCounts(name string, by attribute.Key, want map[string]int64) {
	c.t.Helper()
	got := c.count(name, by)
	if _, counter := c.metric(name).(metricdata.Sum[int64]); counter {
		maps.DeleteFunc(got, func(_ string, n int64) bool { return n == 0 })
	}
	if !maps.Equal(got, want) {
		c.t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func TestTheTimeLeftIsWhatTheWorkMayTrustAndAnOverrunCountsOnce(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a", func(c *election.Config) { c.Timing.StopTimeout = 3 * time.Second })
		term := a.leads()
		b := s.start("b")
		check := func(when string, want time.Duration) {
			t.Helper()
			left, told := a.timeLeft()
			if trusted := max(0, term.TrustedFor()); !told || left != trusted || left != want {
				t.Errorf("%s: the time left is %v (told: %v), the work may trust %v, want %v", when, left, told, trusted, want)
			}
		}
		check("at the start", deadline)
		a.link.Set(lockstest.Fault{Delay: 200 * time.Millisecond})
		time.Sleep(interval + 400*time.Millisecond)
		synctest.Wait()
		check("after a slow renewal: from when it was sent", deadline-400*time.Millisecond)
		a.link.Set(cut)
		a.stopTime.Store(int64(time.Minute))
		time.Sleep(deadline - 401*time.Millisecond)
		check("cut off", time.Millisecond)
		s.want("whether it leads", a.gauge(), 1.0)
		time.Sleep(time.Millisecond)
		check("when trust has run out, though the work goes on", 0)
		s.want("whether it leads", a.gauge(), 0.0)
		left, told := b.timeLeft()
		s.want("of a follower: told", told, true)
		s.want("of a follower", left, time.Duration(0))
		s.want("whether a follower leads", b.gauge(), 0.0)
		s.want("overruns before", len(a.count("election.stop.overruns", "")), 0)
		time.Sleep(time.Minute)
		s.want("overruns", a.count("election.stop.overruns", "")[""], int64(1))
	})
}

func TestNothingIsToldOfAnElectorThatHasEnded(t *testing.T) {
	scenario(t, func(s *stage) {
		peers := &source{}
		a := s.start("a", func(c *election.Config) {
			c.WatchPeers = peers.watch
			c.Lock = placed{c.Lock, phase("dual")}
		})
		a.leads()
		observed := []string{"election.term.time_left", "election.candidates", "election.migration.phase"}
		told := func() (all []string) {
			for _, name := range observed {
				if a.metric(name) != nil {
					all = append(all, name)
				}
			}
			return all
		}
		s.want("what is told while it runs", fmt.Sprint(told()), fmt.Sprint(observed))
		a.cancel()
		<-a.over
		peers.tell(in("z"))
		s.want("what is told afterwards, of late news too", len(told()), 0)
		s.want("that it does not lead", a.gauge(), 0.0)
	})
}

func TestRenewalsAreMeasuredFromTheRequestToTheAnswer(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		a.link.Set(lockstest.Fault{Delay: 100 * time.Millisecond})
		time.Sleep(3*interval + time.Second)
		h, _ := a.metric("election.renewal.duration").(metricdata.Histogram[float64])
		s.want("series", len(h.DataPoints), 1)
		s.want("their time", time.Duration(h.DataPoints[0].Sum*1e9).Round(time.Microsecond), 600*time.Millisecond)
		a.wantCounts("election.renewal.duration", "election.result", map[string]int64{"ok": 3})
	})
}

// source is where peers come from: in two zones, until changed.
type source struct{ tell func([]locks.Peer) }

func (p *source) watch(_ context.Context, tell func([]locks.Peer)) {
	p.tell = tell
	tell(in("x", "x", "y"))
}

// in returns peers in these zones.
func in(zones ...string) (peers []locks.Peer) {
	for i, z := range zones {
		peers = append(peers, locks.Peer{Candidate: locks.Candidate{Identity: fmt.Sprint(i), Zone: z}})
	}
	return peers
}

func TestCandidatesAreToldByZoneAndNotKept(t *testing.T) {
	scenario(t, func(s *stage) {
		peers := &source{}
		a := s.start("a", func(c *election.Config) { c.WatchPeers = peers.watch })
		zone := attribute.Key("election.candidate.zone")
		a.wantCounts("election.candidates", zone, map[string]int64{"x": 2, "y": 1})
		peers.tell(in("y", ""))
		synctest.Wait()
		a.wantCounts("election.candidates", zone, map[string]int64{"y": 1, "": 1})
	})
}

func TestEachEndOfATermIsCountedByItsCandidate(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b := s.start("a"), s.start("b")
		a.leads()
		time.Sleep(noted)
		a.link.Set(cut)
		b.leads()
		a.link.Set(lockstest.Fault{})
		time.Sleep(lease)
		if err := b.Resign(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		a.leads()
		a.wantCounts("election.term.ends", "election.end", map[string]int64{"unanswered": 1})
		b.wantCounts("election.term.ends", "election.end", map[string]int64{"resigned": 1})
	})
}

// TestTheCounterOfEndsBeginsAtZero, or Prometheus would never see the first end in a process.
func TestTheCounterOfEndsBeginsAtZero(t *testing.T) {
	_, cell, _ := strings.Cut(reference(t), "| `election.end` | ")
	cell, _, _ = strings.Cut(cell, ": ")
	want := map[string]int64{}
	for _, k := range key.FindAllStringSubmatch(cell, -1) {
		want[k[1]] = 0
	}
	scenario(t, func(s *stage) {
		s.start("a").leads()
		if got := s.start("b").count("election.term.ends", "election.end"); len(got) < 7 || !maps.Equal(got, want) {
			t.Errorf("it is %v, want %v", got, want)
		}
	})
}

func TestThePhaseOfAMigrationIsTold(t *testing.T) {
	scenario(t, func(s *stage) {
		now := phase("dual")
		a := s.start("a", func(c *election.Config) { c.Lock = placed{c.Lock, now} })
		a.wantCounts("election.migration.phase", "election.phase", map[string]int64{"legacy": 0, "dual": 1})
		now.Store("legacy")
		a.wantCounts("election.migration.phase", "election.phase", map[string]int64{"legacy": 1, "dual": 0})
		now.Store("")
		a.wantCounts("election.migration.phase", "election.phase", map[string]int64{})
	})
}

var (
	row = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:observable )?([a-z]+) \\|([^|]*)\\| ([^|]*) \\|")
	key = regexp.MustCompile("`([a-z0-9_.]+)`")
)

// reference is the page of all metrics.
func reference(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEachMetricIsThatOfTheReference, with its kind, unit and attributes, in a run that has them all.
func TestEachMetricIsThatOfTheReference(t *testing.T) {
	kinds := map[string]string{"counter": "Sum", "gauge": "Gauge", "histogram": "Histogram"}
	want := map[string][]string{} // for each metric its kind and unit, and each attribute
	for _, r := range row.FindAllStringSubmatch(reference(t), -1) {
		all := []string{kinds[r[2]] + " of " + strings.Trim(r[3], " `")}
		for _, k := range key.FindAllStringSubmatch(r[4], -1) {
			all = append(all, k[1])
		}
		want[r[1]] = slices.Sorted(slices.Values(all))
	}
	got := map[string][]string{}
	scenario(t, func(s *stage) {
		busy := func(c *election.Config) {
			c.Lock = placed{c.Lock, phase("dual")}
			c.Timing.StopTimeout = time.Second
			c.WatchPeers = new(source).watch
		}
		a := s.start("a", busy)
		a.leads()
		time.Sleep(noted)
		b := s.start("b", busy)
		a.link.Set(cut)
		b.leads()
		b.stopTime.Store(int64(time.Minute))
		time.Sleep(2 * interval)
		b.cancel()
		time.Sleep(2 * time.Minute)
		<-b.over
		for _, c := range []*seat{a, b} {
			for _, m := range c.metrics() {
				kind, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", m.Data), "metricdata."), "[")
				for _, p := range points(m.Data) {
					got[m.Name] = append(got[m.Name], kind+" of "+m.Unit)
					for _, kv := range p.of.ToSlice() {
						got[m.Name] = append(got[m.Name], string(kv.Key))
					}
				}
			}
		}
	})
	for name, all := range got {
		got[name] = slices.Compact(slices.Sorted(slices.Values(all)))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%s is %q, the reference says %q", name, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("the reference does not have %v", got)
	}
}
