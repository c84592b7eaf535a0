// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// campaign starts a candidate, which works as users' candidates do, and lets it lead if it can. The returned function
// kills it: nothing is released.
func (w *world) campaign(lock, pod, zone string) (kill func()) {
	w.t.Helper()
	w.announce(lock, pod, zone, "", func(o *presence.Object) { o.Unhealthy = w.sick[o.Identity] })
	broken := make(chan struct{})
	way := http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		select {
		case <-broken:
			<-r.Context().Done()
		default:
			w.server.ServeHTTP(a, r)
		}
	})
	client := apitest.Wire(w.t, way, coordinationv1.SchemeGroupVersion)
	l, err := lease.New(lease.Config{Client: client, Namespace: "ns", Name: lock})
	must(w.t, err)
	w.elect(l, locks.Candidate{Identity: pod + "_1", Zone: zone}, func(ctx context.Context, tell func([]locks.Peer)) {
		for ctx.Err() == nil {
			all, _ := presence.List(ctx, client, "ns", lock) // the next look may succeed
			var peers []locks.Peer
			for _, o := range all {
				peers = append(peers, locks.Peer{Candidate: locks.Candidate{Identity: o.Identity, Zone: o.Zone}, Unhealthy: w.sick[o.Identity]})
			}
			if tell(peers); sleep.For(ctx, time.Second) != nil {
				return
			}
		}
	})
	return func() { close(broken) }
}

// elect lets a candidate campaign until the test ends.
func (w *world) elect(on locks.Lock, candidate locks.Candidate, peers func(context.Context, func([]locks.Peer))) {
	w.t.Helper()
	e, err := election.New(election.Config{
		Lock: on, Candidate: candidate, WatchPeers: peers, TakeoverDelay: func(election.Takeover) time.Duration { return 0 },
	})
	must(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx, func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			time.Sleep(w.stops)
			return nil
		})
	}()
	w.t.Cleanup(func() { stop(); <-ended })
	synctest.Wait()
}

// spec returns that of a Lease.
func (w *world) spec(lock string) apitest.Object {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	return apitest.Clone(w.server.Objects[leasesPath+lock])["spec"].(apitest.Object)
}

// leader returns the leader, by the Lease.
func (w *world) leader(lock string) string {
	holder, _ := w.spec(lock)["holderIdentity"].(string)
	return holder
}

// trio starts candidates for a lock in three zones; that in za leads.
func (w *world) trio(lock string) {
	for _, zone := range []string{"za", "zb", "zc"} {
		w.campaign(lock, lock+"-"+zone, zone)
	}
	time.Sleep(3 * time.Second) // the token is noted
}

func TestAHandoverGoesWhereItShould(t *testing.T) {
	for name, tc := range map[string]struct{ args, leads string }{
		"handover":         {"", "op-zb_1"},
		"handover-to":      {"--to op-zc_1", "op-zc_1"},
		"handover-zone":    {"--to-zone zc", "op-zc_1"},
		"handover-already": {"--to-zone za", "op-za_1"},
		"handover-to-it":   {"--to op-za_1", "op-za_1"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.trio("op")
				golden(t, name, w.run(append([]string{"handover", "op"}, strings.Fields(tc.args)...)...))
				synctest.Wait()
				if got := w.leader("op"); got != tc.leads {
					t.Errorf("%s leads, want %s", got, tc.leads)
				}
			})
		})
	}
}

// TestAHandoverThatCannotBeIsRefused, by the leader, and the request is gone.
func TestAHandoverThatCannotBeIsRefused(t *testing.T) {
	for name, args := range map[string]string{
		"handover-unknown":      "--to nobody_1",
		"handover-no-such-zone": "--to-zone zx",
		"handover-evacuated":    "--to-zone zb",
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.trio("op")
				w.annotate("op", record.AnnotationEvacuated, "zb")
				golden(t, name, w.run(append([]string{"handover", "op"}, strings.Fields(args)...)...))
				time.Sleep(10 * time.Second)
				if got, a := w.leader("op"), w.annotations("op"); got != "op-za_1" || a[record.AnnotationRequest] != nil {
					t.Errorf("%s leads, and the Lease says %v", got, a)
				}
			})
		})
	}
}

