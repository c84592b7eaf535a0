// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// inABubble runs a test whose clock begins at midnight and stands still.
func inABubble(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// fill makes a namespace with locks of all kinds.
func (w *world) fill() {
	a := w.announce("op", "op-a", "za", "")
	b := w.announce("op", "op-b", "zb", "")
	c := w.announce("op", "op-c", "zb", "")
	w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1)))
	w.shield("op", true, 1, a, b, c)

	w.putLease(newLease("plain", "plain-x_1", "zc"))
	w.putLease(newLease("given-up", "", "", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationReleased] = "4711" }))
	w.putLease(newLease("emptied", "", "", func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationReleased) }))
	w.putLease(newLease("moved", "moved-a_1", "za", phased(record.PhaseSealed, 2)))
	w.putConfigMap("moved", record.WriteStage(map[string]string{"zonelect.dev/legacy-pods": `[{"name":"moved-old","uid":"u"}]`}, record.Stage{Phase: record.PhaseSealed, Step: 2}))
	w.announce("waits", "waits-a", "za", "legacy pod waits-old may still lead: it runs")
	w.putLease(newLease("waits", "waits-a_1", "za", phased(record.PhaseDual, 1)))
	w.putConfigMap("waits", nil, byPod("waits-old"))
	// Not a lock that zonelect knows.
	w.putLease(newLease("kube-other", "someone", "", func(l *coordinationv1.Lease) { l.Annotations = nil }))
	w.putLease(newLease("elsewhere", "e_1", "ze", func(l *coordinationv1.Lease) { l.Namespace = "other" }))
}

func TestStatusShowsLocksInEveryFormat(t *testing.T) {
	for name, args := range map[string][]string{
		"list":       {"status"},
		"list-wide":  {"status", "-o", "wide"},
		"list-json":  {"status", "-o", "json"},
		"list-name":  {"status", "-o", "name"},
		"everywhere": {"status", "-A"},
		"one":        {"status", "op"},
		"one-json":   {"status", "op", "-o", "json"},
		"waits":      {"status", "waits", "-o", "wide"},
		"client-go":  {"status", "kube-other"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.fill()
				golden(t, name, w.run(args...))
			})
		})
	}
}

func TestALockThatHasNotBegunToMoveIsShownByItsConfigMap(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.putConfigMap("op", nil, byPod("old-0"))
		golden(t, "legacy", w.run("status", "op"))
		golden(t, "legacy-name", w.run("status", "op", "-o", "name"))
	})
}

func TestTheRecordOfClientGoIsReadWhereverItStands(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		said := map[string]string{"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"old_7","leaseDurationSeconds":15}`}
		w.putConfigMap("a", said)
		w.putConfigMap("broken", map[string]string{"control-plane.alpha.kubernetes.io/leader": `{`})
		w.server.Put("/api/v1/namespaces/ns/endpoints/b", apitest.Object{
			"apiVersion": "v1", "kind": "Endpoints", "metadata": apitest.Object{"name": "b", "namespace": "ns", "annotations": said},
		})
		w.putLease(newLease("a", "a_1", "za", phased(record.PhaseDual, 1)))
		w.putLease(newLease("b", "b_1", "za", phased(record.PhaseDual, 1), func(l *coordinationv1.Lease) {
			l.Annotations[record.AnnotationLegacy] = "annotation/endpoints/b"
		}))
		w.putLease(newLease("broken", "c_1", "za", phased(record.PhaseDual, 1)))
		golden(t, "records", w.run("status"))
	})
}

func TestNothingThereIsAnErrorThatSaysWhatToDo(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		golden(t, "absent", w.run("status", "op"))
		golden(t, "absent-watched", w.run("status", "op", "-w"))
		golden(t, "empty", w.run("status"))
		golden(t, "empty-everywhere", w.run("status", "-A"))
		golden(t, "empty-json", w.run("status", "-o", "json"))
	})
}

// TestANamespaceThatDoesNotExistIsNotAnEmptyOne, whatever the command.
func TestANamespaceThatDoesNotExistIsNotAnEmptyOne(t *testing.T) {
	const missing = "error: namespace nss does not exist: check -n, and the namespace of the kubeconfig's context\n"
	for line, empty := range map[string]string{
		"status":                   "No locks found in namespace ns.",
		"status -o json":           "No locks found in namespace ns.",
		"status -w":                "No locks found in namespace ns.",
		"status op":                "error: there is no lock op in namespace ns,",
		"status op -w":             "error: there is no lock op in namespace ns,",
		"handover op":              "error: there is no lock op in namespace ns,",
		"evacuate za":              "error: no locks found in namespace ns",
		"restore za":               "error: no locks found in namespace ns",
		"migrate plan op":          "error: there is no lock op in namespace ns,",
		"migrate advance op --yes": "error: there is no lock op in namespace ns,",
	} {
		t.Run(line, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				if r := w.runFor(time.Minute, append(strings.Fields(line), "-n", "nss")...); r.code != exitError && r.code != exitRefused || r.errors != missing || r.out != "" {
					t.Errorf("of no namespace: exit code %d, %s%s", r.code, r.out, r.errors)
				}
				if r := w.runFor(time.Minute, strings.Fields(line)...); !strings.HasPrefix(r.errors, empty) {
					t.Errorf("of an empty one: exit code %d, %s%s", r.code, r.out, r.errors)
				}
				w.server.Before = func(verb, path string) (int, apitest.Object) {
					if strings.HasPrefix(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4 {
						return apitest.Forbidden(verb, path)
					}
					return 0, nil
				}
				r := w.runFor(time.Minute, strings.Fields(line)...)
				if !strings.HasPrefix(r.errors, empty) || !strings.Contains(r.errors, `cannot tell whether namespace ns exists: namespace ns: get: needs verb "get" on namespaces`) {
					t.Errorf("without the right to look: exit code %d, %s%s", r.code, r.out, r.errors)
				}
			})
		})
	}
}

