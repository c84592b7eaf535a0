// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

// architecture is the packages in layers: each uses what is below it.
func architecture() *picture {
	p := &picture{name: "architecture", title: "The packages of zonelect in layers: each layer uses those below it", width: 1000, height: 560}
	p.heading(20, 30, 16, "start", "The packages: each layer uses those below it")

	layer := func(y float64, name, what, class string, boxes ...[2]string) {
		p.heading(20, y+28, 13, "start", name)
		p.note(20, y+46, 12, "start", what)
		const left, all, gap = 190, 790, 10
		w := (all - gap*float64(len(boxes)-1)) / float64(len(boxes))
		for i, b := range boxes {
			p.box(class, round(left+float64(i)*(w+gap)), y, round(w), 62, b[0], b[1])
		}
	}
	layer(50, "programs", "that people run", "plain",
		[2]string{"kubectl-zonelect", "who leads; move; migrate"}, [2]string{"zonelect-sidecar", "for any language"}, [2]string{"your operator", "one replica works"})
	layer(126, "to import", "by an operator", "calm",
		[2]string{"ctrlruntime", "a manager"}, [2]string{"leaderelection", "client-go's names"}, [2]string{"prometheus", "metrics"})
	layer(202, "", "", "calm",
		[2]string{"operator", "one call, flags, write guard"}, [2]string{"migrate", "a migration's steps"})
	layer(278, "core", "no Kubernetes", "good",
		[2]string{"election", "campaigns, renews, releases"}, [2]string{"zone", "who goes first"})
	layer(354, "contract", "of a lock", "wait",
		[2]string{"locks", "Lock, Record, Version, Event; a guardian if a lock needs one"})
	layer(430, "locks", "meet the contract", "calm",
		[2]string{"lease", "a Lease"}, [2]string{"multilock", "Lease + legacy lock"}, [2]string{"annotation", "client-go's record"}, [2]string{"ownerref", "leader-for-life"}, [2]string{"memory", "for tests"})
	p.note(20, 520, 12, "start", "ctrlruntime, leaderelection and prometheus are below operator/. config has the rights and manifests.")
	p.note(20, 540, 12, "start", "Below all of them, in internal: the record's form, presences, proof of death, connections, requests.")
	return p
}
