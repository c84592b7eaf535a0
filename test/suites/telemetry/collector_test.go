// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/spans"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

const (
	// sumsUp is how far the phases of a failover may be from the whole.
	sumsUp = 5 * time.Millisecond
	// agrees is how far a span may be from what was seen from outside, in each of so many
	// failovers or more. In fewer, half of the spans may be further off, for on a busy machine
	// a process that waits for the CPU sees a renewal late: they say little of the worst.
	agrees, enough = 20 * time.Millisecond, 20
	// near is how far half of a few may be off.
	near = 300 * time.Millisecond
	// busy is how far those may be off: a process that got no CPU has been 2.7 s late.
	busy = 5 * time.Second
)

var keep = flag.String("keep", "", "file for the spans of the last power loss or kill of the example's leader, which docs/pictures draws")

// rounds is how often each kind of failover is measured: ZONELECT_FAILOVERS.
func rounds(t *testing.T) int {
	t.Helper()
	value, set := os.LookupEnv("ZONELECT_FAILOVERS")
	if !set {
		return 3
	}
	n, err := strconv.Atoi(value)
	must(t, err)
	return n
}

// What the collector received of power losses, kills and handovers is what was seen from
// outside: the phases add up to the whole, the link leads to the former leader's term, and
// the span begins and ends when the watch of the Leases and the output of the programs say
// so. ZONELECT_FAILOVERS is the number of each.
func TestACollectorGetsEachFailoverAsItWasSeenFromOutside(t *testing.T) {
	n := rounds(t)
	s := newFleet(t, time.Duration(n)*4*time.Minute+5*time.Minute)
	for _, kind := range []struct {
		name string
		fail func(t *testing.T, zone string)
	}{{"power loss", s.losePower}, {"kill", s.kill}, {"handover", s.handAllOver}} {
		t.Run(kind.name, func(t *testing.T) {
			all := map[string][]agreement{}
			for i := range n {
				zone := seats[i%2]
				s.gather(t, zone)
				since := time.Now()
				kind.fail(t, zone)
				for _, lock := range allLocks() {
					lockKind, _, _ := strings.Cut(lock, "-")
					all[lockKind] = append(all[lockKind], s.compare(t, lock, zone, since))
				}
				if !s.alive(zone) {
					s.replace(t, zone)
				}
			}
			for _, lockKind := range []string{example, group} {
				report(t, n, kind.name, lockKind, all[lockKind])
			}
		})
	}
}

// alive reports whether all programs of a zone run.
func (s *fleet) alive(zone string) bool {
	return !slices.ContainsFunc(s.running[zone], func(c *candidate) bool {
		select {
		case <-c.Done():
			return true
		default:
			return false
		}
	})
}