// TestAHolderIsHeldToBeAliveOnlyWhereItRenews: the clock of this machine is a
// reason to look more closely, and no proof.
func TestAHolderIsHeldToBeAliveOnlyWhereItRenews(t *testing.T) {
	for name, tc := range map[string]struct {
		age   time.Duration
		beats bool
		args  []string
		state inspect.State
		note  string
	}{
		"renewed just now":                    {age: time.Second, state: inspect.Held},
		"old by the clock":                    {age: time.Minute, state: inspect.Stale, note: "no renewal was seen in 3s of watching; the last renewal is 1m3s old by the clock of this machine"},
		"old by the clock, which is trusted":  {age: time.Minute, args: []string{"--observe=0"}, state: inspect.Stale, note: "note: op: the last renewal is 1m0s old"},
		"old by a clock that is wrong":        {age: time.Hour, beats: true, state: inspect.Held},
		"from the future":                     {age: -time.Hour, state: inspect.Stale, note: "in the future"},
		"from the future, but alive":          {age: -time.Hour, beats: true, state: inspect.Held},
		"watched for as long as a lease":      {age: time.Minute, args: []string{"--observe=20s"}, state: inspect.Expired, note: "any candidate may take it"},
		"a little ahead is no reason to look": {age: -time.Second, state: inspect.Held},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.putLease(newLease("op", "a_1", "za", renewed(tc.age)))
				if tc.beats {
					beat := time.AfterFunc(2*time.Second, func() {
						w.server.Change(leasesPath+"op", func(o apitest.Object) { o["spec"].(apitest.Object)["leaseTransitions"] = 5 })
					})
					defer beat.Stop()
				}
				r := w.run(append([]string{"status", "op"}, tc.args...)...)
				if !strings.Contains(r.out, " "+string(tc.state)+" ") || !strings.Contains(r.errors, tc.note) || tc.note == "" && r.errors != "" {
					t.Errorf("printed %s%s", r.out, r.errors)
				}
			})
		})
	}
}

// TestAWrongCommandLineIsToldWhatIsWrong, in the words of the command's help, and has an exit code of its own.
func TestAWrongCommandLineIsToldWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"handover":                         "handover needs a LOCK: kubectl zonelect handover LOCK [flags]\nSee 'kubectl zonelect handover --help'.\n",
		"handover ,":                       "handover: the LOCK is empty: kubectl zonelect handover LOCK [flags]\n",
		"handover op --to=":                "--to is empty",
		"handover op --to a --to-zone b":   "use either --to or --to-zone",
		"handover op --timeout 0s":         "--timeout=0s must be above zero",
		"evacuate za --until=-1h":          "--until=-1h is in the past",
		"evacuate za --until tomorrow":     "--until=tomorrow: give a time such as",
		"evacuate a,b":                     "no zone can be ",
		"restore za zb":                    "restore takes one ZONE, not 2: ",
		"doctor --legacy-name x":           "--legacy-name is for one lock",
		"doctor op -o wide":                "--output=wide: use one of ",
		"status --nonsense":                "unknown flag: --nonsense",
		"status a -A":                      "name a lock or use --all-namespaces",
		"status -o go-template={{":         "--output=go-template={{: ",
		"status --observe=-1s":             "--observe=-1s must not be negative",
		"migrate plan":                     "migrate plan needs a LOCK: kubectl zonelect migrate plan LOCK [flags]\n",
		"migrate plan op --yes":            "unknown flag: --yes",
		"migrate advance op --to=x":        "--to=x: use one of ",
		"migrate advance op --timeout=-1s": "--timeout=-1s must not be negative",
		"migrate clean op --acknowledge=x": "--acknowledge=x: use some of ",
		"migrate clean op --to=clean":      "unknown flag: --to",
		"migrate advanse op":               "\"advanse\" is not a command of kubectl zonelect migrate; did you mean advance?\nSee 'kubectl zonelect migrate --help'.\n",
		"statsu":                           "\"statsu\" is not a command of kubectl zonelect; did you mean status?\nSee 'kubectl zonelect --help'.\n",
	} {
		inABubble(t, func(t *testing.T, w *world) {
			args := strings.Fields(line)
			for i := range args {
				args[i] = strings.TrimPrefix(args[i], ",") // an empty variable of the shell
			}
			r := w.run(args...)
			if r.code != exitUsage || !strings.HasPrefix(r.errors, "error: "+want) || r.out != "" || !strings.Contains(r.errors, "See 'kubectl zonelect ") {
				t.Errorf("%s: exit code %d, says %s%s\nwant %s", line, r.code, r.out, r.errors, want)
			}
		})
	}
}

