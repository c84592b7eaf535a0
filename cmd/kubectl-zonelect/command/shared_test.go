// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	_ "github.com/zonelect/zonelect/heartbeat" // sets extension.NewBeating
	"github.com/zonelect/zonelect/internal/apitest"
	place "github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/leasewatch"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// sharing starts the elections of a process for several locks, on one heartbeat, as an
// operator.Group of that name does. The returned function kills the process.
func (w *world) sharing(shared, pod, zone string, names ...string) (kill func()) {
	w.t.Helper()
	w.announce(shared, pod, zone, "", func(o *presence.Object) { o.Mode = "lease" })
	life, die := context.WithCancel(context.Background())
	client := apitest.Wire(w.t, http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		if life.Err() != nil {
			<-r.Context().Done()
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		w.ServeHTTP(a, r.WithContext(ctx))
	}), coordinationv1.SchemeGroupVersion)
	t := election.Timing{Exclusive: true}.WithDefaults()
	view, err := leasewatch.New(leasewatch.Config{Client: client, Namespace: "ns", Patience: t.AttemptTimeout, Limit: t.RenewDeadline})
	if err != nil {
		w.t.Fatal(err)
	}
	kept, err := extension.NewBeating(extension.Place{
		Environment: &place.Environment{Namespace: "ns", Timing: t, Self: place.Self{Identity: pod + "_1"}},
		Name:        shared, Clients: &place.Clients{Coordination: client}, View: view,
	}, lease.Config{Client: client, Namespace: "ns", Name: shared + ".heartbeat-" + pod}, 4)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	rest, end := context.WithCancel(context.Background())
	var electors, others sync.WaitGroup
	others.Go(func() { view.Run(rest) })
	endHeart := kept.Start(rest)
	for _, name := range names {
		lock, err := kept.New(name)
		if err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(time.Second) // one after the other, once the heartbeat beats
		w.campaigns(ctx, &electors, election.Config{
			Lock: lock, Candidate: locks.Candidate{Identity: pod + "_1", Zone: zone}, Timing: t, Queue: kept.Enter,
			TakeoverDelay: func(election.Takeover) time.Duration { return 0 },
			WatchPeers:    w.follows(client, shared),
		})
	}
	w.t.Cleanup(func() { stop(); electors.Wait(); endHeart(); end(); others.Wait() })
	time.Sleep(3 * time.Second)
	synctest.Wait()
	return func() { die(); synctest.Wait() }
}

// campaigns runs an elector that leads until ctx ends.
func (w *world) campaigns(ctx context.Context, wait *sync.WaitGroup, c election.Config) {
	w.t.Helper()
	e, err := election.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	wait.Go(func() {
		_ = e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
	})
}

// shift makes three processes that share five locks, of which the first leads all.
func (w *world) shift() (kill func()) {
	w.t.Helper()
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("shard-%d", i))
	}
	for _, zone := range []string{"za", "zb", "zc"} {
		dies := w.sharing("op", "op-"+zone, zone, names...)
		if zone == "za" {
			kill = dies
		}
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	return kill
}

