// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

func TestEachTransitionOfATermIsOneEvent(t *testing.T) {
	leader := election.Status{Identity: "a", Lock: locks.Description{Kind: "Lease", Namespace: "ns", Name: "lock"}}
	leader.Term = election.Term{Cause: status.CauseExpired, Previous: "b"}
	transitions := make(chan election.Transition, 20)
	for _, change := range []status.Change{
		status.ChangeFollowing, status.ChangeProblem, status.ChangeLeading, status.ChangeStopping,
		status.ChangeOverrun, status.ChangeStopped, status.ChangeReleased,
	} {
		transitions <- election.Transition{Change: change, Cause: errors.New("why"), Status: leader}
	}
	transitions <- election.Transition{Change: status.ChangeRefused, Cause: errors.New("why"), Status: leader}
	transitions <- election.Transition{Change: status.ChangeStaying, Status: leader}
	leader.Staying = "nobody else"
	transitions <- election.Transition{Change: status.ChangeStaying, Status: leader}
	close(transitions)
	recorder := record.NewFakeRecorder(10)
	Record(recorder, transitions)
	close(recorder.Events)
	for _, part := range []string{
		"LeaderElection a became leader (expired) after b", "LeaderStopping a stops leading: why", "LeaderOverrun", "LeaderReleased",
		"Warning LeaderHandoverRefused a goes on leading: why", "Warning LeaderStays a goes on leading: nobody else",
	} {
		if got := <-recorder.Events; !strings.Contains(got, part) {
			t.Errorf("event %q, want %q", got, part)
		}
	}
	if extra, more := <-recorder.Events; more {
		t.Errorf("another event: %q", extra)
	}
}

func TestTheHealthOfALeaderIsAnEventAndThatOfAFollowerIsNone(t *testing.T) {
	transitions := make(chan election.Transition, 10)
	for _, state := range []status.State{status.StateFollower, status.StateLeader} {
		for _, problem := range []error{errors.New("the disk is full"), nil} {
			transitions <- election.Transition{Change: status.ChangeHealth, Status: election.Status{Identity: "a", State: state, Unhealthy: problem}}
		}
	}
	close(transitions)
	recorder := record.NewFakeRecorder(10)
	Record(recorder, transitions)
	close(recorder.Events)
	for _, want := range []string{"Warning LeaderUnhealthy a is unhealthy: the disk is full", "Normal LeaderHealthy a is healthy again", ""} {
		if got := <-recorder.Events; got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}

// TestOnlyALostTermIsAWarning: a release, a handover and a restart are not.
func TestOnlyALostTermIsAWarning(t *testing.T) {
	for want, causes := range map[string][]error{
		"Warning": {election.ErrLost, fmt.Errorf("%w: %w", election.ErrLost, errors.New("the shield is gone"))},
		"Normal":  {election.ErrStopped, election.ErrResigned, election.ErrHandedOver, election.ErrReturned, election.ErrWithdrawn},
	} {
		for _, cause := range causes {
			transitions := make(chan election.Transition, 1)
			transitions <- election.Transition{Change: status.ChangeStopping, Cause: cause, Status: election.Status{Identity: "a"}}
			close(transitions)
			recorder := record.NewFakeRecorder(1)
			Record(recorder, transitions)
			if got := <-recorder.Events; got != want+" LeaderStopping a stops leading: "+cause.Error() {
				t.Errorf("%v is told as %q, want type %s", cause, got, want)
			}
		}
	}
}
