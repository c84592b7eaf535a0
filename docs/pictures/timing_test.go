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
	p := &picture{name: "timing", title: "Why two cannot lead: the leader's work has stopped before the lease runs out", width: 960, height: 392}
	const left, perSecond = 210, 41
	at := func(second float64) float64 { return left + second*perSecond }
	bar := func(class string, from, to, y float64, name, detail string) {
		p.bar(class, at(from), y, at(to)-at(from), 48)
		p.heading((at(from)+at(to))/2, y+21, 13, "middle", name)
		p.text((at(from)+at(to))/2, y+39, 12, "middle", detail)
	}

	p.heading(20, 30, 16, "start", "One renewal, as the leader and as a candidate count it")
	p.heading(20, 92, 14, "start", "leader")
	bar("good", 0, deadline, 64, "RenewDeadline", fmt.Sprintf("trusts its term for %g s", deadline))
	bar("wait", deadline, stopped, 64, "StopGrace", fmt.Sprintf("the work stops in %g s", grace))
	p.bar("bad", at(stopped), 64, at(lease)-at(stopped), 48) // drift
	p.heading(20, 224, 14, "start", "candidate")
	bar("calm", 0, lease, 196, "LeaseDuration", fmt.Sprintf("leaves the lock alone for %g s from when it first saw the renewal", lease))
	p.bar("good", at(lease), 196, 940-at(lease), 48)
	p.text((at(lease)+940)/2, 224, 12, "middle", "may lead")
	for i := 1.; i <= 1; i++ { // earlier renewals
		p.rule(at(-i*t.RenewInterval.Seconds()), 76, at(-i*t.RenewInterval.Seconds()), 100, "")
	}
	p.note(at(-t.RenewInterval.Seconds()), 132, 12, "middle", fmt.Sprintf("renewals, every %g s", t.RenewInterval.Seconds()))

	moment := func(second, top, bottom float64, anchor, words string) {
		p.rule(at(second), top, at(second), bottom, "4 4")
		p.note(at(second)+map[string]float64{"start": 5, "end": -5}[anchor], bottom-4, 12, anchor, words)
	}
	moment(0, 64, 148, "start", "sends the renewal")
	moment(deadline, 64, 148, "end", "no answer: the work's context ends")
	moment(stopped, 64, 168, "end", "the work has stopped")
	p.rule(at(0), 196, at(0), 262, "4 4")
	p.arrow(at(0), 262, at(0)+40, 262)
	p.note(at(0)+46, 266, 12, "start", "sees the renewal at once, which is the worst case: usually later")
	p.rule(at(lease), 64, at(lease), 290, "4 4")
	p.note(at(lease)-5, 286, 12, "end", fmt.Sprintf("red: clock drift, %g %% of %g s = %g s", 100*t.MaxClockDrift, lease, drift))

	p.rule(at(-4), 314, at(17), 314, "")
	for s := -4.; s <= 16; s += 2 {
		p.rule(at(s), 310, at(s), 318, "")
		p.note(at(s), 336, 12, "middle", fmt.Sprintf("%g s", s))
	}
	p.text(20, 374, 13, "start", "The law: RenewDeadline + StopGrace + LeaseDuration x MaxClockDrift <= LeaseDuration")
	return p
}