// TestALockThatNobodyCanHandOverIsLeftAsItIs: client-go waits anew for each Lease whose spec changes (S3).
func TestALockThatNobodyCanHandOverIsLeftAsItIs(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.Lease){
		"handover-client-go": func(l *coordinationv1.Lease) { l.Annotations = nil },
		"handover-free": func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Annotations[record.AnnotationReleased] = new(""), "4711"
		},
		"handover-silent": func(*coordinationv1.Lease) {},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.putLease(newLease("op", "a_1", "za", change))
				before := w.spec("op")
				golden(t, name, w.run("handover", "op", "--timeout", "20s"))
				if a := w.annotations("op"); a[record.AnnotationRequest] != nil || !reflect.DeepEqual(before, w.spec("op")) {
					t.Errorf("the Lease says %v, %v", a, w.spec("op"))
				}
			})
		})
	}
}

func TestALeaderThatKnowsBetterRefuses(t *testing.T) {
	inABubble(t, func(w *world) {
		w.sick = map[string]string{"op-zb_1": "its disk is full"}
		w.trio("op")
		golden(t, "handover-refused", w.run("handover", "op", "--to", "op-zb_1"))
		time.Sleep(10 * time.Minute) // the answer is kept
		golden(t, "handover-refused-status", w.run("status", "op"))
		if got := w.leader("op"); got != "op-za_1" {
			t.Errorf("%s leads", got)
		}
		w.run("handover", "op", "--to", "op-zc_1")
		if got := w.leader("op"); got != "op-zc_1" {
			t.Errorf("asked again for another, %s leads", got)
		}
	})
}

// TestNoNewRequestIsAnsweredByAnOldRefusal, which each renewal keeps while the work stops.
func TestNoNewRequestIsAnsweredByAnOldRefusal(t *testing.T) {
	for _, args := range [][]string{{"handover", "op"}, {"evacuate", "za"}} {
		inABubble(t, func(w *world) {
			w.trio("op")
			w.annotate("op", record.AnnotationRefused, "as I said before")
			w.stops = 5 * time.Second
			if r := w.run(args...); r.code != exitOK || w.leader("op") != "op-zb_1" {
				t.Errorf("%q: %s leads: %+v", args, w.leader("op"), r)
			}
		})
	}
}

func TestALeaderThatDiesMeanwhileIsNotWaitedForLonger(t *testing.T) {
	inABubble(t, func(w *world) {
		kill := w.campaign("op", "op-za", "za")
		w.campaign("op", "op-zb", "zb")
		w.campaign("op", "op-zc", "zc")
		time.Sleep(3 * time.Second)
		kill()
		asked := time.Now()
		r := w.run("handover", "op", "--to", "op-zc_1")
		if took := time.Since(asked); took > timing.DefaultLeaseDuration {
			t.Errorf("another leads after %v", took)
		}
		// The next leader is left to chance: the request named none.
		if a := w.annotations("op"); r.code == exitRefused || a[record.AnnotationRequest] != nil {
			t.Errorf("exit code %d, and the Lease says %v: %s", r.code, a, r.errors)
		}
	})
}

func (w *world) evacuated(lock string) any { return w.annotations(lock)[record.AnnotationEvacuated] }

// operators makes locks with candidates: two led from za, one from zb.
func (w *world) operators() {
	w.trio("alpha")
	w.trio("beta")
	w.campaign("gamma", "gamma-zb", "zb")
	w.campaign("gamma", "gamma-za", "za")
	time.Sleep(3 * time.Second)
}

