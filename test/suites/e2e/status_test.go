// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election/timing"
)

// shownStatus is what status -o json says of a lock.
type shownStatus struct {
	State  string
	Leader struct {
		Identity, Zone        string
		LeaseLeftMilliseconds *int64
		LeaseLeftBy           string
	}
	NobodyLeads *struct {
		Since          time.Time
		Last, LastZone string
		Uncertain      bool
	}
	Next         *struct{ Identity, Zone string }
	LastFailover *struct {
		From, FromZone, To, ToZone, Cause string
		NobodyLedMilliseconds             *int64
	}
	Notes []string
}

// Status names the leader, and who takes over from it when its zone loses power. While nobody
// leads it never says that somebody does.
func TestStatusFollowsALossOfPower(t *testing.T) {
	s := newShift(t, "op", 4*time.Minute)
	grant(t, s.ctx, s.client, "status", "watcher")
	p := plugin{s.plugin.path, s.plugin.kubeconfig, []string{"--as", "watcher"}}
	look := func(line string) shownStatus {
		t.Helper()
		var shown struct{ Status shownStatus }
		must(t, json.Unmarshal([]byte(p.run(t, s.ctx, exitOK, "status op -o json "+line)), &shown))
		return shown.Status
	}
	try := func() (_ shownStatus, answered bool) { // etcd may elect a leader
		var shown struct{ Status shownStatus }
		out, err := p.command(s.ctx, "status", "op", "-o", "json", "--observe=0").Output()
		if err == nil {
			err = json.Unmarshal(out, &shown)
		}
		return shown.Status, err == nil
	}
	order := []string{"--preferred-zones", "za,zb,zc"} // else zb and zc are equals
	s.start(t, "za", order...)
	s.leads(t, "op", time.Time{})
	s.start(t, "zb", order...)
	s.start(t, "zc", order...)
	s.announced(t, 3)
	time.Sleep(3 * timing.DefaultRenewInterval) // the others see renewals
	watched := p.follow(t, "status", "op", "-w")
	old := s.seats["za"].Identity
	before := look("")
	if before.State != "held" || before.Leader.Identity != old || before.Leader.Zone != "za" || before.NobodyLeads != nil || before.LastFailover != nil || len(before.Notes) > 0 {
		t.Fatalf("before, the status is %+v", before)
	}
	if left := before.Leader.LeaseLeftMilliseconds; left == nil || *left <= 0 || *left > lease.Milliseconds() {
		t.Errorf("before, what is left of the lease is %v", left)
	}
	if before.Next == nil || before.Next.Identity == "" || before.Next.Zone == "za" {
		t.Fatalf("the next is %+v", before.Next)
	}
	must(t, s.CutPower(s.ctx, "za"))
	cut := time.Now()
	after := before
	for after.Leader.Identity == old && s.ctx.Err() == nil {
		asked := time.Now()
		now, answered := try()
		if !answered {
			continue
		}
		if after = now; after.Leader.Identity != old {
			break
		}
		if after.State == "held" && asked.Sub(cut) > lease+time.Second {
			t.Fatalf("%v after its zone lost power %s is said to lead", asked.Sub(cut), old)
		}
		if after.State != "held" && (after.NobodyLeads == nil || after.NobodyLeads.Last != old) {
			t.Errorf("in between, the status is %+v", after)
		}
		time.Sleep(500 * time.Millisecond)
	}
	another := after.Leader.Identity != before.Next.Identity
	if f := after.LastFailover; f != nil && f.NobodyLedMilliseconds != nil && *f.NobodyLedMilliseconds > (lease+timing.DefaultRenewInterval).Milliseconds()-500 {
		another = false // a Step later another may lead
	}
	if after.State != "held" || another {
		t.Errorf("after that %s was said to be next, the status is %+v", before.Next.Identity, after)
	}
	if f := after.LastFailover; f == nil || f.From != old || f.To != after.Leader.Identity || f.Cause != "expired" || f.NobodyLedMilliseconds == nil || *f.NobodyLedMilliseconds < lease.Milliseconds()-1000 {
		t.Errorf("the last failover is %+v", f)
	}
	s.until(t, "no connection runs to the dark zone", func() bool { return !slices.Contains(s.Network.Backends("zc"), "za") })
	p.run(t, s.ctx, exitOK, "status op", "held", after.Leader.Identity, "(expired)")
	if after.Next == nil || after.Next.Identity == old {
		t.Errorf("right after %s was lost, the next is %+v", old, after.Next)
	}
	for _, zone := range []string{"zb", "zc"} {
		must(t, s.seats[zone].Kill())
	}
	time.Sleep(lease) // it is held until then, as far as a lease says
	gone := look("--observe=20s")
	if v := gone.NobodyLeads; gone.State != "expired" || v == nil || v.Last != after.Leader.Identity || v.Uncertain || v.Since.Before(cut) {
		t.Errorf("when nobody is left, the status is %+v", gone)
	}
	p.run(t, s.ctx, exitOK, "status op --observe=16s", "expired", "nobody (was "+after.Leader.Identity+")", "nobody leads since")
	t.Logf("$ kubectl zonelect status op -w\n%s", watched())
}
