// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// beats writes the Lease op, as a holder does whose clock is wrong.
func (w *world) beats() {
	w.server.Change(leasesPath+"op", func(o apitest.Object) { o["spec"].(apitest.Object)["leaseTransitions"] = 5 })
}

// TestAHolderIsHeldToBeAliveOnlyWhereItRenews: the clock of this machine is a
// reason to look more closely, and no proof.
func TestAHolderIsHeldToBeAliveOnlyWhereItRenews(t *testing.T) {
	const old = "no renewal was seen in 3s of watching; the last renewal is 63s old by the clock of this machine"
	for name, tc := range map[string]struct {
		age    time.Duration
		beats  bool
		state  inspect.State
		says   string
		lasted time.Duration
	}{
		"renewed just now":                    {time.Second, false, inspect.Held, "", 0},
		"old by the clock":                    {time.Minute, false, inspect.Stale, old, 3 * time.Second},
		"old by a clock that is wrong":        {time.Hour, true, inspect.Held, "", 2 * time.Second},
		"from the future":                     {-time.Hour, false, inspect.Stale, "in the future", 3 * time.Second},
		"from the future, but alive":          {-time.Hour, true, inspect.Held, "", 2 * time.Second},
		"a little ahead is no reason to look": {-time.Second, false, inspect.Held, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.putLease(newLease("op", "a_1", "za", renewed(tc.age)))
				if tc.beats {
					defer time.AfterFunc(2*time.Second-time.Millisecond, w.beats).Stop()
				}
				began := time.Now()
				r := w.run("status", "op")
				took, says := time.Since(began), strings.Contains(r.errors, tc.says) && (tc.says != "" || r.errors == "")
				if took != tc.lasted || !strings.Contains(r.out, " "+string(tc.state)+" ") || !says {
					t.Errorf("after %v it printed %s%s", took, r.out, r.errors)
				}
			})
		})
	}
}

func TestWatchingPrintsALineOnEachChangeAndOnNoRenewal(t *testing.T) {
	inABubble(t, func(w *world) {
		w.fill()
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan result)
		go func() { ended <- w.runUntil(ctx, "status", "op", "-w") }()
		time.Sleep(lookInterval / 2) // between two looks
		beat := func(d time.Duration) {
			for range int(d / (2 * time.Second)) {
				time.Sleep(2 * time.Second)
				w.renew("op")
			}
			synctest.Wait()
		}
		beat(time.Minute)
		w.putLease(newLease("op", "op-b_1", "zb", phased(record.PhaseDual, 1))) // a failover
		beat(30 * time.Second)
		w.announce("op", "op-d", "zc", "")
		beat(10 * time.Second)
		w.putConfigMap("op", nil, byPod("old-0")) // a manual edit broke the shield
		beat(10 * time.Second)
		time.Sleep(20 * time.Second) // there are no renewals
		synctest.Wait()
		w.server.Delete(leasesPath + "op")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		golden(t, "watched", <-ended)
	})
}

// TestWatchingHoldsAHolderToBeAliveFromItsFirstRenewalOn: its clock is wrong, and that of this machine may be.
func TestWatchingHoldsAHolderToBeAliveFromItsFirstRenewalOn(t *testing.T) {
	inABubble(t, func(w *world) {
		w.putLease(newLease("op", "a_1", "za", renewed(time.Hour)))
		time.AfterFunc(10*time.Second, w.beats)
		r := w.runFor(20*time.Second, "status", "op", "-w")
		if !regexp.MustCompile(`^\S+ +ns/op: stale, .*\n\S+:00:1\dZ +ns/op: held, .*\n$`).MatchString(r.out) {
			t.Error(r.out)
		}
	})
}

func TestWatchingGoesOnAfterAnOutage(t *testing.T) {
	inABubble(t, func(w *world) {
		w.fill()
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan result)
		go func() { ended <- w.runUntil(ctx, "status", "-w", "-A") }()
		time.Sleep(5*time.Second + lookInterval/2) // between two looks
		w.before(func(verb, _ string) (int, apitest.Object) {
			if verb == "list" {
				return http.StatusInternalServerError, apitest.Status(500, "InternalError", "out of order", "", "")
			}
			return 0, nil
		})
		time.Sleep(5 * time.Second)
		w.before(nil)
		time.Sleep(5 * time.Second)
		w.putLease(newLease("op", "op-b_1", "zb", phased(record.PhaseDual, 1)))
		w.server.Delete(leasesPath + "plain")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		golden(t, "outage", <-ended)
	})
}

