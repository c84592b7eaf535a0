// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/internal/evacuations"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// timeLeft returns the value of election.term.time_left, and whether there is one.
func (c *seat) timeLeft() (time.Duration, bool) {
	c.t.Helper()
	g, _ := c.metric("election.term.time_left").(metricdata.Gauge[float64])
	if len(g.DataPoints) != 1 {
		return 0, false
	}
	return time.Duration(g.DataPoints[0].Value * float64(time.Second)).Round(time.Microsecond), true
}

// seconds returns the value of a counter of seconds, and whether there is one.
func (c *seat) seconds(name string) (float64, bool) {
	c.t.Helper()
	s, _ := c.metric(name).(metricdata.Sum[float64])
	if len(s.DataPoints) != 1 {
		return 0, false
	}
	return s.DataPoints[0].Value, true
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

func TestTheTimeLeftIsWhatTheWorkMayTrust(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
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
		time.Sleep(interval - time.Millisecond)
		check("before a renewal", deadline-interval+time.Millisecond)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		check("after a renewal", deadline)
		a.link.Set(lockstest.Fault{Delay: 200 * time.Millisecond})
		time.Sleep(interval + 400*time.Millisecond)
		synctest.Wait()
		check("after a slow one: from when it was sent", deadline-400*time.Millisecond)
		a.link.Set(cut)
		time.Sleep(deadline - 401*time.Millisecond)
		check("cut off", time.Millisecond)
		time.Sleep(time.Millisecond)
		check("when trust has run out", 0)
		left, told := b.timeLeft()
		s.want("of a follower: told", told, true)
		s.want("of a follower", left, time.Duration(0))
	})
}

// stuck is a logger that blocks at an error until it is freed.
func stuck() (log logr.Logger, hangs <-chan struct{}, free func()) {
	hang, freed := make(chan struct{}, 100), make(chan struct{})
	return funcr.New(func(_, line string) {
		if strings.Contains(line, "cannot use the lock") {
			hang <- struct{}{}
			<-freed
		}
	}, funcr.Options{}), hang, sync.OnceFunc(func() { close(freed) })
}

func TestALostTermIsToldAtOnce(t *testing.T) {
	t.Run("while the work goes on", func(t *testing.T) {
		scenario(t, func(s *stage) {
			a := s.start("a")
			a.stopTime.Store(int64(time.Minute))
			a.leads()
			a.link.Set(cut)
			time.Sleep(deadline - time.Nanosecond)
			s.want("before", a.gauge(), int64(1))
			time.Sleep(time.Nanosecond)
			s.want("after", a.gauge(), int64(0))
			left, _ := a.timeLeft()
			s.want("the time left", left, time.Duration(0))
		})
	})
	t.Run("while the elector hangs", func(t *testing.T) {
		scenario(t, func(s *stage) {
			log, hangs, free := stuck()
			defer free()
			a := s.start("a", func(c *election.Config) { c.Logger = log })
			term := a.leads()
			a.link.Set(lockstest.Fault{Err: errors.New("broken")})
			<-hangs
			s.want("while it is trusted", a.gauge(), int64(1))
			time.Sleep(term.TrustedFor())
			s.want("after", a.gauge(), int64(0))
			left, _ := a.timeLeft()
			s.want("the time left", left, time.Duration(0))
		})
	})
}

func TestForHowLongWorkStoodForWantOfAnAnswerIsTold(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		time.Sleep(noted)
		a.link.Set(cut)
		time.Sleep(time.Minute)
		ends := a.count("election.term.ends", "election.end")
		s.want("terms that no answer kept", ends["unanswered"], int64(1))
		s.want("terms lost for another reason", ends["lost"], int64(0))
		stood := time.Now()
		a.link.Set(lockstest.Fault{})
		a.leads()
		took := time.Minute - (deadline - (noted % interval)) + time.Since(stood)
		b := s.start("b")
		time.Sleep(noted)
		a.link.Set(cut)
		b.leads() // the work is not missed: b does it
		a.link.Set(lockstest.Fault{})
		time.Sleep(lease)
		if err := b.Resign(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		a.leads()
		s.want("terms that no answer kept", a.count("election.term.ends", "election.end")["unanswered"], int64(2))
		h, _ := a.metric("election.interruption.duration").(metricdata.Histogram[float64])
		if len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 || h.DataPoints[0].Sum != took.Seconds() {
			s.t.Errorf("%+v, want one interruption of %v", h.DataPoints, took)
		}
		now, err := s.lock.Read(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		now.Record.Holder, now.Record.Details = "other", locks.Details{}
		if _, err := s.lock.Write(s.t.Context(), now.Version, now.Record); err != nil {
			s.t.Fatal(err)
		}
		synctest.Wait()
		ends = a.count("election.term.ends", "election.end")
		s.want("terms that no answer kept, and others that were lost", [2]int64{ends["unanswered"], ends["lost"]}, [2]int64{2, 1})
	})
}

