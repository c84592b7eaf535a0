// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
)

type object = apitest.Object

func pathOf(kind Kind) string { return "/api/v1/namespaces/ns/" + string(kind) + "/lock" }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func forEachKind(t *testing.T, do func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{ConfigMaps, Endpoints} {
		t.Run(string(kind), func(t *testing.T) { do(t, kind) })
	}
}

func mustNew(t *testing.T, kind Kind, h http.Handler) *Lock {
	t.Helper()
	l, err := New(Config{Client: apitest.Wire(t, h, corev1.SchemeGroupVersion), Kind: kind, Namespace: "ns", Name: "lock"})
	must(t, err)
	return l
}

func newLock(t *testing.T, kind Kind) (*Lock, *apitest.Server) {
	server := apitest.NewServer()
	return mustNew(t, kind, server), server
}

func mustWrite(t *testing.T, l *Lock, base locks.Version, r locks.Record) locks.Snapshot {
	t.Helper()
	s, err := l.Write(t.Context(), base, r)
	must(t, err)
	return s
}

func mustRead(t *testing.T, l *Lock) locks.Snapshot {
	t.Helper()
	s, err := l.Read(t.Context())
	must(t, err)
	return s
}

// annotationsOf returns the annotations of an object, to read or to change.
func annotationsOf(o object) object { return o["metadata"].(object)["annotations"].(object) }

func TestNewSaysWhatIsWrong(t *testing.T) {
	client := apitest.Wire(t, apitest.NewServer(), corev1.SchemeGroupVersion)
	for name, tc := range map[string]struct {
		config Config
		says   string
	}{
		"no kind":    {Config{Client: client, Namespace: "ns", Name: "lock"}, `set "configmaps" or "endpoints"`},
		"nil client": {Config{Client: (*rest.RESTClient)(nil), Kind: ConfigMaps, Namespace: "ns", Name: "lock"}, "client is nil"},
		"bad name":   {Config{Client: client, Kind: Endpoints, Namespace: "ns", Name: "My_Lock"}, "RFC 1123"},
	} {
		if _, err := New(tc.config); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, tc.says)
		}
	}
	for kind, want := range map[Kind]string{ConfigMaps: "ConfigMap ns/lock", Endpoints: "Endpoints ns/lock"} {
		if l, _ := newLock(t, kind); l.Describe().String() != want {
			t.Errorf("describes itself as %q, want %q", l.Describe(), want)
		}
	}
}

// payload is content on an object that is not part of the lock.
var payload = map[Kind]object{
	ConfigMaps: {"kind": "ConfigMap", "apiVersion": "v1", "data": object{"k": "v"}, "binaryData": object{"b": "AAE="}, "immutable": true},
	Endpoints: {"kind": "Endpoints", "apiVersion": "v1", "subsets": []any{object{
		"addresses": []any{object{"ip": "192.0.2.1"}}, "ports": []any{object{"port": 80.}},
	}}},
}

// others returns an object of another owner, without a record.
func others(kind Kind) object {
	o := apitest.Clone(payload[kind])
	o["metadata"] = object{
		"name": "lock", "namespace": "ns", "uid": "u1", "resourceVersion": "101",
		"labels":          object{"team": "x"},
		"annotations":     object{"theirs": "kept"},
		"finalizers":      []any{"f/f"},
		"ownerReferences": []any{object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "du"}},
	}
	return o
}

func TestAnObjectWithoutRecordIsAFreeLockAndWhatIsOnItIsKept(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		l, server := newLock(t, kind)
		server.Put(pathOf(kind), others(kind))
		free := mustRead(t, l)
		if !free.Version.Exists() || free.Record != (locks.Record{}) || free.Version.UID != "u1" || free.Version.Number != 101 {
			t.Fatalf("read %+v, want a free lock", free)
		}
		mustWrite(t, l, free.Version, held())

		server.Mu.Lock()
		defer server.Mu.Unlock()
		got := apitest.Clone(server.Objects[pathOf(kind)])
		want := others(kind)
		want["metadata"].(object)["resourceVersion"] = "102"
		for key, value := range written(t, held()).Annotations {
			annotationsOf(want)[key] = value
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %s\nwant %s", apitest.Marshal(got), apitest.Marshal(want))
		}
	})
}