func TestAZoneIsEvacuatedAndRestored(t *testing.T) {
	inABubble(t, func(w *world) {
		w.operators()
		golden(t, "evacuate-dry-run", w.run("evacuate", "za", "--dry-run"))
		if got := w.evacuated("alpha"); got != nil {
			t.Errorf("a dry run says %v", got)
		}
		asked := time.Now()
		golden(t, "evacuate", w.run("evacuate", "za", "--until", "2h"))
		if took := time.Since(asked); took > time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Until(asked.Add(10*time.Minute + time.Second)))
		golden(t, "evacuate-status", w.run("status", "alpha"))
		golden(t, "evacuate-second", w.run("evacuate", "zc", "--until", "24h"))
		for _, lock := range []string{"alpha", "beta", "gamma"} {
			if got := w.evacuated(lock); got != "za=2000-01-01T02:00:09Z,zc=2000-01-02T00:10:10Z" {
				t.Errorf("%s: evacuated is %v", lock, got)
			}
		}
		golden(t, "restore", w.run("restore", "za"))
		if got := w.evacuated("alpha"); got != "zc=2000-01-02T00:10:10Z" {
			t.Errorf("after za is restored, evacuated is %v", got)
		}
		golden(t, "restore-again", w.run("restore", "za"))
		golden(t, "evacuate-unknown", w.run("evacuate", "zx"))
		time.Sleep(time.Minute)
		if got := w.leader("alpha") + " " + w.leader("beta"); got != "alpha-zb_1 beta-zb_1" {
			t.Errorf("afterwards lead %s", got)
		}
		w.run("evacuate", "zc", "--until", "2h")
		if got := w.evacuated("alpha"); got != "zc=2000-01-01T02:11:10Z" {
			t.Errorf("evacuated again, until a time, is %v", got)
		}
		w.run("evacuate", "zc")
		if got := w.evacuated("alpha"); got != "zc" {
			t.Errorf("evacuated again, without an end, is %v", got)
		}
		w.run("restore", "zc")
		if got := w.evacuated("alpha"); got != nil {
			t.Errorf("evacuated is %v", got)
		}
	})
}

// TestARestoreChangesNothingButItsZone: each lock keeps its other evacuations, and gets none of another lock.
func TestARestoreChangesNothingButItsZone(t *testing.T) {
	inABubble(t, func(w *world) {
		for lock, zones := range map[string]string{"a": "za,zb", "b": "zd,za", "c": "zc"} {
			w.putLease(newLease(lock, lock+"-1_1", "za", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationEvacuated] = zones }))
		}
		w.run("restore", "za")
		for lock, want := range map[string]string{"a": "zb", "b": "zd", "c": "zc"} {
			if got := w.evacuated(lock); got != want {
				t.Errorf("after za is restored, lock %s is kept out of %v, want %s", lock, got, want)
			}
		}
	})
}

// TestAnEvacuationHasMovedALeaderOnlyOutOfTheZone: another leader in it, or in no known zone, is no success.
func TestAnEvacuationHasMovedALeaderOnlyOutOfTheZone(t *testing.T) {
	for zone, want := range map[string]string{
		"za": "not moved after 5s: op-2_1 still leads", "": "moved to a leader whose zone is not known", "zb": "moved\n",
	} {
		inABubble(t, func(w *world) {
			w.putLease(newLease("op", "op-1_1", "za"))
			time.AfterFunc(time.Second, func() { w.putLease(newLease("op", "op-2_1", zone)) })
			r := w.run("evacuate", "za", "--timeout", "5s")
			if moved := r.code == exitOK; moved != (zone == "zb") || !strings.Contains(r.out, want) {
				t.Errorf("the next leader is in zone %q: %+v", zone, r)
			}
		})
	}
}

// TestALockWhoseListOfZonesIsFullIsNotEvacuated: candidates would not read a longer one.
func TestALockWhoseListOfZonesIsFullIsNotEvacuated(t *testing.T) {
	inABubble(t, func(w *world) {
		full := strings.Repeat("z", record.MaxText-2)
		w.putLease(newLease("op", "op-1_1", "za", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationEvacuated] = full }))
		if r := w.run("evacuate", "za"); r.code != exitError || !strings.Contains(r.out, "failed: the list") || w.evacuated("op") != full {
			t.Errorf("it is kept out of %v: %+v", w.evacuated("op"), r)
		}
	})
}

