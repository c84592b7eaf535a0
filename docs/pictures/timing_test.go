// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	"fmt"

	"github.com/zonelect/zonelect/election"
)

// timing is lease, deadline and grace on one axis, with the default timing.
func timing() *picture {
	t := election.Timing{}.WithDefaults()
	deadline, grace, lease := t.RenewDeadline.Seconds(), t.StopGrace.Seconds(), t.LeaseDuration.Seconds()
	stopped, drift := deadline+grace, lease*t.MaxClockDrift
	const delay = 0.5 // until the candidate sees the renewal

	p := &picture{name: "timing", title: "Why two cannot lead: the leader's work has stopped before the lease runs out", width: 960, height: 360}
	const left, perSecond = 120, 47
	at := func(second float64) float64 { return left + second*perSecond }
	bar := func(class string, from, to, y float64, name, detail string) {
		p.bar(class, at(from), y, at(to)-at(from), 48)
		p.heading((at(from)+at(to))/2, y+21, 13, "middle", name)
		p.text((at(from)+at(to))/2, y+39, 12, "middle", detail)
	}

	p.heading(20, 30, 16, "start", "One renewal, as the leader and as a candidate count it")
	p.heading(20, 92, 14, "start", "leader")
	bar("good", 0, deadline, 64, "RenewDeadline", fmt.Sprintf("trusts its term for %g s", deadline))
	bar("wait", deadline, stopped, 64, "StopGrace", fmt.Sprintf("the work stops within %g s", grace))
	p.heading(20, 192, 14, "start", "candidate")
	bar("calm", delay, delay+lease, 164, "LeaseDuration", fmt.Sprintf("leaves the lock alone for %g s from when it first saw the renewal", lease))
	p.bar("good", at(delay+lease), 164, 940-at(delay+lease), 48)
	p.text((at(delay+lease)+940)/2, 192, 12, "middle", "may lead")

	moment := func(second, top, bottom float64, anchor, words string) {
		p.rule(at(second), top, at(second), bottom, "4 4")
		p.note(at(second)+map[string]float64{"start": 5, "end": -5}[anchor], bottom-4, 12, anchor, words)
	}
	moment(0, 64, 148, "start", "sends the renewal")
	moment(deadline, 64, 148, "end", "no answer: the work's context ends")
	moment(stopped, 64, 148, "end", "the work has stopped")
	moment(delay, 164, 244, "start", "sees the renewal, no earlier than it was sent")
	p.rule(at(lease), 64, at(lease), 268, "4 4")
	p.note(at(lease)-5, 264, 12, "end", fmt.Sprintf("the rest of the lease covers clock drift: %g s x %g %% = %g s", lease, 100*t.MaxClockDrift, drift))

	p.rule(at(0), 290, at(16.5), 290, "")
	for s := 0.; s <= 16; s += 2 {
		p.rule(at(s), 286, at(s), 294, "")
		p.note(at(s), 312, 12, "middle", fmt.Sprintf("%g s", s))
	}
	p.text(20, 344, 13, "start", "The law: RenewDeadline + StopGrace + LeaseDuration x MaxClockDrift <= LeaseDuration")
	return p
}