// TestARecordIsTakenOffWithoutATrace: the object is as it was before there was a lock on
// it. Changes made after it was read stay.
func TestARecordIsTakenOffWithoutATrace(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		l, server := newLock(t, kind)
		if err := l.Clear(t.Context(), locks.Version{}); err == nil {
			t.Error("an object that does not exist was cleared")
		}
		server.Put(pathOf(kind), others(kind))
		old := mustWrite(t, l, mustRead(t, l).Version, held())
		now := mustWrite(t, l, old.Version, released())
		if err := l.Clear(t.Context(), old.Version); !errors.Is(err, locks.ErrConflict) || mustRead(t, l).Record != now.Record {
			t.Errorf("what was read before the last write was cleared, with %v", err)
		}
		must(t, l.Clear(t.Context(), now.Version))
		if free := mustRead(t, l); !free.Version.Exists() || free.Record != (locks.Record{}) {
			t.Errorf("then it reads %+v", free)
		}
		server.Mu.Lock()
		defer server.Mu.Unlock()
		got, want := apitest.Clone(server.Objects[pathOf(kind)]), others(kind)
		want["metadata"].(object)["resourceVersion"] = "104"
		if !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %s\nwant %s", apitest.Marshal(got), apitest.Marshal(want))
		}
	})
}

func TestWhatIsNoLockOfThisKindIsNeitherReadNorWatched(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		for name, tc := range map[string]struct {
			change func(o object)
			want   error
		}{
			"a broken record": {func(o object) { annotationsOf(o)[AnnotationRecord] = "broken" }, ErrNoRecord},
			"a leader for life": {func(o object) {
				o["metadata"].(object)["ownerReferences"] = []any{object{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu"}}
			}, ErrOtherLock},
		} {
			l, server := newLock(t, kind)
			o := others(kind)
			tc.change(o)
			server.Put(pathOf(kind), o)
			if s, err := l.Read(t.Context()); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), " ns/lock: get: ") || s.Version.Exists() {
				t.Errorf("%s: read %+v, %v", name, s, err)
			}
			if err := watchOnce(t, l); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), " ns/lock: watch: ") {
				t.Errorf("%s: watch: %v", name, err)
			}
			if _, err := l.Write(t.Context(), locks.Version{}, held()); !errors.Is(err, locks.ErrConflict) {
				t.Errorf("%s: write: %v", name, err)
			}
			if got := apitest.Clone(server.Objects[pathOf(kind)]); !reflect.DeepEqual(got, o) {
				t.Errorf("%s: it is now %s", name, apitest.Marshal(got))
			}
		}
	})
}

// watchOnce watches until the first event and returns how that ended.
func watchOnce(t *testing.T, l *Lock) error {
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan locks.Event), make(chan error)
	go func() { ended <- l.Watch(ctx, locks.Version{}, events) }()
	defer cancel()
	select {
	case <-events:
		cancel()
		return <-ended
	case err := <-ended:
		return err
	}
}

func TestAWriteThatCannotBeACompareAndSwapIsNotSent(t *testing.T) {
	l := mustNew(t, ConfigMaps, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	endpoints, _ := newLock(t, Endpoints)
	foreign := mustWrite(t, endpoints, locks.Version{}, held()).Version
	cut := held()
	cut.LeaseDuration = 1900 * time.Millisecond
	for name, tc := range map[string]struct {
		base   locks.Version
		record locks.Record
	}{
		"a version of another kind": {foreign, held()},
		"another lock's version":    {locks.Version{Number: 1, Opaque: "x"}, held()},
		"a record that is cut":      {locks.Version{}, cut},
	} {
		if _, err := l.Write(t.Context(), tc.base, tc.record); err == nil || errors.Is(err, locks.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnnotationHoldsTheLawsOfEveryLock(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind Kind) {
		servers := map[locks.Lock]*apitest.Server{}
		lockstest.RunSuite(t, lockstest.Suite{
			New: func(t *testing.T) locks.Lock {
				l, server := newLock(t, kind)
				servers[l] = server
				return l
			},
			Delete:       func(_ *testing.T, l locks.Lock) { servers[l].Delete(pathOf(kind)) },
			StoreNothing: func(_ *testing.T, l locks.Lock) { servers[l].StoreNothing() },
		})
	})
}