func TestALeaderWithoutCandidatesElsewhereStaysUntilThereIsOne(t *testing.T) {
	inABubble(t, func(w *world) {
		w.operators()
		w.campaign("single", "single-za", "za")
		time.Sleep(3 * time.Second)
		asked := time.Now()
		golden(t, "evacuate-stays", w.run("evacuate", "za"))
		if took := time.Since(asked); took > time.Second {
			t.Errorf("it took %v", took)
		}
		golden(t, "evacuate-stays-again", w.run("evacuate", "za")) // the answer is that to this request
		w.campaign("single", "single-zb", "zb")
		time.Sleep(3 * time.Second)
		if got := w.leader("single"); got != "single-zb_1" {
			t.Errorf("%s leads", got)
		}
	})
}

// TestWhatAnEvacuationCannotDoItSays: a leader whose zone is not known may be in the zone; a Lease that cannot be
// changed is named; one that its leader renews meanwhile is read again and changed nevertheless. The locks that nobody
// leads, or client-go, are marked, too: candidates in the zone may lead later.
func TestWhatAnEvacuationCannotDoItSays(t *testing.T) {
	inABubble(t, func(w *world) {
		w.operators()
		w.putLease(newLease("client-go", "client-go", "", func(l *coordinationv1.Lease) { l.Annotations = nil }))
		w.announce("client-go", "other-a", "za", "")
		w.announce("client-go", "other-b", "", "")
		w.putLease(newLease("free", "", "", releasedBy(time.Minute)))
		w.putLease(newLease("theirs", "client-go", "", func(l *coordinationv1.Lease) { l.Annotations = nil }))
		races, read := 0, false
		w.before(func(verb, path string) (int, apitest.Object) {
			switch {
			case verb == "get" && strings.HasSuffix(path, "/beta"):
				read = true
			case verb == "update" && strings.HasSuffix(path, "/gamma"):
				return apitest.Forbidden(verb, path)
			case verb == "update" && strings.HasSuffix(path, "/beta") && races < 3 && read: // its leader does not read it
				races, read = races+1, false
				return http.StatusConflict, apitest.Status(http.StatusConflict, "Conflict", "the object has been modified", "leases", "beta")
			}
			return 0, nil
		})
		golden(t, "evacuate-denied", w.run("evacuate", "za"))
		w.before(nil)
		golden(t, "evacuate-client-go", w.run("evacuate", "za"))
		if races != 3 || w.evacuated("client-go") != "za" || w.evacuated("beta") != "za" || w.evacuated("theirs") != nil {
			t.Errorf("after %d conflicts the Leases say %v, %v, %v", races, w.evacuated("client-go"), w.evacuated("beta"), w.evacuated("theirs"))
		}
		if r := w.run("restore", "za"); r.code != exitOK || w.evacuated("free") != nil {
			t.Errorf("restored, the free lock is kept out of %v: %+v", w.evacuated("free"), r)
		}
	})
}

// TestAHandoverSucceedsOnlyIfTheLockGoesWhereItShould: another candidate may take it.
func TestAHandoverSucceedsOnlyIfTheLockGoesWhereItShould(t *testing.T) {
	for args, want := range map[string]int{
		"": exitOK, "--to op-2_1": exitOK, "--to-zone zb": exitOK, "--to op-3_1": exitError, "--to-zone zc": exitError,
	} {
		inABubble(t, func(w *world) {
			w.putLease(newLease("op", "op-1_1", "")) // its zone is not known
			time.AfterFunc(time.Second, func() { w.putLease(newLease("op", "op-2_1", "zb")) })
			if r := w.run(append([]string{"handover", "op"}, strings.Fields(args)...)...); r.code != want {
				t.Errorf("%q, and op-2_1 in zb takes it: %+v", args, r)
			}
		})
	}
}

