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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// campaign starts a candidate, which works as users' candidates do, and lets it lead if it
// can. The returned function kills it: nothing is released.
func (w *world) campaign(lock, pod, zone string) (kill func()) {
	w.t.Helper()
	return w.competes(lock, pod, zone, presence.OwnDelay, func(election.Takeover) time.Duration { return 0 })
}

// competes does the same for a candidate with a takeover delay, of which its presence says that.
func (w *world) competes(lock, pod, zone, said string, takeoverDelay func(election.Takeover) time.Duration) (kill func()) {
	w.t.Helper()
	w.announce(lock, pod, zone, "", func(o *presence.Object) {
		if o.TakeoverDelay, o.Unhealthy = said, w.sick[o.Identity]; w.lost[o.Identity] {
			o.Zone = ""
		}
	})
	broken := make(chan struct{})
	way := http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		select {
		case <-broken:
			<-r.Context().Done()
		default:
			w.ServeHTTP(a, r)
		}
	})
	client := apitest.Wire(w.t, way, coordinationv1.SchemeGroupVersion)
	l, err := lease.New(lease.Config{Client: client, Namespace: "ns", Name: lock})
	if err != nil {
		w.t.Fatal(err)
	}
	me := locks.Candidate{Identity: pod + "_1", Zone: zone}
	if w.lost[me.Identity] {
		me.Zone, me.Node = "", "node-"+zone
	}
	e, err := election.New(election.Config{
		Lock: l, Candidate: me,
		TakeoverDelay: takeoverDelay,
		WatchPeers:    w.follows(client, lock),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
	}()
	w.t.Cleanup(func() { stop(); <-ended })
	synctest.Wait()
	return func() { close(broken) }
}

// follows reports the candidates that have announced themselves under a name.
func (w *world) follows(client rest.Interface, name string) func(context.Context, func([]locks.Peer)) {
	return func(ctx context.Context, tell func([]locks.Peer)) {
		for ctx.Err() == nil {
			if all, err := presence.List(ctx, client, "ns", name); err == nil {
				tell(w.peersOf(all))
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func (w *world) peersOf(all []presence.Object) []locks.Peer {
	var peers []locks.Peer
	for _, o := range all {
		peers = append(peers, locks.Peer{Candidate: locks.Candidate{Identity: o.Identity, Zone: o.Zone}, Unhealthy: w.sick[o.Identity]})
	}
	return peers
}

// leader returns the leader, by the Lease.
func (w *world) leader(lock string) string {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	holder, _ := w.server.Objects[leasesPath+lock]["spec"].(apitest.Object)["holderIdentity"].(string)
	return holder
}

func (w *world) annotations(lock string) map[string]any {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	all, _ := apitest.Clone(w.server.Objects[leasesPath+lock])["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	return all
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
		"handover-no-wait": {"--to-zone zc --wait=false", "op-zc_1"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
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

func TestAHandoverThatCannotBeIsRefusedAndChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		args string
		fill func(w *world)
	}{
		"handover-unknown":      {"--to nobody_1", nil},
		"handover-no-such-zone": {"--to-zone zx", nil},
		"handover-evacuated": {"--to-zone zb", func(w *world) {
			w.annotate("op", record.AnnotationEvacuated, "zb")
		}},
		"handover-pod-gone": {"--to op-zb_1", func(w *world) {
			w.server.Delete("/api/v1/namespaces/ns/pods/op-zb")
		}},
		"handover-node-dead": {"--to op-zb_1", func(w *world) {
			w.hosts("op-zb", "zb", func(_ *corev1.Pod, n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		}},
		"handover-unhealthy": {"--to op-zb_1", func(w *world) {
			w.announce("op", "op-zb", "zb", "", func(o *presence.Object) { o.Unhealthy = "its disk is full" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.trio("op")
				if tc.fill != nil {
					tc.fill(w)
				}
				golden(t, name, w.run(append([]string{"handover", "op"}, strings.Fields(tc.args)...)...))
				time.Sleep(10 * time.Second)
				if got, a := w.leader("op"), w.annotations("op"); got != "op-za_1" || a[record.AnnotationRequest] != nil || a[record.AnnotationRefused] != nil {
					t.Errorf("%s leads, and the Lease says %v", got, a)
				}
			})
		})
	}
}

func TestALockThatNobodyCanHandOverIsRefused(t *testing.T) {
	for name, lease := range map[string]*coordinationv1.Lease{
		"handover-client-go": newLease("op", "client-go", "za", func(l *coordinationv1.Lease) { l.Annotations = nil }),
		"handover-free":      newLease("op", "", "za", func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationReleased] = "4711" }),
		"handover-dead":      newLease("op", "a_1", "za"),
		"handover-silent":    newLease("op", "a_1", "za"),
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				now := metav1.NewMicroTime(time.Now())
				if name == "handover-dead" {
					now = metav1.NewMicroTime(time.Now().Add(-time.Minute))
				}
				lease.Spec.RenewTime = &now
				w.putLease(lease)
				w.announce("op", "a", "za", "")
				w.announce("op", "b", "zb", "")
				golden(t, name, w.run("handover", "op", "--timeout", "20s"))
				if a := w.annotations("op"); a[record.AnnotationRequest] != nil {
					t.Errorf("the Lease says %v", a)
				}
			})
		})
	}
}

func TestALeaderThatKnowsBetterRefuses(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.sick = map[string]string{"op-zb_1": "its disk is full"}
		w.trio("op")
		golden(t, "handover-refused", w.run("handover", "op", "--to", "op-zb_1"))
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

func TestALeaderThatDiesMeanwhileIsNotWaitedForLonger(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
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

// TestS3ARequestOnADeadLeadersLeaseDoesNotLengthenTheWaitOfClientGo either: client-go looks
// only at the spec, at least once in 4.4 s.
func TestS3ARequestOnADeadLeadersLeaseDoesNotLengthenTheWaitOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := newLease("op", "a_1", "za")
		leases := fake.NewSimpleClientset(lease).CoordinationV1() //nolint:staticcheck // SA1019: no schema is needed
		led := make(chan time.Time, 1)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op"}, Client: leases,
				LockConfig: resourcelock.ResourceLockConfig{Identity: "client-go"},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { led <- time.Now() },
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); elector.Run(ctx) }()
		for i := range 10 {
			time.Sleep(2 * time.Second)
			asked, err := leases.Leases("ns").Get(ctx, "op", metav1.GetOptions{})
			if err == nil {
				annotate(asked, record.AnnotationRequest, fmt.Sprintf(`{"holder":"a_1","zone":"z%d"}`, i))
				_, err = leases.Leases("ns").Update(ctx, asked, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if took := (<-led).Sub(began); took > 15*time.Second+4400*time.Millisecond {
			t.Errorf("client-go leads after %v", took)
		}
		stop()
		<-ended
	})
}

func (w *world) annotate(lock, key, value string) {
	w.server.Change(leasesPath+lock, func(o apitest.Object) {
		o["metadata"].(apitest.Object)["annotations"].(apitest.Object)[key] = value
	})
	synctest.Wait()
}
