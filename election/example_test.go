// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/zonelect/zonelect/election"
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
