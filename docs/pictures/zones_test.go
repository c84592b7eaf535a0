// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package pictures_test

// connection is one from the replica of a zone to the API server of another, 0 to 2.
type connection struct {
	from, to int
	dead     bool
}

// zones is what becomes of the followers' connections when the leader's zone is lost.
func zones() *picture {
	p := &picture{name: "zones", title: "The leader's zone is lost: what becomes of the followers' connections with client-go and with zonelect", width: 960, height: 545}
	p.heading(20, 30, 16, "start", "Three zones: whose connection reaches an API server")
	const left, panel, gap = 100, 270, 15
	for i, name := range []string{"before", "the zone is dark", "the lease has ended"} {
		p.heading(left+float64(i)*(panel+gap)+panel/2, 62, 14, "middle", name)
	}
	draw := func(column int, top float64, dark bool, leader int, connections ...connection) {
		x := left + float64(column)*(panel+gap)
		middle := func(zone int) float64 { return x + 45 + 90*float64(zone) }
		for zone, name := range []string{"zone a", "zone b", "zone c"} {
			class, api, pod := "plain", "calm", "calm"
			if zone == leader {
				pod = "good"
			}
			if dark && zone == 0 {
				class, api, pod = "dark", "dark", "dark"
			}
			p.bar(class, middle(zone)-43, top, 86, 150)
			p.note(middle(zone), top+144, 12, "middle", name)
			p.bar(api, middle(zone)-36, top+8, 72, 26)
			p.text(middle(zone), top+25, 11, "middle", "API server")
			p.bar(pod, middle(zone)-36, top+100, 72, 26)
			words := "follower"
			switch {
			case dark && zone == 0:
				words = "gone"
			case zone == leader:
				words = "leader"
			}
			p.text(middle(zone), top+117, 11, "middle", words)
		}
		for _, c := range connections {
			p.connect(middle(c.from), top+100, middle(c.to), top+35, c.dead)
		}
	}
	all := []connection{{from: 0}, {from: 1}, {from: 2}}
	lane := func(top float64, name string) { p.heading(20, top+78, 14, "start", name) }

	lane(80, "client-go")
	draw(0, 80, false, 0, all...)
	draw(1, 80, true, -1, connection{1, 0, true}, connection{2, 0, true})
	draw(2, 80, true, -1, connection{1, 0, true}, connection{2, 0, true})
	p.note(left+panel/2, 250, 12, "middle", "a load balancer chose zone a")
	p.note(left+panel+gap+panel/2, 250, 12, "middle", "the dead connections look alive")
	p.text(left+2*(panel+gap)+panel/2, 250, 12, "middle", "nobody leads: HTTP/2 waits up to")
	p.text(left+2*(panel+gap)+panel/2, 267, 12, "middle", "45 s before it drops a connection")

	lane(300, "zonelect")
	draw(0, 300, false, 0, all...)
	draw(1, 300, true, -1, connection{1, 1, false}, connection{2, 2, false})
	draw(2, 300, true, 1, connection{1, 1, false}, connection{2, 2, false})
	p.note(left+panel/2, 470, 12, "middle", "the same")
	p.note(left+panel+gap+panel/2, 470, 12, "middle", "3 s of silence: the followers read")
	p.note(left+panel+gap+panel/2, 487, 12, "middle", "the Lease on new connections")
	p.text(left+2*(panel+gap)+panel/2, 470, 12, "middle", "the next replica leads at once")
	p.note(20, 530, 12, "start", "The worst case: all connections lead to the lost zone. A follower of client-go whose connection leads elsewhere takes over sooner.")
	return p
}