// TestLocksThatAHeartbeatKeepsAreShownAsAnyOthers: neither the heartbeats nor the presences
// are locks, and the candidates of a Group are those of each of its locks.
func TestLocksThatAHeartbeatKeepsAreShownAsAnyOthers(t *testing.T) {
	for name, args := range map[string][]string{
		"shared-list":     {"status"},
		"shared-wide":     {"status", "-o", "wide"},
		"shared-one":      {"status", "shard-1", "-o", "wide"},
		"shared-json":     {"status", "shard-1", "-o", "jsonpath={.status.state} {.status.leader.leaseDurationSeconds} {.status.leader.heartbeat}"},
		"shared-trusting": {"status", "--observe=0"},
		"shared-name":     {"status", "op"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.shift()
				began := time.Now()
				goldenShared(t, name, w.run(args...))
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestAHolderWhoseHeartbeatStopsIsNotShownAsHeld, whatever its Lease says about a year.
func TestAHolderWhoseHeartbeatStopsIsNotShownAsHeld(t *testing.T) {
	const heart = "op.heartbeat-op-za"
	for name, tc := range map[string]struct {
		happens func(w *world, kill func())
		args    string
		want    string // "in" the table, or the notes
	}{
		"stale":   {func(_ *world, kill func()) { kill(); time.Sleep(20 * time.Second) }, "--observe=3s", " stale "},
		"expired": {func(_ *world, kill func()) { kill(); time.Sleep(20 * time.Second) }, "--observe=16s", " expired "},
		"not yet": {func(_ *world, kill func()) { kill(); time.Sleep(5 * time.Second) }, "--observe=3s", " held "},
		"withdrawn": {func(w *world, kill func()) {
			kill()
			w.server.Change(leasesPath+heart, func(o apitest.Object) { o["spec"].(apitest.Object)["holderIdentity"] = "" })
		}, "--observe=3s", "the heartbeat that kept it was withdrawn or is gone"},
		"deleted":                          {func(w *world, kill func()) { kill(); w.server.Delete(leasesPath + heart) }, "--observe=3s", "the heartbeat that kept it was withdrawn or is gone"},
		"deleted, and the process goes on": {func(w *world, _ func()) { w.server.Delete(leasesPath + heart) }, "--observe=5s", " held "},
		"another has taken it":             {func(_ *world, kill func()) { kill(); time.Sleep(time.Minute) }, "--observe=0", " op-zb_1 "},
	} {
		for _, what := range []string{"status", "status shard-1"} {
			t.Run(name+", "+what, func(t *testing.T) {
				inABubble(t, func(t *testing.T, w *world) {
					kill := w.sharing("op", "op-za", "za", "shard-0", "shard-1")
					if strings.HasPrefix(name, "another") {
						w.sharing("op", "op-zb", "zb", "shard-0", "shard-1")
					}
					time.Sleep(time.Minute)
					tc.happens(w, kill)
					r := w.run(append(strings.Fields(what), tc.args)...)
					if !strings.Contains(r.out+r.errors, tc.want) {
						t.Errorf("printed %s%s", r.out, r.errors)
					}
				})
			})
		}
	}
}

// TestNobodyKnowsWhenAHeartbeatThatIsGoneBeatLast: the garbage collector deletes its Lease with the
// pod of a dead leader. When that leader took the lock is not an answer.
func TestNobodyKnowsWhenAHeartbeatThatIsGoneBeatLast(t *testing.T) {
	for observe, state := range map[string]inspect.State{"3s": inspect.Stale, "16s": inspect.Expired} {
		inABubble(t, func(t *testing.T, w *world) {
			kill := w.sharing("op", "op-za", "za", "shard-1")
			time.Sleep(time.Hour)
			kill()
			w.server.Delete(leasesPath + "op.heartbeat-op-za")
			r := w.run("status", "shard-1", "--observe="+observe, "-o", "json")
			var got LockStatus
			if err := json.Unmarshal([]byte(r.out), &got); err != nil {
				t.Fatalf("%v in %s%s", err, r.out, r.errors)
			}
			if v := got.Status.Vacancy; got.Status.State != state || v == nil || v.Since != nil || v.Last != "op-za_1" {
				t.Errorf("%s, nobody leads: %+v", got.Status.State, v)
			}
			if all := strings.Join(got.Status.Warnings, "\n"); strings.Contains(all, "since") || strings.Contains(all, " then") {
				t.Errorf("it says %s", all)
			}
		})
	}
}

// TestWatchingALockThatAHeartbeatKeepsPrintsNoRenewal, and sees when the heartbeat stops.
func TestWatchingALockThatAHeartbeatKeepsPrintsNoRenewal(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		kill := w.sharing("op", "op-za", "za", "shard-0", "shard-1")
		var out, errOut buffer
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- w.start(ctx, &out, &errOut, "status", "-w") }()
		time.Sleep(time.Minute)
		w.annotate("shard-1", record.AnnotationEvacuated, "zx") // the heartbeat before is older than that
		time.Sleep(10 * time.Second)
		kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		goldenShared(t, "shared-watched", result{<-ended, out.String(), errOut.String()})
	})
}

func TestALockThatAHeartbeatKeepsIsHandedOver(t *testing.T) {
	for name, tc := range map[string]struct{ args, leads string }{
		"next":    {"", "op-zb_1"},
		"to":      {"--to op-zc_1", "op-zc_1"},
		"zone":    {"--to-zone zc", "op-zc_1"},
		"already": {"--to-zone za", "op-za_1"},
		"unknown": {"--to nobody_1", "op-za_1"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.shift()
				began := time.Now()
				r := w.run(append([]string{"handover", "shard-1"}, strings.Fields(tc.args)...)...)
				if took := time.Since(began); took > time.Second || w.leader("shard-1") != tc.leads || w.leader("shard-2") != "op-za_1" {
					t.Errorf("after %v %s leads, and %s the other: %s%s", took, w.leader("shard-1"), w.leader("shard-2"), r.out, r.errors)
				}
				if want := map[bool]int{true: exitRefused, false: exitOK}[name == "unknown"]; r.code != want {
					t.Errorf("exit code %d: %s", r.code, r.errors)
				}
			})
		})
	}
}

