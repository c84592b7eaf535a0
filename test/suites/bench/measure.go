// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
	"github.com/zonelect/zonelect/test/kit/usage"
)

// counted is what a process printed about itself last.
func counted(s *trial.Seat) (last events.Event) {
	for _, e := range s.Events() {
		if e.Event == "counted" {
			last = e
		}
	}
	return last
}

// used is what the CPUs and the processes of a fleet have done up to a moment.
type used struct {
	at         time.Time
	clients    []usage.Process
	apiservers time.Duration // of all zones
	etcds      time.Duration
}

// uses reads what is used. All zones must have power.
func (s *stage) uses(seats []*trial.Seat) (u used, err error) {
	u.at = time.Now()
	for _, zone := range s.Zones() {
		for part, to := range map[testbed.Part]*time.Duration{testbed.APIServer: &u.apiservers, testbed.Etcd: &u.etcds} {
			pid, err := s.Parts.PID(part, zone)
			if err != nil {
				return u, err
			}
			one, err := usage.Of(pid)
			if err != nil {
				return u, err
			}
			*to += one.CPU
		}
	}
	for _, seat := range seats {
		one, err := usage.Of(seat.PID())
		if err != nil {
			return u, err
		}
		u.clients = append(u.clients, one)
	}
	return u, nil
}

// served is what all API servers were asked up to a moment.
type served struct {
	at time.Time
	usage.Served
}

func (s *stage) served(ctx context.Context) (served, error) {
	var servers []*rest.Config
	for _, zone := range s.Zones() {
		servers = append(servers, s.Cluster.RESTConfig(zone))
	}
	at := time.Now()
	all, err := usage.ServedBy(ctx, servers...)
	return served{at, all}, err
}

// rates are the requests each second since before, by verb.
func (s served) rates(before served) map[string]float64 {
	rates := map[string]float64{}
	for verb, n := range s.Since(before.Served).Requests {
		rates[verb] = float64(n) / s.at.Sub(before.at).Seconds()
	}
	return rates
}

// quiet measures what is asked for Leases when there is no fleet: the API servers' own.
func (s *stage) quiet(ctx context.Context) error {
	const span = 20 * time.Second
	before, err := s.served(ctx)
	if err != nil {
		return err
	}
	if err := sleep.For(ctx, span); err != nil {
		return err
	}
	after, err := s.served(ctx)
	s.noise = after.rates(before)
	return err
}

// idle measures what a fleet costs that only goes on. empty is from before there was one.
func (f *fleet) idle(ctx context.Context, empty served) (Idle, error) {
	asked, err := f.served(ctx)
	if err != nil {
		return Idle{}, err
	}
	before, err := f.uses(f.seats) // reading the metrics of the API servers costs CPU too
	if err != nil {
		return Idle{}, err
	}
	if err := sleep.For(ctx, f.span); err != nil {
		return Idle{}, err
	}
	after, err := f.uses(f.seats)
	if err != nil {
		return Idle{}, err
	}
	now, err := f.served(ctx)
	i := Idle{Kind: f.kind, Locks: f.locks, Candidates: f.candidates * len(f.seats), Verbs: map[string]float64{}, Watches: now.Watches - empty.Watches}
	for verb, rate := range now.rates(asked) {
		i.Verbs[verb] = round(max(0, rate-f.noise[verb]))
		i.Requests = round(i.Requests + i.Verbs[verb])
	}
	i.add(f, before, after)
	return i, err
}

// add adds what was used between two moments.
func (i *Idle) add(f *fleet, before, after used) {
	span := after.at.Sub(before.at).Seconds()
	for n, one := range after.clients {
		one = one.Since(before.clients[n])
		i.Bytes += round(float64(one.Bytes) / span)
		i.ClientCPU += one.CPU.Seconds() / span
		i.Connections += one.Connections
		i.RSS = max(i.RSS, one.RSS)
		i.Goroutines = max(i.Goroutines, counted(f.seats[n]).Goroutines)
	}
	i.ClientCPU = round(i.ClientCPU)
	i.ServerCPU = round((after.apiservers - before.apiservers).Seconds() / span)
	i.EtcdCPU = round((after.etcds - before.etcds).Seconds() / span)
}