func TestWatchingPrintsALineOnEachChangeAndOnNoRenewal(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.fill()
		var out, errOut buffer
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- w.start(ctx, &out, &errOut, "status", "op", "-w") }()
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
		golden(t, "watched", result{<-ended, out.String(), errOut.String()})
	})
}

func TestWatchingGoesOnAfterAnOutage(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.fill()
		var out, errOut buffer
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		broken := false
		w.server.Before = func(verb, _ string) (int, apitest.Object) {
			if broken && verb == "list" {
				return http.StatusInternalServerError, apitest.Status(500, "InternalError", "out of order", "", "")
			}
			return 0, nil
		}
		go func() { ended <- w.start(ctx, &out, &errOut, "status", "-w", "-A", "-o", "name") }()
		time.Sleep(5*time.Second + lookInterval/2) // between two looks
		set := func(to bool) {
			w.server.Mu.Lock()
			broken = to
			w.server.Mu.Unlock()
		}
		set(true)
		w.cut()
		time.Sleep(5 * time.Second)
		set(false)
		time.Sleep(5 * time.Second)
		w.putLease(newLease("op", "op-b_1", "zb", phased(record.PhaseDual, 1)))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		stop()
		golden(t, "outage", result{<-ended, out.String(), errOut.String()})
	})
}

// TestAHolderThatWaitsIsNotShownAsALeader, in any format: the holder says on its presence
// that its work has not begun.
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
			inABubble(t, func(t *testing.T, w *world) {
				w.announce("op", "op-a", "za", tc.waiting, func(o *presence.Object) { o.Mode = tc.mode })
				if tc.mode != "" {
					w.putConfigMap("op", nil, byPod("old-0"))
				}
				w.announce("op", "op-b", "zb", "op-a is first") // a follower's wait does not matter here
				w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1), renewed(tc.age)))
				for _, args := range [][]string{{"status", "op"}, {"status"}, {"status", "op", "-o", "jsonpath= {.status.state} "}} {
					if r := w.run(args...); !strings.Contains(r.out, " "+string(tc.state)+" ") {
						t.Errorf("%q prints %s%s, want %s", args, r.out, r.errors, tc.state)
					}
				}
			})
		})
	}
}

// TestAHolderThatWaitsMayBeAskedToHandOver, like one that works.
func TestAHolderThatWaitsMayBeAskedToHandOver(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.announce("op", "op-a", "za", "legacy pod old-0 may still lead")
		w.announce("op", "op-b", "zb", "")
		w.putLease(newLease("op", "op-a_1", "za", phased(record.PhaseDual, 1)))
		if r := w.run("handover", "op", "--wait=false"); r.code != exitOK || w.annotations("op")[record.AnnotationRequest] == nil {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
	})
}

// TestADryRunSaysWhatItMayBe, and changes nothing, like kubectl's.
func TestADryRunSaysWhatItMayBe(t *testing.T) {
	for flag, want := range map[string]struct {
		code  int
		says  string
		tried bool
	}{
		"--dry-run":        {exitOK, "", false},
		"--dry-run=client": {exitOK, "", false},
		"--dry-run=none":   {exitOK, "", true},
		"--dry-run=false":  {exitOK, "", true},
		"--dry-run=server": {exitUsage, "use none or client: a dry run reads, and sends no write that the server could try", false},
		"--dry-run=maybe":  {exitUsage, `invalid argument "maybe" for "--dry-run" flag: use none or client`, false},
	} {
		for _, line := range []string{"evacuate zb", "restore zc", "migrate advance op -l app=op --yes"} {
			inABubble(t, func(t *testing.T, w *world) {
				w.joins("op-a", "za")
				w.joins("op-b", "zb")
				w.annotate("op", record.AnnotationEvacuated, "zc")
				before := w.marks()
				r := w.runFor(time.Minute, append(strings.Fields(line), flag)...)
				if r.code != want.code || !strings.Contains(r.errors, want.says) || (w.marks() != before) != want.tried {
					t.Errorf("%s %s: exit code %d, changed %v: %s%s", line, flag, r.code, w.marks() != before, r.out, r.errors)
				}
			})
		}
	}
}

// marks are the annotations that people have put on the lock op.
func (w *world) marks() string {
	all := w.annotations("op")
	return fmt.Sprint(all[record.AnnotationPhase], all[record.AnnotationEvacuated])
}
