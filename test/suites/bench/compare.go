// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
)

// figure is one figure of a measurement, and by how much it must grow before it counts: by
// its factor and by more than the least difference. Counts are the same on every machine,
// times and CPU are not.
type figure struct {
	name          string
	value         float64
	factor, least float64
}

func (i Idle) figures() []figure {
	return []figure{
		{"requests/s", i.Requests, 1.2, 0.5},
		{"bytes/s", i.Bytes, 1.3, 2000},
		{"connections", float64(i.Connections), 1.2, 3},
		{"watches", float64(i.Watches), 1.2, 2},
		{"goroutines", float64(i.Goroutines), 1.1, 10},
		{"resident bytes", float64(i.RSS), 1.3, 8 << 20},
		{"CPU of the clients", i.ClientCPU, 1.5, 0.05},
		{"CPU of the API servers", i.ServerCPU, 1.5, 0.1},
		{"CPU of etcd", i.EtcdCPU, 1.5, 0.1},
	}
}

func (t Takeover) figures() []figure {
	return []figure{
		{"seconds until 50 % are led", t.Half, 1.3, 1},
		{"seconds until 99 % are led", t.Most, 1.3, 1},
		{"seconds until all are led", t.All, 1.3, 2},
		{"writes", float64(t.Writes), 1.2, 10},
		{"locks without a leader", float64(t.Locks - t.Led), 1, 0},
	}
}

// compare prints what got worse since before. Other populations have nothing to compare.
func compare(to io.Writer, before, now *Results) {
	was := map[string][]figure{}
	for _, i := range before.Idle {
		was[i.key()] = i.figures()
	}
	for _, t := range before.Takeovers {
		was[t.key()] = t.figures()
	}
	compared, worse := 0, 0
	check := func(key string, figures []figure) {
		old := was[key]
		if old == nil {
			return
		}
		compared++
		for n, f := range figures {
			if o := old[n].value; f.value > o*f.factor && f.value-o > f.least {
				worse++
				_, _ = fmt.Fprintf(to, "WORSE: %s: %s: %.4g, was %.4g (x%.2g)\n", key, f.name, f.value, o, f.value/o)
			}
		}
	}
	for _, i := range now.Idle {
		check(i.key(), i.figures())
	}
	for _, t := range now.Takeovers {
		check(t.key(), t.figures())
	}
	_, _ = fmt.Fprintf(to, "\n%d measurements have a baseline; %d figures got worse.\n", compared, worse)
}