// replace starts new candidates in a zone, in new pods.
func (s *fleet) replace(t *testing.T, zone string) {
	t.Helper()
	must(t, s.Restore(s.ctx, zone))
	for _, c := range s.running[zone] {
		must(t, s.client.CoreV1().Pods("default").Delete(s.ctx, c.pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	s.start(t, zone)
}

// handOver moves a lock, as people do.
func (s *fleet) handOver(t *testing.T, lock, to string) {
	t.Helper()
	s.starts++
	p, err := s.StartProcess(outside, testbed.ProcessSpec{
		Name: fmt.Sprint("handover-", s.starts), Path: s.programs.plugin,
		Args: []string{"--kubeconfig", s.Cluster.Kubeconfig(outside), "handover", lock, "--to-zone", to},
	})
	must(t, err)
	if err := p.Wait(s.ctx); err != nil {
		log, _ := os.ReadFile(p.Log())
		t.Fatalf("kubectl zonelect handover %s: %v\n%s", lock, err, log)
	}
}

func (s *fleet) handAllOver(t *testing.T, zone string) {
	t.Helper()
	for _, lock := range allLocks() {
		s.handOver(t, lock, other(zone))
	}
}

// kill kills the leaders at any moment between two renewals.
func (s *fleet) kill(t *testing.T, zone string) {
	t.Helper()
	time.Sleep(rand.N(2 * time.Second))
	for _, c := range s.running[zone] {
		must(t, c.Kill())
		<-c.Done()
	}
}

// losePower does the same to the zone.
func (s *fleet) losePower(t *testing.T, zone string) {
	t.Helper()
	time.Sleep(rand.N(2 * time.Second))
	must(t, s.CutPower(s.ctx, zone))
}

// agreement is how far a span is from what was seen from outside.
type agreement struct {
	lock   string
	sum    time.Duration // of the phases, from the whole
	start  time.Duration // of the span, from the last sign of life that was seen
	end    time.Duration // of the span, from the line that the work printed first
	whole  time.Duration // the span's length, from the time between these two
	taken  time.Duration // by how much the new holder was seen outside election.acquire
	phases string
	load   string // of the machine
}

// worst is the greatest distance from what was seen from outside.
func (a agreement) worst() time.Duration {
	return max(a.start.Abs(), a.end.Abs(), a.whole.Abs(), a.taken)
}

// compare reads a failover away from a zone from what the collector received, and compares it
// with what was seen.
func (s *fleet) compare(t *testing.T, lock, from string, since time.Time) agreement {
	t.Helper()
	var to term
	s.until(t, lock+" is led again", func() bool { _, to = s.leader(lock, since); return to.token != 0 })
	var span spans.Failover
	var all []spans.Failover
	s.until(t, "the collector has the failover of "+lock, func() bool {
		received, err := spans.Collected(s.received)
		must(t, err)
		all = spans.FailoversOf(received)
		i := slices.IndexFunc(all, to.is)
		if i >= 0 {
			span = all[i]
		}
		return i >= 0 && len(span.Phases) == 5
	})
	seen, ok := s.outsider.takeover(lock, to.pod, since)
	if !ok {
		t.Fatalf("nobody saw %s take %s", to.pod, lock)
	}
	s.wantLink(t, span, all, from, to)
	wantPhases(t, span)
	if *keep != "" && lock == example && span.Attribute("election.cause") == "expired" {
		must(t, spans.KeepCollected(s.received, *keep, span))
	}
	acquire := span.Phase("election.acquire")
	a := agreement{
		lock:  lock,
		sum:   sum(span.Phases) - span.Duration(),
		start: span.StartTime.Sub(seen.life),
		end:   span.EndTime.Sub(to.began),
		whole: span.Duration() - to.began.Sub(seen.life),
		taken: max(0, seen.taken.Sub(acquire.EndTime), acquire.StartTime.Sub(seen.taken)),
		load:  load(),
	}
	for _, p := range span.Phases {
		a.phases += fmt.Sprintf(" %s %v", strings.TrimPrefix(p.Name, "election."), p.Duration().Round(10*time.Microsecond))
	}
	t.Logf("%s, %s, to %s: start %v, end %v, whole %v, taken %v:%s; load %s", lock, span.Attribute("election.cause"), to.pod, a.start, a.end, a.whole, a.taken, a.phases, a.load)
	return a
}

// is reports whether a span is that of the takeover by which a term began.
func (x term) is(span spans.Failover) bool {
	return span.Attribute("election.lock.name") == x.lock && span.Attribute("election.token") == fmt.Sprint(x.token) &&
		strings.HasPrefix(span.Attribute("election.holder"), x.pod)
}

func sum(phases []spans.Span) (all time.Duration) {
	for _, p := range phases {
		all += p.Duration()
	}
	return all
}

// wantPhases checks that the phases follow each other without a gap, from the start of the
// span to its end.
func wantPhases(t *testing.T, span spans.Failover) {
	t.Helper()
	at := span.StartTime
	for i, name := range []string{"silence", "delay", "acquire", "adopt", "work_start"} {
		p := span.Phases[i]
		if p.Name != "election."+name || !p.StartTime.Equal(at) {
			t.Errorf("phase %d is %s, %v after the end of the one before; want election.%s, at once", i, p.Name, p.StartTime.Sub(at), name)
		}
		at = p.EndTime
	}
	if !at.Equal(span.EndTime) {
		t.Errorf("the last phase ends %v after the failover", at.Sub(span.EndTime))
	}
}

// wantLink checks that the span leads to that of the last term in the zone that failed.
func (s *fleet) wantLink(t *testing.T, span spans.Failover, all []spans.Failover, from string, to term) {
	t.Helper()
	var former term
	for _, c := range s.running[from] {
		for _, x := range c.terms()[to.lock] {
			if x.token > former.token && x.token < to.token {
				former = x
			}
		}
	}
	if len(span.Links) != 1 {
		t.Errorf("%s: %d links, want one", to.lock, len(span.Links))
		return
	}
	link := span.Links[0].SpanContext
	i := slices.IndexFunc(all, func(f spans.Failover) bool { return f.SpanContext == link })
	if i < 0 || !former.is(all[i]) {
		t.Errorf("%s: the link leads to none of the spans that the collector has of the term of %s, token %d", to.lock, former.pod, former.token)
		return
	}
	if holder := all[i].Attribute("election.holder"); span.Attribute("election.previous.holder") != holder {
		t.Errorf("%s: the link leads to a term of %s, but %q led before", to.lock, holder, span.Attribute("election.previous.holder"))
	}
}

// report checks the agreements of n failovers of one kind and logs a line of a table.
func report(t *testing.T, n int, kind, lock string, all []agreement) {
	t.Helper()
	column := func(of func(agreement) time.Duration) string {
		var each []time.Duration
		for _, a := range all {
			each = append(each, of(a).Abs())
		}
		slices.Sort(each)
		return fmt.Sprintf("%.1f / %.1f", milliseconds(each[len(each)/2]), milliseconds(each[len(each)-1]))
	}
	good := 0
	for _, a := range all {
		if a.sum.Abs() > sumsUp {
			t.Errorf("%s of %s: the phases take %v more than the whole", kind, a.lock, a.sum)
		}
		if a.worst() <= near {
			good++
		}
		if a.worst() > agrees && (n >= enough || a.worst() > busy) {
			t.Errorf("%s of %s: %v off what was seen from outside: %+v", kind, a.lock, a.worst(), a)
		}
	}
	if 2*good < len(all) {
		t.Errorf("%s: only %d of %d spans agree with what was seen from outside", kind, good, len(all))
	}
	t.Logf("| %s | %s | %d of %d | %s | %s | %s | %s | (ms, median / worst: start, end, length, acquisition)", kind, lock, good, len(all),
		column(func(a agreement) time.Duration { return a.start }), column(func(a agreement) time.Duration { return a.end }),
		column(func(a agreement) time.Duration { return a.whole }), column(func(a agreement) time.Duration { return a.taken }))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
