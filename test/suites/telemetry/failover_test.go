// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestOneFailoverSpanPerTakeoverAndNoneByLosers(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b, c := s.start("a"), s.start("b"), s.start("c")
		a.leads()
		spans := func() [3]int {
			return [3]int{len(a.named("election.failover")), len(b.named("election.failover")), len(c.named("election.failover"))}
		}
		s.want("spans of a, b, c", spans(), [3]int{1, 0, 0})
		time.Sleep(noted)
		released := time.Now()
		a.cancel()
		<-a.over
		synctest.Wait()
		winner, loser := b, c
		if len(c.leading) > 0 {
			winner, loser = c, b
		}
		winner.leads()
		whole := winner.failover()
		s.want("the length after a release", length(whole), time.Duration(0))
		if !whole.StartTime().Equal(released) {
			s.t.Errorf("it starts at %v, the release was at %v", whole.StartTime(), released)
		}
		winner.phases(whole)
		s.want("the cause", attributes(whole)["election.cause"].AsString(), string(status.CauseReleased))
		s.want("spans that the loser made of any kind", len(loser.spans.Started()), 0)
		winner.link.Set(cut)
		loser.leads()
		loser.failover()
		winner.failover()
		for _, x := range s.seats {
			s.want("spans left open", len(x.spans.Started())-len(x.spans.Ended()), 0)
		}
	})
}

// placed is a lock in a namespace, with the phase of a migration unless that is nil.
type placed struct {
	locks.Lock
	phase *atomic.Value
}

func phase(name string) *atomic.Value {
	v := &atomic.Value{}
	v.Store(name)
	return v
}

func (placed) Describe() locks.Description {
	return locks.Description{Kind: "Lease", Namespace: "team", Name: "lock"}
}

func (l placed) Capabilities() locks.Capabilities {
	if l.phase == nil {
		return l.Lock.Capabilities()
	}
	return locks.Capabilities{Phases: func() (string, []string) { return l.phase.Load().(string), []string{"legacy", "dual"} }}
}

func TestTheFailoverSaysWhoTookOverFromWhomAndLinksToIt(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		began := time.Now()
		b := s.start("b", func(c *election.Config) {
			c.Lock = placed{c.Lock, nil}
			c.TakeoverDelay = func(election.Takeover) time.Duration { return 3 * time.Second }
		})
		time.Sleep(noted)
		before := a.failover().SpanContext()
		s.want("the record's traceparent", s.record().Details.Trace, "00-"+before.TraceID().String()+"-"+before.SpanID().String()+"-01")
		a.link.Set(cut)
		// Both ways: the watch shows b its own write before the answer does.
		b.link.Set(lockstest.Fault{Delay: 200 * time.Millisecond})
		term := b.leads()
		s.want("the term's cause", term.Cause, status.CauseExpired)
		s.want("the term's predecessor", term.Previous, "a")

		whole := b.failover()
		if want := began.Add(interval); !whole.StartTime().Equal(want) {
			s.t.Errorf("it starts at %v, want the last renewal at %v", whole.StartTime(), want)
		}
		s.want("a parent", whole.Parent().IsValid(), false)
		took := b.phases(whole)
		s.want("the silence", took["silence"], lease)
		s.want("the takeover delay", took["delay"], 3*time.Second)
		s.want("the acquisition", took["acquire"], 400*time.Millisecond)
		s.want("the length", length(whole), lease+3400*time.Millisecond)
		first, second := attributes(a.failover()), attributes(whole)
		for key, want := range map[attribute.Key]any{
			"election.lock.name":       "lock",
			"election.lock.kind":       "Lease",
			"k8s.namespace.name":       "team",
			"election.cause":           "expired",
			"election.holder":          "b",
			"election.holder.zone":     "z-b",
			"election.previous.holder": "a",
			"election.previous.zone":   "z-a",
			"election.token":           int64(term.Token),
			"election.lease_duration":  lease.Seconds(),
		} {
			s.want(string(key), second[key].AsInterface(), want)
		}
		s.want("the cause of the first", first["election.cause"].AsString(), "absent")
		for _, key := range []attribute.Key{"k8s.namespace.name", "election.previous.holder", "election.previous.zone"} {
			if v, ok := first[key]; ok {
				s.t.Errorf("the first takeover has %s = %q", key, v.AsString())
			}
		}

		if len(a.failover().Links()) != 0 || len(whole.Links()) != 1 {
			s.t.Fatalf("%d and %d links, want 0 and 1", len(a.failover().Links()), len(whole.Links()))
		}
		to, own := whole.Links()[0].SpanContext, whole.SpanContext()
		if to.TraceID() != before.TraceID() || to.SpanID() != before.SpanID() || own.TraceID() == before.TraceID() {
			s.t.Errorf("%v in trace %v links to %v, want %v", own.SpanID(), own.TraceID(), to, before)
		}
		h, _ := b.metric("election.failover.duration").(metricdata.Histogram[float64])
		if p := h.DataPoints; len(p) != 1 || p[0].Count != 1 || p[0].Sum != length(whole).Seconds() || len(p[0].Exemplars) != 1 {
			s.t.Fatalf("it was counted as %+v, want one of %v with an exemplar", h.DataPoints, length(whole))
		}
		b.wantCounts("election.failover.duration", "election.previous.zone", map[string]int64{"z-a": 1})
		b.wantCounts("election.failover.duration", "election.cause", map[string]int64{"expired": 1})
		trace, id, exemplar := own.TraceID(), own.SpanID(), h.DataPoints[0].Exemplars[0]
		s.want("the exemplar", string(exemplar.TraceID)+string(exemplar.SpanID), string(trace[:])+string(id[:]))
	})
}

// TestAnAcquisitionLastsUntilAReadTellsThatItLanded, if its answer does not come.
func TestAnAcquisitionLastsUntilAReadTellsThatItLanded(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b")
		time.Sleep(noted)
		a.link.Set(cut)
		time.Sleep(lease - time.Second)
		b.link.Set(lockstest.Fault{LoseAnswers: true})
		time.Sleep(2 * time.Second) // the acquisition has landed, but its answer has not arrived
		s.want("the holder", s.record().Holder, "b")
		b.link.Set(lockstest.Fault{})
		b.leads()
		took := b.phases(b.failover())
		s.want("the silence", took["silence"], lease)
		s.want("the acquisition", took["acquire"] >= interval, true)
	})
}

func TestWithoutProvidersNothingIsNoted(t *testing.T) {
	scenario(t, func(s *stage) {
		none := func(c *election.Config) { c.TracerProvider, c.MeterProvider = nil, nil }
		a := s.start("a", none)
		a.leads()
		b := s.start("b", none)
		time.Sleep(noted)
		if d := s.record().Details; d.Trace != "" || d.Token == 0 {
			s.t.Errorf("details are %+v", d)
		}
		a.link.Set(cut)
		b.leads()
		time.Sleep(noted)
		s.want("the traceparent", s.record().Details.Trace, "")
	})
}
