// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/register"
)

// work is what the leader does: it writes the register, if there is one.
type work struct {
	options
	printer *events.Printer
	ledger  *register.Register
}

func newWork(o options, e *operator.Election) (*work, error) {
	cfg, err := operator.GuardConfig(o.Config, e.Term)
	if err != nil {
		return nil, err
	}
	ledger, err := register.New(cfg, o.Namespace, o.register, o.pace)
	if err != nil {
		return nil, err
	}
	return &work{
		options: o,
		printer: &events.Printer{Identity: e.Status().Identity, Lock: o.Name},
		ledger:  ledger,
	}, nil
}

// lead is the work of one term.
func (w *work) lead(ctx context.Context, term election.Term) error {
	w.printer.Print(events.Event{Event: "leading", Token: term.Token, Cause: string(term.Cause), Previous: term.Previous})
	w.ledger.Keep(ctx, term.Token, term.Holder, func(x register.Write) {
		switch {
		case w.reports:
			w.printer.Print(events.Wrote(term.Token, x))
		case x.Err != nil && !x.Over:
			w.printer.Print(events.Event{Event: "error", Error: x.Err.Error()})
		}
	})
	w.printer.Print(events.Event{Event: "stopping", Cause: context.Cause(ctx).Error()})
	time.Sleep(w.stopDelay)
	w.printer.Print(events.Event{Event: "stopped"})
	return ctx.Err()
}

// tell prints the elector's transitions that the work does not see. The
// returned function stops it and waits for the last one.
func (w *work) tell(e *operator.Election) func() {
	ctx, cancel := context.WithCancel(context.Background())
	transitions := e.Subscribe(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t := range transitions {
			w.print(t)
			if t.Change == status.ChangeEnded {
				return
			}
		}
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(time.Second): // Run never began
		}
		cancel()
	}
}

func (w *work) print(t election.Transition) {
	switch t.Change {
	case status.ChangeFollowing:
		if t.Status.Holder != "" && t.Status.Holder != t.Status.Identity {
			w.printer.Print(events.Event{Event: "following", Leader: t.Status.Holder, LeaderZone: t.Status.HolderZone})
		}
	case status.ChangeReleased:
		w.printer.Print(events.Event{Event: "released"})
	case status.ChangeProblem:
		w.printer.Print(events.Event{Event: "error", Error: t.Status.Problem.Error()})
	case status.ChangeOverrun:
		w.printer.Print(events.Event{Event: "error", Error: "the work did not stop in time: the lease is left to run out"})
	}
}
