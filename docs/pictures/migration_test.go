// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

// migration is who leads in each phase, and what the ConfigMap looks like.
func migration() *picture {
	p := &picture{name: "migration", title: "The phases of a migration off leader-for-life: who leads, and what is on the ConfigMap", width: 1170, height: 454}
	const left, width, gap, off = 260, 200, 25, 40
	at := func(column int) float64 { return left + float64(column)*(width+gap) }

	p.heading(20, 24, 16, "start", "The phases of a migration off leader-for-life")
	for i, phase := range []string{"legacy", "dual", "sealed", "clean"} {
		p.bar("calm", at(i), 78, width, 36)
		p.heading(at(i)+width/2, 101, 15, "middle", phase)
	}
	p.box("plain", 20, 70, 180, 52, "today", "only the old version")
	p.rule(110, 70, 110, 36, "")
	p.rule(110, 36, at(1)+width/2, 36, "")
	p.arrow(at(1)+width/2, 36, at(1)+width/2, 78)
	p.note(at(1)+width/2+8, 40, 12, "start", "roll out the new version in mode auto")

	// An arrow runs from the middle of one phase to that of another, above or below.
	step := func(from, to int, y, edge float64, name string) {
		x1, x2 := at(from)+width/2+off, at(to)+width/2-off
		if to < from {
			x1, x2 = at(from)+width/2-off, at(to)+width/2+off
		}
		p.rule(x1, edge, x1, y, "")
		p.rule(x1, y, x2, y, "")
		p.arrow(x2, y, x2, edge)
		p.note((x1+x2)/2, y-5, 12, "middle", name)
	}
	step(0, 1, 62, 78, "migrate advance")
	step(1, 2, 62, 78, "migrate advance")
	step(2, 3, 62, 78, "migrate clean")
	step(1, 0, 138, 114, "migrate rollback")
	step(2, 1, 138, 114, "migrate rollback")
	p.rule(at(3)+width/2, 114, at(3)+width/2, 168, "")
	p.rule(at(3)+width/2, 168, at(1)+width/2, 168, "")
	p.arrow(at(1)+width/2, 168, at(1)+width/2, 114)
	p.note(at(2)+width/2, 163, 12, "middle", "migrate rollback: safe only while no old pod comes back")

	row := func(y float64, name [2]string, cells [4][3]string) {
		p.heading(20, y+29, 13, "start", name[0])
		p.heading(20, y+46, 13, "start", name[1])
		for i, c := range cells {
			p.bar(c[0], at(i), y, width, 64)
			if c[2] == "" {
				p.text(at(i)+width/2, y+37, 12, "middle", c[1])
				continue
			}
			p.text(at(i)+width/2, y+29, 12, "middle", c[1])
			p.text(at(i)+width/2, y+46, 12, "middle", c[2])
		}
	}
	row(190, [2]string{"who", "leads"}, [4][3]string{
		{"wait", "an old pod, for life;", "candidates stay back"},
		{"good", "a candidate, when the", "last old pod is gone"},
		{"good", "a candidate", ""},
		{"good", "a candidate", ""},
	})
	row(264, [2]string{"ConfigMap's", "owner"}, [4][3]string{
		{"plain", "the old leader's Pod", ""},
		{"plain", "the candidates' presences:", "the shield, armed"},
		{"plain", "nobody:", "the shield, sealed"},
		{"plain", "the ConfigMap is gone", ""},
	})
	row(338, [2]string{"an old pod", "that starts"}, [4][3]string{
		{"wait", "leads, or waits for", "the old leader"},
		{"good", "waits until the last", "candidate's pod is gone"},
		{"good", "waits for good", ""},
		{"bad", "leads: nothing", "keeps it out"},
	})
	p.note(20, 422, 12, "start", "The phase is an annotation on the Lease and on the ConfigMap. Among candidates the Lease decides in every phase.")
	return p
}
