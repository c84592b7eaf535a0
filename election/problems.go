// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"net"
	"strings"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
)

// report records the result of an operation. It publishes and logs a problem when it is
// new, and again when it is gone.
func (r *run) report(op operation, err error) {
	before := r.problems[op.kind()]
	if err == nil && before == nil || err != nil && before != nil && wording(err) == wording(before) {
		return
	}
	r.problems[op.kind()] = err
	problem := func(s *Status) { s.Problem = r.problem() }
	if err == nil {
		r.board.publish(status.ChangeResolved, nil, problem)
		r.log.Info("problem resolved", "operation", string(op))
		return
	}
	r.board.publish(status.ChangeProblem, nil, problem)
	r.log.Error(err, "cannot use the lock", "operation", string(op))
}

// wording is an error's text without the local address of a connection, which
// another connection does not share, and without how long a request that was given up took.
func wording(err error) string {
	if locks.Unsettled(err) != nil {
		return "not back" // how long it has taken says nothing new
	}
	var network *net.OpError
	if errors.As(err, &network) && network.Source != nil {
		return strings.ReplaceAll(err.Error(), network.Source.String(), "")
	}
	return err.Error()
}

// forgetLostWrite forgets the problem with a write whose answer was lost, once another
// candidate is seen to hold the lock: the write is settled, and no other will follow it. A
// problem with a write that the server refused stays, because the server would refuse it
// again.
func (r *run) forgetLostWrite() {
	holder, _ := r.observer.Holder()
	lost := r.problems[opWrite]
	if holder != "" && holder != r.config.Candidate.Identity && !errors.Is(lost, locks.ErrForbidden) && !errors.Is(lost, locks.ErrNoAPI) {
		r.report(opWrite, nil)
	}
}

func (r *run) problem() error {
	return errors.Join(r.problems[opRead], r.problems[opWrite], r.problems[opWatch])
}

// reportAnswer records the result of a request. A conflict is no problem, because candidates
// learn of each other that way.
func (r *run) reportAnswer(a answer) {
	if a.op == opRenew {
		r.meters.renewed(r.requests, a.end.Sub(a.departed.awake), a.err)
	}
	if a.conflict() {
		a.err = nil
	}
	r.report(a.op, a.err)
}
