// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

// ways is how to find the way in.
func ways() *picture {
	p := &picture{name: "ways", title: "Which way in: by what a program uses today", width: 860, height: 470}
	p.heading(20, 30, 16, "start", "Which way in?")
	rows := []struct{ question, of, way, what string }{
		{"Is it written in Go?", "no", "zonelect-sidecar", "runs the program while its replica leads"},
		{"Does it have a lock for each tenant or shard?", "yes", "operator.NewGroup", "all elections of a process share connections"},
		{"Does it call operator-sdk's leader.Become?", "yes", "operator.Become", "then kubectl zonelect migrate"},
		{"Does it have a controller-runtime manager?", "yes", "ctrlruntime.NewLasting", "in place of ctrl.NewManager"},
		{"Does it import client-go's leaderelection?", "yes", "operator/leaderelection", "one import changes"},
	}
	const height = 72
	for i, r := range rows {
		y := 50 + height*float64(i)
		p.bar("plain", 20, y, 380, 44)
		p.text(210, y+27, 13, "middle", r.question)
		p.arrow(400, y+22, 500, y+22)
		p.note(450, y+17, 12, "middle", r.of)
		p.box("good", 500, y, 340, 44, r.way, r.what)
		p.arrow(210, y+44, 210, y+height)
		other := "no"
		if r.of == "no" {
			other = "yes"
		}
		p.note(220, y+62, 12, "start", other)
	}
	p.box("good", 20, 50+height*float64(len(rows)), 380, 44, "operator.Run", "the program gives its work as a function")
	return p
}
