// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"slices"
	"time"
)

// judgement is one election while it is judged.
type judgement struct {
	report Report
	Election
	*index
	place
	last State

	period   time.Duration // zero if it was not seen
	longest  renewal
	deadline time.Duration // zero if it is not visible
	retry    time.Duration // by the pod's arguments; zero if they do not say
}

// renewal is the time between two states of one holder, neither of which was missed.
type renewal struct {
	gap   time.Duration // by the clock that shows the shorter one
	lease time.Duration // that had to hold until then
}

// judge judges one election.
func judge(e Election, x *index) Report {
	j := &judgement{Election: e, index: x, place: x.find(e), last: e.Last()}
	j.report = Report{
		Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, Holder: j.last.Holder, Writer: e.Writer,
		Elector: electorOf(e), Phase: e.Phase, Workload: j.workload, Replicas: x.zonesOf(j.siblings),
	}
	if j.pod != nil {
		j.report.Pod = j.pod.Namespace + "/" + j.pod.Name
	}
	j.measure()
	if j.last.Lease > 0 {
		j.report.Lease = new(exactly(j.last.Lease))
	}
	if j.deadline, j.retry = deadlineOf(j.pod, j.last.Lease, j.period); j.deadline > 0 {
		j.report.Deadline = new(exactly(j.deadline))
	}
	j.cost()
	j.report.Findings = linked(j.check())
	return j.report
}

// measure finds the period of the renewals, and the longest time without one.
func (j *judgement) measure() {
	var gaps []time.Duration
	for i, s := range j.States {
		if i == 0 || !j.renews(i) {
			continue
		}
		j.report.Renewals++
		before := j.States[i-1]
		if s.Blind || before.Blind {
			continue // the one before was made some time before it was seen
		}
		gap := s.At.Sub(before.At)
		gaps = append(gaps, gap)
		if byHolder := s.Renewed.Sub(before.Renewed); byHolder < gap {
			gap = byHolder
		}
		if gap > j.longest.gap {
			j.longest = renewal{gap, before.Lease}
		}
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		j.period = gaps[len(gaps)/2]
		j.report.Period = new(exactly(j.period))
	}
}

// renews reports whether a state is a renewal of the one before.
func (j *judgement) renews(i int) bool {
	s, before := j.States[i], j.States[i-1]
	return s.Holder != "" && s.Holder == before.Holder && !s.Renewed.Equal(before.Renewed)
}
