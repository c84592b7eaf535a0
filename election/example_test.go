// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

func ExampleElector_Run() {
	elector, err := election.New(election.Config{
		Lock:      memory.New("my-operator"), // lease.New returns one on a Lease
		Candidate: locks.Candidate{Identity: "my-operator-1_3f9a", Zone: "zone-a"},
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, in a program
	defer stop()
	err = elector.Run(ctx, func(ctx context.Context, term election.Term) error {
		fmt.Println(term.Holder, "leads by", term.Lock)
		stop()
		<-ctx.Done() // the work goes here
		fmt.Println("the work ends:", context.Cause(ctx))
		return nil
	})
	fmt.Println("released:", elector.Status().Holder == "", err)
	// Output:
	// my-operator-1_3f9a leads by Memory my-operator
	// the work ends: elector stopped: context canceled
	// released: true <nil>
}

// The guard refuses what the work writes once its term is no longer trusted. The receiver
// can refuse older tokens, which is the only protection without a gap.
func ExampleTerm_Guard() {
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("got", r.Method, "with token", r.Header.Get("Fencing-Token"))
	}))
	defer api.Close()
	write := func(term election.Term) error {
		req, err := http.NewRequest(http.MethodPut, api.URL, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Fencing-Token", fmt.Sprint(term.Token))
		client := http.Client{Transport: term.Guard(http.DefaultTransport)}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}

	elector, err := election.New(election.Config{
		Lock:      memory.New("my-operator"),
		Candidate: locks.Candidate{Identity: "my-operator-1_3f9a"},
	})
	if err != nil {
		panic(err)
	}
	err = elector.Run(context.Background(), func(_ context.Context, term election.Term) error {
		return write(term)
	})
	fmt.Println("while it leads:", err)
	err = write(elector.Term())
	fmt.Println("afterwards:", errors.Is(err, election.ErrUntrusted))
	// Output:
	// got PUT with token 1
	// while it leads: <nil>
	// afterwards: true
}

func ExampleElector_Subscribe() {
	elector, err := election.New(election.Config{
		Lock:      memory.New("my-operator"),
		Candidate: locks.Candidate{Identity: "my-operator-1_3f9a"},
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	transitions := elector.Subscribe(ctx)
	if err := elector.Run(ctx, func(context.Context, election.Term) error { return nil }); err != nil {
		panic(err)
	}
	for t := range transitions {
		switch t.Change {
		case status.ChangeLeading:
			fmt.Println("leading with token", t.Status.Term.Token)
		case status.ChangeStopping:
			fmt.Println("stopping:", t.Cause)
		case status.ChangeEnded:
			stop() // closes the channel
		}
	}
	// Output:
	// leading with token 1
	// stopping: work returned
}

// A short lease, and how much time it leaves the work to stop when trust is lost.
func ExampleTiming_Validate() {
	t := election.Timing{LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RenewInterval: time.Second}.WithDefaults()
	fmt.Println(t.Validate(), t.StopGrace)

	t.RenewDeadline = 5 * time.Second
	fmt.Println(t.Validate())
	// Output:
	// <nil> 1.95s
	// timing breaks the law: RenewDeadline 5s + StopGrace 1.95s + drift 50ms is 2s more than LeaseDuration 5s, so that two could lead: use a LeaseDuration of at least 8s
}
