// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

// architecture is the packages and what they depend on.
func architecture() *picture {
	p := &picture{name: "architecture", title: "The packages of zonelect, and what they depend on", width: 1000, height: 640}
	p.heading(20, 30, 16, "start", "The packages and their main dependencies")

	p.box("plain", 20, 50, 300, 62, "your operator", "the work that one replica does")
	p.box("plain", 340, 50, 340, 62, "cmd/kubectl-zonelect", "who leads; move leaders; migrate; timing")
	p.box("plain", 700, 50, 280, 62, "config", "kustomize: the rights of each feature")

	p.box("calm", 20, 146, 300, 62, "operator", "one call, flags, bridge, write guard")
	p.box("calm", 340, 146, 340, 62, "operator/ctrlruntime", "a controller-runtime manager's election")
	p.box("calm", 700, 146, 280, 62, "migrate", "checks and takes a migration's steps")
	p.arrow(170, 112, 170, 146)
	p.arrow(340, 177, 320, 177)
	p.rule(660, 112, 660, 129, "")
	p.rule(660, 129, 840, 129, "")
	p.arrow(840, 129, 840, 146)

	p.box("good", 20, 242, 470, 62, "election", "campaigns, renews, releases; knows no Kubernetes")
	p.box("calm", 510, 242, 470, 62, "zone", "who goes first; which timing fits")
	p.arrow(170, 208, 170, 242)
	p.rule(260, 208, 260, 225, "")
	p.rule(260, 225, 745, 225, "")
	p.arrow(745, 225, 745, 242)

	p.box("wait", 20, 338, 960, 50, "locks: the contract", "Lock, Record, Version, Event; Guardian if a lock is more")
	p.arrow(255, 304, 255, 338)
	p.arrow(745, 304, 745, 338)

	p.box("calm", 20, 428, 750, 62, "locks/multilock", "one lock out of a Lease and a legacy lock: shield, twin, or the Lease alone")
	p.arrow(395, 428, 395, 388)
	p.note(405, 413, 12, "start", "implement")
	for i, b := range [][2]string{{"locks/lease", "a Lease"}, {"locks/annotation", "client-go's old record"}, {"locks/ownerref", "leader-for-life's ConfigMap"}} {
		x := 20 + float64(i)*255
		p.box("calm", x, 524, 240, 62, b[0], b[1])
		p.arrow(x+120, 490, x+120, 524)
	}
	p.box("calm", 790, 428, 190, 158, "locks/memory", "for tests", "and examples")
	p.arrow(885, 428, 885, 388)
	p.note(20, 622, 12, "start", "Below all of them, in internal: the record's form, presences, proof of death, connections, requests.")
	return p
}