// TestAHolderThatWaitsIsNotShownAsALeader: the holder says on its presence that its work has not begun.
func TestAHolderThatWaitsIsNotShownAsALeader(t *testing.T) {
	for name, tc := range map[string]struct {
		waiting string
		age     time.Duration
		state   inspect.State
		mode    string // of the holder, while a legacy pod has the ConfigMap; empty if none has
	}{
		"it waits":                      {"legacy pod old-0 may still lead", time.Second, inspect.Waiting, ""},
		"it works":                      {"", time.Second, inspect.Held, ""},
		"it waited, and renews no more": {"legacy pod old-0 may still lead", time.Minute, inspect.Stale, ""},
		"it has not said yet that it waits, for an old pod": {"", time.Second, inspect.Waiting, "auto"},
		"it works whoever has the ConfigMap":                {"", time.Second, inspect.Held, "lease"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.announce("op", "op-a", "za", tc.waiting, func(o *presence.Object) { o.Mode = tc.mode })
				if tc.mode != "" {
					w.putConfigMap("op", nil, byPod("old-0"))
				}
				w.announce("op", "op-b", "zb", "op-a is first") // a follower's wait does not matter here
				w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1), renewed(tc.age)))
				if r := w.run("status", "op", "-o", "jsonpath={.status.state}"); r.out != string(tc.state) {
					t.Errorf("it prints %s%s, want %s", r.out, r.errors, tc.state)
				}
			})
		})
	}
}

// TestAWrongCommandLineIsToldWhatIsWrong, and has an exit code of its own.
func TestAWrongCommandLineIsToldWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"handover":                       "accepts 1 arg(s), received 0\nSee 'kubectl zonelect handover --help'.\n",
		"handover op --to=":              "the next leader is empty",
		"handover op --to a --to-zone b": "use either --to or --to-zone",
		"evacuate za --dry-run=server":   `invalid argument "server" for "--dry-run"`,
		"evacuate za --until=0s":         "--until=0s is no time",
		"restore za zb":                  "accepts 1 arg(s), received 2",
		"doctor --service-account x":     "--service-account is for one lock",
		"doctor op -o wide":              "--output=wide: unable to match a printer",
		"status --nonsense":              "unknown flag: --nonsense",
		"status a -A":                    "name a lock or use --all-namespaces",
		"status -o go-template={{":       "--output=go-template={{: ",
		"migrate plan":                   "accepts 1 arg(s), received 0",
		"migrate plan op --yes":          "unknown flag: --yes",
		"migrate clean op --to=clean":    "unknown flag: --to",
		"migrate advanse op": "unknown command \"advanse\" for \"kubectl zonelect migrate\"\n" +
			"See 'kubectl zonelect migrate --help'.\n",
		"statsu": "unknown command \"statsu\" for \"kubectl zonelect\"; Did you mean this?; status\n" +
			"See 'kubectl zonelect --help'.\n",
		"audit --for 10ms": "--for=10ms: use a second to a day",
		"audit op":         "unknown command \"op\" for \"kubectl zonelect audit\"",
	} {
		inABubble(t, func(w *world) {
			r := w.run(strings.Fields(line)...)
			says := strings.HasPrefix(r.errors, "error: "+want) && strings.Contains(r.errors, "See 'kubectl zonelect ")
			if r.code != exitUsage || !says || r.out != "" {
				t.Errorf("%s: exit code %d, says %s%s\nwant %s", line, r.code, r.out, r.errors, want)
			}
		})
	}
}

// TestNoLockHasAnEmptyName: a script's variable may be empty.
func TestNoLockHasAnEmptyName(t *testing.T) {
	for _, verb := range []string{"status", "handover", "migrate plan", "migrate advance --yes"} {
		inABubble(t, func(w *world) {
			w.well()
			if r := w.run(append(strings.Fields(verb), "")...); r.code != exitError || r.out != "" {
				t.Errorf("%s: exit code %d, says %s%s", verb, r.code, r.out, r.errors)
			}
		})
	}
}