// way is how the leaders' process goes.
type way struct {
	name  string
	crash bool // the leases run out
	dark  bool // its zone has no power any more
	leave func(ctx context.Context, f *fleet) error
}

var (
	terminated = way{name: "SIGTERM", leave: func(_ context.Context, f *fleet) error { return f.seats[0].Terminate() }}
	killed     = way{name: "kill -9", crash: true, leave: func(_ context.Context, f *fleet) error { return f.seats[0].Kill() }}
	powerless  = way{name: "zone power loss", crash: true, dark: true, leave: func(ctx context.Context, f *fleet) error { return f.CutPower(ctx, f.seats[0].Zone) }}
)

// population measures fleets of one kind with that many locks: one that idles and is then
// asked to hand over, and one for each crash.
func (s *stage) population(ctx context.Context, r *Results, kind string, locks int) error {
	for _, way := range []way{terminated, killed, powerless} {
		if way.crash && !slices.Contains(s.crashes, locks) {
			continue
		}
		if err := s.goes(ctx, r, kind, locks, 1, way, !way.crash); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

// crowd measures that many candidates for one lock.
func (s *stage) crowd(ctx context.Context, r *Results, kind string, candidates int) error {
	return s.goes(ctx, r, kind, 1, max(1, candidates/len(s.Zones())), killed, true)
}

// goes launches a fleet, measures it while it idles if asked for, and then how soon others
// lead when the leaders' process goes.
func (s *stage) goes(ctx context.Context, r *Results, kind string, locks, candidates int, way way, idles bool) (err error) {
	s.say("%s, %d locks, %d candidates in each process: %s", kind, locks, candidates, way.name)
	empty, err := s.served(ctx)
	if err != nil {
		return err
	}
	f, err := s.launch(ctx, kind, locks, candidates)
	if f != nil {
		defer func() { _ = f.end(context.WithoutCancel(ctx)) }()
	}
	if err != nil {
		return err
	}
	if kind == outside {
		if err := sleep.For(ctx, outsideEven); err != nil {
			return err
		}
	}
	if idles {
		i, err := f.idle(ctx, empty)
		if err != nil {
			return err
		}
		r.Idle = append(r.Idle, i)
	}
	if way.dark {
		defer func() { err = errors.Join(err, s.Restore(context.WithoutCancel(ctx), f.seats[0].Zone)) }()
	}
	t, err := f.takeover(ctx, way)
	r.Takeovers = append(r.Takeovers, t)
	return err
}

// takeover measures how soon others lead at all locks when the leaders' process goes. It is a
// result, too, if they do not.
func (f *fleet) takeover(ctx context.Context, way way) (Takeover, error) {
	t := Takeover{Kind: f.kind, Locks: f.locks, Candidates: f.candidates * len(f.seats), Way: way.name}
	before, err := f.served(ctx)
	if err != nil {
		return t, err
	}
	since := time.Now()
	if err := way.leave(ctx, f); err != nil {
		return t, err
	}
	led, err := f.led(ctx, f.seats[1:], since)
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return t, err
	}
	t.Led = len(led)
	t.Half, t.Most, t.All = f.after(led, since, 50), f.after(led, since, 99), f.after(led, since, 100)
	if way.dark {
		return t, nil
	}
	after, err := f.served(ctx)
	more := after.Since(before.Served).Requests
	t.Writes = more["PUT"] + more["PATCH"] + more["POST"]
	return t, err
}

// after is how many seconds it took until so many percent of all locks were led; zero if they
// never were.
func (f *fleet) after(led trial.When, since time.Time, percent int) float64 {
	if len(led)*100 < f.locks*percent {
		return 0
	}
	return seconds(led.After(since, percent))
}
