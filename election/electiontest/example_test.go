// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package electiontest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
)

// In the test of a lock of your own. The laws include how it fails.
func ExampleRunSuite() {
	var t *testing.T // that of TestMyLock
	electiontest.RunSuite(t, electiontest.Suite{
		New: func(t *testing.T) election.Lock { return electiontest.NewMemory(t.Name()) }, // your lock
	})
}

// Two candidates lead in turn, and the history says whether that was lawful.
func ExampleHistory() {
	lock := electiontest.NewMemory("my-operator")
	var history electiontest.History
	for _, identity := range []string{"first", "second"} {
		elector, err := election.New(election.Config{Lock: lock, Candidate: election.Candidate{Identity: identity}})
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

func ExampleFaulty() {
	lock := electiontest.NewFaulty(electiontest.NewMemory("my-operator"))
	lock.Set(electiontest.Fault{Err: election.ErrForbidden})
	_, err := lock.Read(context.Background())
	fmt.Println(errors.Is(err, election.ErrForbidden), lock.Calls("read"))
	// Output: true 1
}