// TestAHandoverThatIsInterruptedTakesItsRequestBack, and says while it waits what for, as an evacuation does.
func TestAHandoverThatIsInterruptedTakesItsRequestBack(t *testing.T) {
	for line, waits := range map[string]string{"handover op": "op-za_1 ", "evacuate za": "1 leader "} {
		inABubble(t, func(w *world) {
			w.putLease(newLease("op", "op-za_1", "za"))
			r := w.run(append(strings.Fields(line), "--timeout", "1h")...)
			asked := w.annotations("op")[record.AnnotationRequest]
			if asked != nil || r.code != exitInterrupted || !strings.HasPrefix(r.errors, "waiting up to 1h0m0s for "+waits) {
				t.Errorf("%s: %+v; the request is %v", line, r, asked)
			}
		})
	}
}

// TestAHandoverThatIsGivenUpTakesOnlyItsOwnRequestBack: somebody has asked for another since.
func TestAHandoverThatIsGivenUpTakesOnlyItsOwnRequestBack(t *testing.T) {
	inABubble(t, func(w *world) {
		const other = `{"holder":"op-za_1","identity":"op-zc_1"}`
		w.putLease(newLease("op", "op-za_1", "za"))
		time.AfterFunc(time.Second, func() { w.annotate("op", record.AnnotationRequest, other) })
		w.run("handover", "op", "--timeout", "2s")
		if asked := w.annotations("op")[record.AnnotationRequest]; asked != other {
			t.Errorf("the request is %v", asked)
		}
	})
}

// TestAHandoverThatMayNotListLeasesTakesItsRequestBack: it would not learn what came of it.
func TestAHandoverThatMayNotListLeasesTakesItsRequestBack(t *testing.T) {
	inABubble(t, func(w *world) {
		w.putLease(newLease("op", "op-za_1", "za"))
		w.server.Stored = func(*http.Request, string, apitest.Object, apitest.Object) { go w.forbid("list", "/leases") }
		r := w.run("handover", "op")
		if a := w.annotations("op"); a[record.AnnotationRequest] != nil || !strings.Contains(r.errors, "zonelect-shift") {
			t.Error(a, r)
		}
	})
}

// TestARequestIsForTheLeaderThatWasSeen: another has taken the lock since.
func TestARequestIsForTheLeaderThatWasSeen(t *testing.T) {
	inABubble(t, func(w *world) {
		w.putLease(newLease("op", "op-za_1", "za"))
		w.asked = func(r *http.Request) {
			if r.Method == http.MethodPut { // between the read and the write of a compare-and-swap
				w.putLease(newLease("op", "op-zb_1", "zb"))
			}
		}
		if r := w.run("handover", "op"); r.code != exitRefused {
			t.Error(r)
		}
	})
}

// TestARequestThatCannotBeTakenBackIsAnError, which says that the leader may hand over yet.
func TestARequestThatCannotBeTakenBackIsAnError(t *testing.T) {
	inABubble(t, func(w *world) {
		w.putLease(newLease("op", "op-za_1", "za"))
		time.AfterFunc(time.Second, func() { w.forbid("update", "/leases/op") })
		r := w.run("handover", "op", "--timeout", "2s")
		if r.code != exitError || !strings.Contains(r.errors, "the request stays on the Lease") {
			t.Errorf("%+v", r)
		}
	})
}

// TestABurstOfRequestsIsNotHeldBack: client-go would send five a second, and a zone may have hundreds of locks.
func TestABurstOfRequestsIsNotHeldBack(t *testing.T) {
	env := newEnvironment(genericiooptions.NewTestIOStreamsDiscard())
	env.restConfig = func() (*rest.Config, error) { return &rest.Config{Host: "https://apiserver.test"}, nil }
	all, err := env.dial()
	must(t, err)
	for n := range 200 {
		if !all.coordination.GetRateLimiter().TryAccept() {
			t.Fatalf("after %d requests the next one waits", n)
		}
	}
}
