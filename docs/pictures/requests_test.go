// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

import (
	"fmt"
	"math"
	"strconv"
)

// requests is how many requests many locks cost, by the figures of docs/evidence.json, on two logarithmic axes.
func requests() *picture {
	const claim = "Requests for many locks"
	p := &picture{name: "scale-requests", title: "Requests per second of three processes, by number of locks", width: 860, height: 400}
	p.heading(20, 30, 16, "start", "Requests per second of three processes, by number of locks")
	x := func(locks float64) float64 { return 80 + 180*math.Log10(locks) }
	y := func(perSecond float64) float64 { return round(290 - 70*math.Log10(perSecond)) }
	for _, n := range []float64{0.1, 1, 10, 100, 1000} {
		p.rule(x(1), y(n), x(1000), y(n), "2 4")
		p.note(x(1)-10, y(n)+4, 12, "end", fmt.Sprintf("%g", n))
	}
	columns := []string{"1 lock", "10", "100", "1,000"}
	for i, c := range columns {
		p.note(x(math.Pow10(i)), 384, 12, "middle", c)
	}
	for _, line := range []struct{ row, class string }{{"operator.Run", "calm"}, {"operator.NewGroup", "wait"}, {"heartbeat.NewGroup", "good"}, {"client-go", "bad"}} {
		var before, last [2]float64
		for i, c := range columns {
			n, err := strconv.ParseFloat(evidence(claim, line.row, c), 64)
			if err != nil {
				break // it was not measured
			}
			last = [2]float64{x(math.Pow10(i)), y(n)}
			if i > 0 {
				p.rule(before[0], before[1], last[0], last[1], "")
			}
			p.bar(line.class, last[0]-5, last[1]-5, 10, 10)
			before = last
		}
		p.text(last[0]+12, last[1]+map[string]float64{"operator.Run": 18}[line.row]+4, 13, "start", line.row)
	}
	return p
}
