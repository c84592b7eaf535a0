// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// follow keeps what a roster reported last, until the returned function ends it.
func follow(t *testing.T, r *Roster, notOlder uint64) (latest func() []string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var names []string
	over := make(chan error, 1)
	go func() {
		over <- r.Follow(ctx, notOlder, func(all []Object, _ uint64) {
			names = nil
			for _, p := range Peers(all, "", len(all)) {
				names = append(names, p.Identity)
			}
		})
	}()
	return func() []string { synctest.Wait(); return names }, func() error { cancel(); return <-over }
}

func TestARosterTellsWhoComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, sent := newServer(t)
		a := ensured(t, client, objectOf("a"))
		elsewhere := objectOf("x")
		elsewhere.Lock = "another"
		ensured(t, client, elsewhere)
		*sent = nil
		roster := NewRoster(client, "ns", "lock", "")
		latest, end := follow(t, roster, a.Number)
		check := func(when string, want ...string) {
			t.Helper()
			if got := latest(); !slices.Equal(got, want) {
				t.Errorf("%s: it tells of %q, want %q", when, got, want)
			}
		}
		check("at first", "a_1")
		ensured(t, client, objectOf("b"))
		check("when one comes", "a_1", "b_1")
		server.Delete(all + "/" + a.Name)
		check("when one goes", "b_1")
		_ = end()
		ensured(t, client, objectOf("c"))
		latest, end = follow(t, roster, 0)
		check("when the next watch goes on", "b_1", "c_1")
		_ = end()
		if n := slices.Index(*sent, "list"); n != 0 || slices.Contains((*sent)[1:], "list") {
			t.Errorf("sent %q, want one list, at first", *sent)
		}
	})
}

// TestARosterListsOutOfTheCache: the kind of request decides its cost.
func TestARosterListsOutOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer()
		var asked []string
		client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			q.Del("timeoutSeconds")
			asked = append(asked, q.Encode())
			server.ServeHTTP(w, r)
		}), coordinationv1.SchemeGroupVersion)
		latest, end := follow(t, NewRoster(client, "ns", "lock", ""), 7)
		latest()
		_ = end()
		if want := []string{
			"labelSelector=zonelect.dev%2Flock%3Dlock&resourceVersion=7",
			"allowWatchBookmarks=true&labelSelector=zonelect.dev%2Flock%3Dlock&resourceVersion=100&watch=true",
		}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	})
}

func TestARosterThatMissedSomethingListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, sent := newServer(t)
		ensured(t, client, objectOf("a"))
		roster := NewRoster(client, "ns", "lock", "")
		server.Before = func(verb, _ string) (int, apitest.Object) {
			*sent = append(*sent, verb)
			if verb == "watch" {
				return http.StatusGone, apitest.Status(http.StatusGone, "Expired", "too old resource version", "", "")
			}
			return 0, nil
		}
		for range 2 {
			if err := roster.Follow(t.Context(), 0, func([]Object, uint64) {}); !errors.Is(err, locks.ErrVersionExpired) {
				t.Errorf("it ended with %v", err)
			}
		}
		if want := []string{"list", "watch", "list", "watch"}; !slices.Equal((*sent)[2:], want) {
			t.Errorf("sent %q, want %q", (*sent)[2:], want)
		}
	})
}

func TestAMissingPermissionToFollowIsNamed(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		server, client, _ := newServer(t)
		server.Before = func(v, path string) (int, apitest.Object) {
			if v == verb {
				return apitest.Forbidden(v, path)
			}
			return 0, nil
		}
		err := NewRoster(client, "ns", "lock", "").Follow(t.Context(), 0, func([]Object, uint64) {})
		if !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), `needs verb "`+verb+`" on leases.coordination.k8s.io in namespace "ns"`) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestGarbageIsNobody: a Lease with the label may contain anything.