// TestWorkThatOverranStoodToo, though its candidate waits for its own lease and reclaims nothing.
func TestWorkThatOverranStoodToo(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.stopTime.Store(int64(10 * time.Second))
		a.leads()
		time.Sleep(noted)
		a.link.Set(cut)
		time.Sleep(time.Minute)
		a.link.Set(lockstest.Fault{})
		if again := a.leads(); again.Cause == status.CauseReclaimed {
			t.Errorf("it leads again for %s", again.Cause)
		}
		h, _ := a.metric("election.interruption.duration").(metricdata.Histogram[float64])
		if len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 {
			s.t.Errorf("%+v, want one interruption", h.DataPoints)
		}
	})
}

// two is a source of peers in two zones, until changed.
type two struct{ tell func([]locks.Peer) }

func (p *two) peers(_ context.Context, tell func([]locks.Peer)) {
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

func TestNothingIsToldOfAnElectorThatHasEnded(t *testing.T) {
	scenario(t, func(s *stage) {
		peers := &two{}
		a := s.start("a", func(c *election.Config) {
			c.WatchPeers = peers.peers
			c.Health.Check = func(context.Context) error { return nil }
			c.Lock = phased{c.Lock, new(atomic.Value)}
		})
		a.leads()
		s.evacuates("elsewhere")
		observed := []string{"election.term.time_left", "election.candidates", "election.unhealthy.time", "election.migration.phase", "election.zone.evacuated"}
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
		s.want("what is told afterwards", len(told()), 0)
		s.want("that it does not lead", a.gauge(), int64(0))
		peers.tell(in("z"))
		s.want("what is told of late news", len(told()), 0)

		ctx, cancel := context.WithCancel(s.t.Context())
		over := make(chan error, 1)
		go func() { over <- a.Run(ctx, a.work) }()
		a.leads()
		s.want("what is told when it runs again", fmt.Sprint(told()), fmt.Sprint(observed))
		s.want("that it leads", a.gauge(), int64(1))
		cancel()
		<-over
		s.want("what is told in the end", len(told()), 0)
	})
}

func TestCandidatesAreToldByZoneAndNotKept(t *testing.T) {
	scenario(t, func(s *stage) {
		peers := &two{}
		a := s.start("a", func(c *election.Config) { c.WatchPeers = peers.peers })
		zone := attribute.Key("election.candidate.zone")
		a.wantCounts("election.candidates", zone, map[string]int64{"x": 2, "y": 1})
		peers.tell(in("y", ""))
		synctest.Wait()
		a.wantCounts("election.candidates", zone, map[string]int64{"x": 0, "y": 1, "": 1})
	})
}

func TestAFailoverIsCountedByItsZonesWithItsTrace(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b")
		time.Sleep(noted)
		a.link.Set(cut)
		b.leads()
		h, _ := b.metric("election.failover.duration").(metricdata.Histogram[float64])
		s.want("series", len(h.DataPoints), 1)
		p := h.DataPoints[0]
		want := attribute.NewSet(attribute.String("election.cause", "expired"), attribute.String("election.lock.kind", s.lock.Describe().Kind),
			attribute.String("election.previous.zone", "z-a"), attribute.String("election.holder.zone", "z-b"))
		if !p.Attributes.Equals(&want) {
			t.Errorf("attributes are %v, want %v", p.Attributes.ToSlice(), want.ToSlice())
		}
		if len(p.Exemplars) != 1 {
			t.Fatalf("%d exemplars, want 1", len(p.Exemplars))
		}
		span := b.failover().SpanContext()
		trace, id := span.TraceID(), span.SpanID()
		s.want("the exemplar's trace", string(p.Exemplars[0].TraceID), string(trace[:]))
		s.want("the exemplar's span", string(p.Exemplars[0].SpanID), string(id[:]))
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
		s.want("renewals", h.DataPoints[0].Count, uint64(3))
		s.want("their time", time.Duration(h.DataPoints[0].Sum*1e9).Round(time.Microsecond), 600*time.Millisecond)
	})
}

