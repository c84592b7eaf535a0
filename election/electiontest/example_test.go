// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package electiontest_test

import (
	"context"
	"fmt"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/memory"
)

// Two candidates lead in turn, and the history checks that they never led together.
func ExampleHistory() {
	lock := memory.New("my-operator")
	var history electiontest.History
	for _, identity := range []string{"first", "second"} {
		elector, err := election.New(election.Config{Lock: lock, Candidate: locks.Candidate{Identity: identity}})
		if err != nil {
			panic(err)
		}
		err = elector.Run(context.Background(), history.Lead(func(context.Context, election.Term) error {
			return nil // the work under test
		}))
		if err != nil {
			panic(err)
		}
	}
	for _, term := range history.Terms() {
		fmt.Println(term.Holder, term.Token)
	}
	fmt.Println(history.Check())
	// Output:
	// first 1
	// second 3
	// <nil>
}