func TestGarbageIsNobody(t *testing.T) {
	long := strings.Repeat("x", record.MaxText+1)
	made := func(change func(*coordinationv1.Lease)) coordinationv1.Lease {
		lease := objectOf("a").written(&coordinationv1.Lease{})
		lease.Name, lease.UID = objectOf("a").name(), "u"
		change(lease)
		return *lease
	}
	good := locks.Peer{Candidate: locks.Candidate{Identity: "a_1", Zone: "z1", Node: "n1", Pod: locks.Pod{Name: "a", UID: "uid-a"}}}
	zoneless, ill := good, good
	zoneless.Zone, ill.Unhealthy = "", "no disk"
	for name, tc := range map[string]struct {
		change func(*coordinationv1.Lease)
		want   []locks.Peer
	}{
		"as it was made":           {func(*coordinationv1.Lease) {}, []locks.Peer{good}},
		"unhealthy":                {func(l *coordinationv1.Lease) { l.Annotations[annotationHealth] = "no disk" }, []locks.Peer{ill}},
		"a zone of kilobytes":      {func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationZone] = long }, []locks.Peer{zoneless}},
		"an identity of kilobytes": {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &long }, nil},
		"no identity":              {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, nil},
		"no annotations":           {func(l *coordinationv1.Lease) { l.Annotations = nil }, []locks.Peer{{Candidate: locks.Candidate{Identity: "a_1", Pod: locks.Pod{Name: "a", UID: "uid-a"}}}}},
		"no owner":                 {func(l *coordinationv1.Lease) { l.OwnerReferences = nil }, nil},
		"a name of its own":        {func(l *coordinationv1.Lease) { l.Name = "mine" }, nil},
		"another lock's":           {func(l *coordinationv1.Lease) { l.Labels[Label] = "another" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lease := made(tc.change)
			if got := Peers(Among([]coordinationv1.Lease{lease, lease}, "lock"), "", 2); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("it tells of %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestWhatNeitherHasAPodNorIsRenewedIsNobody.
func TestWhatNeitherHasAPodNorIsRenewedIsNobody(t *testing.T) {
	own := podless("a")
	for name, tc := range map[string]struct {
		change func(*coordinationv1.Lease)
		counts bool
	}{
		"as it was made":     {func(*coordinationv1.Lease) {}, true},
		"without a duration": {func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }, true},
		"never renewed":      {func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, false},
		"renewed in 1970":    {func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(0, 0)} }, false},
		"no identity":        {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, false},
		"another identity":   {func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "b" }, false},
		"owned by a pod": {func(l *coordinationv1.Lease) {
			l.OwnerReferences = objectOf("a").written(&coordinationv1.Lease{}).OwnerReferences
		}, false},
		"owned by something":      {func(l *coordinationv1.Lease) { l.OwnerReferences = make([]metav1.OwnerReference, 1) }, false},
		"owned by two":            {func(l *coordinationv1.Lease) { l.OwnerReferences = make([]metav1.OwnerReference, 2) }, false},
		"under the name of a pod": {func(l *coordinationv1.Lease) { l.Name = objectOf("a").name() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			lease := own.written(&coordinationv1.Lease{})
			lease.Name, lease.UID = own.name(), "u"
			tc.change(lease)
			if got := Among([]coordinationv1.Lease{*lease}, "lock"); (len(got) == 1) != tc.counts {
				t.Errorf("it counts as %+v", got)
			}
		})
	}
}

// TestARosterKeepsSoMany, even if they are made up, and still follows those.
func TestARosterKeepsSoMany(t *testing.T) {
	r := NewRoster(nil, "ns", "lock", "")
	r.all = map[string]Object{}
	tell := func(kind watch.EventType, i int, zone string) bool {
		pod := Pod{Name: fmt.Sprintf("op-%d", i), UID: types.UID(fmt.Sprint(i))}
		lease := Object{Lock: "lock", Pod: pod, Identity: pod.Name, Zone: zone}.written(&coordinationv1.Lease{})
		lease.Name = Object{Lock: "lock", Pod: pod}.name()
		return r.take(rawapi.Event[*coordinationv1.Lease]{Type: kind, Object: lease})
	}
	for i := range most + 10 {
		if news := tell(watch.Added, i, "za"); news != (i < most) {
			t.Fatalf("the presence %d is news: %v", i, news)
		}
	}
	if !tell(watch.Modified, 0, "zb") || !tell(watch.Deleted, 1, "za") || !tell(watch.Added, most, "za") || len(r.all) != most {
		t.Errorf("%d are kept after changes", len(r.all))
	}
}

// many makes that many presences, by the names of their pods in order.
func many(t *testing.T, client rest.Interface, n int) []Object {
	t.Helper()
	var made []Object
	for i := range n {
		made = append(made, ensured(t, client, objectOf(fmt.Sprintf("op-%04d", i))))
	}
	return made
}