func TestEveryCandidateSeesHowATermBegan(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b, c := s.start("a"), s.start("b"), s.start("c", func(c *election.Config) {
			c.TakeoverDelay = func(election.Takeover) time.Duration { return time.Second }
		})
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
		// The first term had begun when b and c came. a was cut off when b's began, and heard later.
		began := map[*seat]map[string]int64{
			a: {"absent": 1, "expired": 1, "released": 1}, b: {"expired": 1, "released": 1}, c: {"expired": 1, "released": 1},
		}
		for range 2 {
			for x, want := range began {
				x.wantCounts("election.transitions", "election.cause", want)
			}
			time.Sleep(time.Minute) // renewals begin no term
		}
		a.wantCounts("election.term.ends", "election.end", map[string]int64{"unanswered": 1})
		b.wantCounts("election.term.ends", "election.end", map[string]int64{"resigned": 1})
		c.wantCounts("election.term.ends", "election.end", map[string]int64{})
	})
}

// TestCountersBeginAtZero, or Prometheus would never see the first transition of a process.
func TestCountersBeginAtZero(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		s.start("b")
		for metric, by := range map[string]attribute.Key{"election.transitions": "election.cause", "election.term.ends": "election.end"} {
			_, cell, _ := strings.Cut(string(text), "| `"+string(by)+"` | ")
			cell, _, _ = strings.Cut(cell, ": ")
			all := key.FindAllStringSubmatch(cell, -1)
			if len(all) < 7 {
				t.Errorf("the reference has only %v for %s", all, by)
			}
			got := s.seats[1].count(metric, by)
			for _, k := range all {
				if n, told := got[k[1]]; n != 0 || !told {
					t.Errorf("%s of %s is %d (told: %v), want 0", metric, k[1], n, told)
				}
			}
		}
	})
}

func TestATermThatBeginsTooSoonHasNoKnownCause(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		a.leads()
		b := s.start("b")
		time.Sleep(interval / 2)
		now, err := s.lock.Read(s.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := now.Record
		r.Holder, r.AcquireTime, r.Details = "other", time.Now(), locks.Details{}
		r.Transitions++
		if _, err := s.lock.Write(s.t.Context(), now.Version, r); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wantCounts("election.transitions", "election.cause", map[string]int64{"unknown": 1})
	})
}

func TestUnhealthyTimeIsCountedToTheVeryMoment(t *testing.T) {
	scenario(t, func(s *stage) {
		var ill atomic.Bool
		a := s.start("a", func(c *election.Config) {
			c.Health.Interval, c.Health.After = time.Second, time.Hour
			c.Health.Check = func(context.Context) error {
				if ill.Load() {
					return errors.New("ill")
				}
				return nil
			}
		})
		check := func(want float64) {
			t.Helper()
			got, told := a.seconds("election.unhealthy.time")
			if !told || got != want {
				t.Errorf("unhealthy for %v s (told: %v), want %v", got, told, want)
			}
		}
		check(0)
		ill.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		check(0)
		time.Sleep(2500 * time.Millisecond)
		check(2.5)
		ill.Store(false)
		time.Sleep(10 * time.Second)
		check(3)
	})
}

func TestWritesThatAGuardRefusesAreCounted(t *testing.T) {
	scenario(t, func(s *stage) {
		a := s.start("a")
		term := a.leads()
		hang := make(chan struct{})
		server := transport(func(req *http.Request) (*http.Response, error) {
			close(hang)
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		refused := func() int64 { return a.count("election.guard.refusals", "")[""] }
		write := func(through http.RoundTripper) error {
			req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://server", nil)
			if err != nil {
				t.Fatal(err)
			}
			return send(req, through)
		}
		over := make(chan error, 1)
		go func() { over <- write(a.Guard(server)) }()
		<-hang
		s.want("while it is trusted", refused(), int64(0))
		a.link.Set(cut)
		if err := <-over; !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("the write got %v", err)
		}
		s.want("after one was cut off", refused(), int64(1))
		if err := write(term.Guard(server)); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("the write got %v", err)
		}
		s.want("after one was refused", refused(), int64(2))
		b := s.start("b")
		if err := write(b.Guard(server)); !errors.Is(err, election.ErrUntrusted) {
			t.Errorf("the write got %v", err)
		}
		s.want("before the first term", b.count("election.guard.refusals", "")[""], int64(1))
	})
}

