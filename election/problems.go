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

// report records what came of an operation: a problem is published and logged
// when it is new, and when it is gone.
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
// another connection does not share.
func wording(err error) string {
	var network *net.OpError
	if errors.As(err, &network) && network.Source != nil {
		return strings.ReplaceAll(err.Error(), network.Source.String(), "")
	}
	return err.Error()
}

// forgetLostWrite forgets a write whose answer was lost, once it is seen that another
// holds the lock: that one was settled, and there is none to come. What the
// server refused, it would refuse again.
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

// reportWrite records what came of a write. A conflict is no problem: that is how
// candidates learn from each other.
func (r *run) reportWrite(a answer) {
	if a.refused() {
		return // who goes on without amendments has no problem
	}
	if a.op == opRenew {
		r.telemetry.renewal(r.requests, a.err)
	}
	if a.conflict() {
		a.err = nil
	}
	r.report(a.op, a.err)
}
