// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/valve"
	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/operator"
)

// What the parent writes to a candidate, each in a line. The end of its standard input tells it to end,
// and to remove what the demonstration has created: the parent may be dead.
const (
	wordCut  = "cut"
	wordHeal = "heal"
	wordStop = "stop" // where there is no SIGTERM
)

// demoCandidate is one candidate of a demonstration: a process of its own, which takes part as any
// operator does. It prints a demo.Event in each line.
type demoCandidate struct {
	env            *environment
	lock, identity string
	valve          *valve.Valve

	mu sync.Mutex
}

func newDemoCandidate(env *environment) *cobra.Command {
	d := &demoCandidate{env: env, valve: valve.New()}
	c := &cobra.Command{
		Use:    "demo-candidate",
		Short:  "Take part in a demonstration, as demo tells it to",
		Hidden: true,
		Args:   noArgument,
		RunE:   func(c *cobra.Command, _ []string) error { return failed(d.run(c.Context())) },

		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       roleDemo.marks(),
	}
	c.Flags().StringVar(&d.lock, "lock", "", "The name of the lock.")
	c.Flags().StringVar(&d.identity, "identity", "", "The identity of the candidate.")
	return c
}

// sweepMost is how long a candidate whose parent is gone tries to remove what is left.
const sweepMost = 10 * time.Second

func (d *demoCandidate) run(ctx context.Context) error {
	on, err := d.env.cluster(roleDemo, false)
	if err != nil {
		return err
	}
	config, err := d.env.restConfig()
	if err != nil {
		return err
	}
	dial := valve.Dial((&net.Dialer{Timeout: 30 * time.Second}).DialContext)
	if config.Dial != nil {
		dial = config.Dial
	}
	config.Dial = d.valve.Through(dial)
	ctx, stop := d.env.alone(ctx)
	defer stop()
	orphaned := make(chan struct{})
	go func() { // it ends with the standard input, or with the process
		defer stop()
		defer close(orphaned)
		d.obey(d.env.streams.In, stop)
	}()
	o := operator.Options{
		Namespace: on.namespace, Config: config, NoEvents: true, Labels: demoLabels(d.lock), Version: ownVersion(buildInfo()).GitVersion,
		Logger: logr.FromSlogHandler(slog.NewTextHandler(d.env.streams.ErrOut, nil)),
		Self:   operator.SelfOptions{Identity: d.identity, Kubeconfig: *d.env.config.KubeConfig},
	}
	e, err := operator.New(ctx, d.lock, o)
	if err != nil {
		return err
	}
	transitions := e.Subscribe(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { d.tellFollowing(transitions) })
	err = e.Run(ctx, d.work)
	stop()
	telling.Wait()
	d.tell(demo.Event{Kind: demo.Ended})
	select {
	case <-orphaned:
		return sweep(context.WithoutCancel(ctx), on, d.lock)
	default:
		return err
	}
}

// obey does what the parent says, until it says no more.
func (d *demoCandidate) obey(in io.Reader, stop func()) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case wordCut:
			d.valve.Shut()
		case wordHeal:
			d.valve.Open()
		case wordStop:
			stop()
		}
	}
	d.valve.Open()
}

// work is that of the leader.
func (d *demoCandidate) work(ctx context.Context, term election.Term) error {
	d.tell(demo.Event{Kind: demo.Leading, Token: term.Token, Cause: string(term.Cause)})
	<-ctx.Done()
	d.tell(demo.Event{Kind: demo.Stopping, Cause: context.Cause(ctx).Error()})
	d.tell(demo.Event{Kind: demo.Stopped})
	return nil
}

func (d *demoCandidate) tellFollowing(transitions <-chan election.Transition) {
	for t := range transitions {
		if s := t.Status; t.Change == status.ChangeFollowing && s.Holder != "" && s.Holder != s.Identity {
			d.tell(demo.Event{Kind: demo.Following, Leader: s.Holder})
		}
	}
}

// tell prints an event. The parent may be gone.
func (d *demoCandidate) tell(e demo.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Time, e.Candidate = d.env.now(), d.identity
	line, err := json.Marshal(e)
	if err != nil {
		return // no field can fail to marshal
	}
	_, _ = d.env.streams.Out.Write(append(line, '\n'))
}

// sweep removes all that a demonstration has created.
func sweep(ctx context.Context, on cluster, lock string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepMost)
	defer cancel()
	all, err := leasesOf(ctx, on, demoSelector(lock))
	if err != nil {
		return err
	}
	return remove(ctx, on, all)
}