// send returns the error of a write.
func send(req *http.Request, through http.RoundTripper) error {
	resp, err := through.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// ending is a lock whose watches can be ended.
type ending struct {
	locks.Lock
	end chan error
}

func (l ending) Watch(ctx context.Context, from locks.Version, events chan<- locks.Event) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- l.Lock.Watch(ctx, from, events) }()
	select {
	case err := <-l.end:
		cancel()
		<-over
		return err
	case err := <-over:
		return err
	}
}

func TestWatchesThatFollowAnotherAreCounted(t *testing.T) {
	scenario(t, func(s *stage) {
		lock := ending{end: make(chan error)}
		a := s.start("a", func(c *election.Config) { lock.Lock = c.Lock; c.Lock = lock })
		a.leads()
		a.wantCounts("election.watch.restarts", "election.result", map[string]int64{})
		for _, err := range []error{nil, locks.ErrVersionExpired, errors.New("broken"), nil} {
			lock.end <- err
			time.Sleep(time.Minute)
		}
		a.wantCounts("election.watch.restarts", "election.result", map[string]int64{"ok": 2, "version_expired": 1, "error": 1})
	})
}

// phased is a lock with the phase of a migration.
type phased struct {
	locks.Lock
	now *atomic.Value
}

func (l phased) Capabilities() locks.Capabilities {
	return locks.Capabilities{Phases: func() (string, []string) {
		now, _ := l.now.Load().(string)
		if now == "" {
			now = "dual"
		}
		return strings.TrimSpace(now), []string{"legacy", "dual"}
	}}
}

func TestThePhaseOfAMigrationIsTold(t *testing.T) {
	scenario(t, func(s *stage) {
		var now atomic.Value
		a := s.start("a", func(c *election.Config) { c.Lock = phased{c.Lock, &now} })
		a.wantCounts("election.migration.phase", "election.phase", map[string]int64{"legacy": 0, "dual": 1})
		now.Store("legacy")
		a.wantCounts("election.migration.phase", "election.phase", map[string]int64{"legacy": 1, "dual": 0})
		now.Store(" ") // none
		a.wantCounts("election.migration.phase", "election.phase", map[string]int64{})
	})
}

// evacuates marks zones, as kubectl zonelect does.
func (s *stage) evacuates(zones string) {
	s.t.Helper()
	now, err := s.lock.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	r := now.Record
	r.Evacuated = zones
	if _, err := s.lock.Write(s.t.Context(), now.Version, r); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

func TestAnEvacuatedZoneIsToldByEachCandidateAsLongAsItIs(t *testing.T) {
	scenario(t, func(s *stage) {
		a, b := s.start("a"), s.start("b")
		a.leads()
		check := func(want map[string]int64) {
			t.Helper()
			for _, x := range s.seats {
				x.wantCounts("election.zone.evacuated", "election.evacuated.zone", want)
			}
		}
		check(map[string]int64{})
		s.evacuates(evacuations.Format([]evacuations.Evacuation{{Zone: "x"}, {Zone: "y", Until: time.Now().Add(time.Hour)}}))
		check(map[string]int64{"x": 1, "y": 1})
		time.Sleep(time.Hour - time.Nanosecond)
		check(map[string]int64{"x": 1, "y": 1})
		time.Sleep(time.Nanosecond)
		check(map[string]int64{"x": 1})
		a.link.Set(cut)
		b.leads()
		a.link.Set(lockstest.Fault{})
		time.Sleep(lease)
		check(map[string]int64{"x": 1}) // a takeover keeps it
		s.evacuates("")
		check(map[string]int64{})
	})
}

// TestAThousandLocksStayWithinTheLimitOfTheSDK through a takeover of them all.
func TestAThousandLocksStayWithinTheLimitOfTheSDK(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(resource.Empty()), sdkmetric.WithReader(reader))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i := range n {
			lock := memory.New(fmt.Sprintf("lock-%d", i))
			holder := locks.Record{Holder: "other", LeaseDuration: lease, AcquireTime: time.Now(), RenewTime: time.Now(), Details: locks.Details{Holder: "other", Zone: "z"}}
			if _, err := lock.Write(ctx, locks.Version{}, holder); err != nil {
				t.Fatal(err)
			}
			e, err := election.New(election.Config{
				Lock: many{lock}, Candidate: locks.Candidate{Identity: "me", Zone: fmt.Sprint(i % 3)}, MeterProvider: provider,
				WatchPeers: func(ctx context.Context, tell func([]locks.Peer)) { new(two).peers(ctx, tell) }, TakeoverDelay: func(election.Takeover) time.Duration { return 0 },
			})
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() {
				if err := e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(lease + 3*interval)
		synctest.Wait()
		total := 0
		for name, sets := range collect(t, reader) {
			if total += len(sets); len(sets) > n {
				t.Errorf("%s has %d series", name, len(sets))
			}
			for _, set := range sets {
				if _, over := set.Value("otel.metric.overflow"); over {
					t.Errorf("%s has more series than the SDK allows", name)
				}
			}
		}
		t.Logf("%d locks have %d series", n, total)
		if most := 3*n + 50; total > most {
			t.Errorf("%d series, want at most %d", total, most)
		}
		cancel()
		running.Wait()
	})
}