// TestAHeartbeatThatStoppedCannotHandOver: its holder is dead.
func TestAHeartbeatThatStoppedCannotHandOver(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		kill := w.sharing("op", "op-za", "za", "shard-1")
		w.announce("op", "op-zb", "zb", "")
		time.Sleep(time.Minute)
		kill()
		time.Sleep(20 * time.Second)
		goldenShared(t, "shared-dead", w.run("handover", "shard-1"))
		if a := w.annotations("shard-1"); a[record.AnnotationRequest] != nil {
			t.Errorf("the Lease says %v", a)
		}
	})
}

func TestLocksThatAHeartbeatKeepsAreEvacuatedAndRestored(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.shift()
		goldenShared(t, "shared-evacuate-dry-run", w.run("evacuate", "za", "--dry-run"))
		began := time.Now()
		r := w.run("evacuate", "za")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		for i := range 5 {
			if l := w.leader(fmt.Sprintf("shard-%d", i)); l != "op-zb_1" && l != "op-zc_1" {
				t.Errorf("shard-%d is led by %s", i, l)
			}
		}
		if r.code != exitOK || strings.Count(r.out, " moved\n") != 5 {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		for _, heart := range []string{"op.heartbeat-op-za", "op.heartbeat-op-zb"} {
			if a := w.annotations(heart); a[record.AnnotationEvacuated] != nil {
				t.Errorf("the heartbeat %s is marked", heart)
			}
		}
		goldenShared(t, "shared-restore", w.run("restore", "za"))
		if r := w.run("evacuate", "zb"); r.code != exitOK {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		if r := w.run("evacuate", "zc"); r.code != exitOK {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		time.Sleep(time.Minute)
		for i := range 5 {
			if l := w.leader(fmt.Sprintf("shard-%d", i)); l != "op-za_1" {
				t.Errorf("shard-%d is led by %s", i, l)
			}
		}
	})
}

// tokens are those of a Group's locks, which it takes in an order of its own.
var tokens = regexp.MustCompile(`\b1\d\d\b`)

func goldenShared(t *testing.T, name string, r result) {
	t.Helper()
	r.out, r.errors = tokens.ReplaceAllString(r.out, "1nn"), tokens.ReplaceAllString(r.errors, "1nn")
	golden(t, name, r)
}

// TestAMoveSeesThatTheSameCandidateLeadsAgain, in another term: it did hand the lock over.
func TestAMoveSeesThatTheSameCandidateLeadsAgain(t *testing.T) {
	lock := newLease("op", "op-a_1", "za")
	lock.ResourceVersion = "9"
	from := *inspect.LeaderOf(record.Read(lock))
	m := &move{lock: inspect.KeyOf(lock), from: from, locate: func(*inspect.Leader) {}, asked: 7}
	m.see(inspect.Election{NamespacedName: m.lock, Lease: lock})
	before := m.waits
	lock.ResourceVersion, *lock.Spec.LeaseTransitions = "11", *lock.Spec.LeaseTransitions+2
	m.see(inspect.Election{NamespacedName: m.lock, Lease: lock})
	if want := "op-a_1 handed the lock over, nobody else took it, and it leads again"; before == want || m.waits != want || m.over() {
		t.Errorf("it waits for %q, then for %q", before, m.waits)
	}
}

// TestAMoveSeesTheReleaseThatAHeartbeatNotes: the lock's own Lease still names its holder.
func TestAMoveSeesTheReleaseThatAHeartbeatNotes(t *testing.T) {
	lock := newLease("op", "op-a_1", "za")
	lock.ResourceVersion, lock.Annotations[record.AnnotationHeartbeat] = "7", "heart uid epoch 15"
	m := &move{lock: inspect.KeyOf(lock), from: inspect.Leader{Identity: "op-a_1", Transitions: 4}, locate: func(*inspect.Leader) {}, asked: 7}
	for released, want := range map[bool]string{false: "op-a_1 still leads: its work may take long to stop", true: "op-a_1 gave the lock up, and nobody has taken it"} {
		heart := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "heart", UID: "uid", ResourceVersion: "9", Annotations: map[string]string{}}}
		if released {
			heart.Annotations[record.AnnotationReleasedLocks] = "epoch op@7@946684800000000"
		}
		m.asked = 7
		m.see(inspect.Election{NamespacedName: m.lock, Lease: lock, Heart: heart})
		if m.waits != want {
			t.Errorf("released: %v, it waits for %q, want %q", released, m.waits, want)
		}
	}
	m.asked, m.waits = 8, "" // that version was seen, before its release
	heart := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "heart", UID: "uid", ResourceVersion: "9", Annotations: map[string]string{record.AnnotationReleasedLocks: "epoch op@7@946684800000000"}}}
	if m.see(inspect.Election{NamespacedName: m.lock, Lease: lock, Heart: heart}); m.waits == "" {
		t.Error("it does not see the release")
	}
}