// TestTheDeadTakeNoRoomFromTheLiving: where nobody may delete presences, those of candidates without a
// pod stay. A roster that is full drops one that lapsed long ago, whether it lists or hears of another.
func TestTheDeadTakeNoRoomFromTheLiving(t *testing.T) {
	server, client, _ := newServer(t)
	now := time.Now()
	put := func(identity string, renewed time.Time, created int64) Object {
		o := podless(identity)
		o.Renewed = renewed.Unix()
		server.Put(all+"/"+o.name(), leaseOf(o, created))
		return o
	}
	for i := range most {
		put(fmt.Sprint("dead-", i), now.Add(-66*time.Minute), int64(i))
	}
	listed := put("listed", now, 1000)
	r := NewRoster(client, "ns", "lock", "")
	if err := r.list(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	heard := podless("heard")
	heard.Renewed = now.Unix()
	lease := heard.written(&coordinationv1.Lease{})
	lease.Name = heard.name()
	r.take(rawapi.Event[*coordinationv1.Lease]{Type: watch.Added, Object: lease})
	for _, o := range []Object{listed, heard} {
		if _, known := r.all[o.name()]; !known {
			t.Errorf("%s is not known", o.Identity)
		}
	}
	if len(r.all) != most || !r.dropped {
		t.Errorf("it keeps %d", len(r.all))
	}
}

// TestARosterFillsUpAgainOnceItHasRoom: the dropped presences still exist.
func TestARosterFillsUpAgainOnceItHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, sent := newServer(t)
		made := many(t, client, most+20)
		roster := NewRoster(client, "ns", "lock", "")
		ctx, cancel := context.WithCancel(t.Context())
		known := 0
		var following sync.WaitGroup
		following.Go(func() {
			for ctx.Err() == nil {
				if err := roster.Follow(ctx, 0, func(all []Object, _ uint64) { known = len(all) }); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		lists := func() (n int) {
			synctest.Wait()
			for _, verb := range *sent {
				if verb == "list" {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Hour)
		if n := lists(); known != most || n != 1 {
			t.Errorf("it knows %d after %d lists, want %d after one", known, n, most)
		}
		for _, o := range made[:10] {
			server.Delete(all + "/" + o.Name)
		}
		time.Sleep(4 * firstRefill) // a watch that ends by itself restarts the wait, 1.5 times as long
		if n := lists(); known != most || n != 2 {
			t.Errorf("after ten are gone it knows %d after %d lists, want %d after two", known, n, most)
		}
		for _, o := range made[10:40] { // then it is complete, and has no reason to list again
			server.Delete(all + "/" + o.Name)
		}
		time.Sleep(time.Hour)
		if n := lists(); known != most-20 || n > 3 {
			t.Errorf("in the end it knows %d after %d lists, want %d after three", known, n, most-20)
		}
		cancel()
		following.Wait()
	})
}

// TestRostersDoNotFillUpAllAtOnce, although all of them see a presence go.
func TestRostersDoNotFillUpAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rosters = 500
		began, in := time.Now(), map[time.Duration]int{}
		var mu sync.Mutex
		for range rosters {
			r := NewRoster(nil, "ns", "lock", "")
			r.dropped = true
			r.refill(func() {
				mu.Lock()
				defer mu.Unlock()
				in[time.Since(began).Truncate(time.Second)]++
			})
		}
		time.Sleep(2 * firstRefill)
		mu.Lock()
		defer mu.Unlock()
		total, largest := 0, 0
		for _, n := range in {
			total, largest = total+n, max(largest, n)
		}
		if total != rosters || largest > 40 {
			t.Errorf("%d of %d have filled up after two minutes, %d in one second", total, rosters, largest)
		}
	})
}

// TestARosterAlwaysKeepsTheOwnPresence, wherever it comes among however many.
func TestARosterAlwaysKeepsTheOwnPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, _ := newServer(t)
		many(t, client, most+20)
		own := objectOf("zz")
		for _, when := range []string{"after the list", "in the list"} {
			latest, end := follow(t, NewRoster(client, "ns", "lock", own.name()), 0)
			latest()
			own.Waiting = when
			ensured(t, client, own)
			if names := latest(); !slices.Contains(names, own.Identity) || len(names) != most+1 {
				t.Errorf("%s it knows %d, itself among them: %v", when, len(names), slices.Contains(names, own.Identity))
			}
			_ = end()
		}
	})
}

// BenchmarkAChangeInARoster measures an event that reports a change.
func BenchmarkAChangeInARoster(b *testing.B) {
	for _, n := range []int{3, 100, 300, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := NewRoster(nil, "ns", "lock", "")
			r.all = map[string]Object{}
			var leases []*coordinationv1.Lease
			for i := range n {
				o := objectOf(fmt.Sprintf("op-%04d", i))
				lease := o.written(&coordinationv1.Lease{})
				lease.Name = o.name()
				leases = append(leases, lease)
				r.take(rawapi.Event[*coordinationv1.Lease]{Type: watch.Added, Object: lease})
			}
			b.ReportAllocs()
			for i := range b.N {
				leases[0].Annotations[annotationWaiting] = fmt.Sprint(i)
				r.take(rawapi.Event[*coordinationv1.Lease]{Type: watch.Modified, Object: leases[0]})
				Peers(r.sorted(), r.own, len(r.all))
			}
		})
	}
}