// many is one of many locks that have the same candidates.
type many struct{ locks.Lock }

func (many) Capabilities() locks.Capabilities { return locks.Capabilities{Group: "program"} }

// collect returns the attributes of all that was collected, by name.
func collect(t *testing.T, reader sdkmetric.Reader) map[string][]attribute.Set {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	sets := map[string][]attribute.Set{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sets[m.Name] = setsOf(m.Data)
		}
	}
	return sets
}

func setsOf(data metricdata.Aggregation) (sets []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			sets = append(sets, p.Attributes)
		}
	}
	return sets
}

var (
	row = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| [a-z ]+ \\|[^|]*\\| ([^|]*) \\|")
	key = regexp.MustCompile("`([a-z0-9_.]+)`")
)

// TestEachMetricHasTheAttributesOfTheReference in a run that has them all.
func TestEachMetricHasTheAttributesOfTheReference(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		for _, k := range key.FindAllStringSubmatch(r[2], -1) {
			want[r[1]] = append(want[r[1]], k[1])
		}
		slices.Sort(want[r[1]])
	}
	got := map[string]map[attribute.Key]bool{}
	scenario(t, func(s *stage) {
		lock := ending{end: make(chan error)}
		busy := func(c *election.Config) {
			lock.Lock = c.Lock
			c.Lock = placedPhase{lock}
			c.Timing.StopTimeout = time.Second
			c.WatchPeers, c.Health.Check = new(two).peers, func(context.Context) error { return nil }
		}
		a := s.start("a", busy)
		a.leads()
		a.link.Set(cut)
		time.Sleep(2 * lease)
		a.link.Set(lockstest.Fault{})
		a.leads()
		s.evacuates("elsewhere")
		time.Sleep(noted)
		b := s.start("b", busy)
		a.link.Set(cut)
		b.leads()
		b.stopTime.Store(int64(time.Minute))
		time.Sleep(2 * interval)
		lock.end <- nil
		time.Sleep(2 * interval)
		b.cancel()
		time.Sleep(2 * time.Minute)
		<-b.over
		guard := b.Term().Guard(transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent") }))
		req, _ := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://server", nil)
		_ = send(req, guard) // it is refused
		for _, c := range []*seat{a, b} {
			for name, sets := range collect(s.t, c.reader) {
				if got[name] == nil {
					got[name] = map[attribute.Key]bool{}
				}
				for _, set := range sets {
					for _, kv := range set.ToSlice() {
						got[name][kv.Key] = true
					}
				}
			}
		}
	})
	for name := range want {
		if len(got[name]) == 0 {
			t.Errorf("the reference has %s, which nothing told", name)
		}
	}
	for name, keys := range got {
		var all []string
		for k := range keys {
			all = append(all, string(k))
		}
		if slices.Sort(all); !slices.Equal(all, want[name]) {
			t.Errorf("%s has the attributes %v, the reference says %v", name, all, want[name])
		}
	}
}

// placedPhase is a lock in a namespace, with a phase.
type placedPhase struct{ locks.Lock }

func (placedPhase) Describe() locks.Description {
	return locks.Description{Kind: "Lease", Namespace: "team", Name: "lock"}
}

func (placedPhase) Capabilities() locks.Capabilities {
	return locks.Capabilities{Phases: func() (string, []string) { return "dual", []string{"dual"} }}
}
