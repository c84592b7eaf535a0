// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/zonelect/zonelect/locks"
)

const path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"

func mustNew(t *testing.T, c rest.Interface) *Lock {
	t.Helper()
	l, err := New(Config{Client: c, Namespace: "ns", Name: "lock"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func recordOf(holder string, second int) locks.Record {
	at := time.Date(2026, 7, 1, 10, 0, second, 1000, time.UTC)
	return locks.Record{
		Holder: holder, LeaseDuration: 15 * time.Second, AcquireTime: at, RenewTime: at,
		Details: locks.Details{Holder: holder, Zone: "z1"},
	}
}

func mustWrite(t *testing.T, l *Lock, base locks.Version, r locks.Record) locks.Snapshot {
	t.Helper()
	s, err := l.Write(t.Context(), base, r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	_, client := newAPIServer(t)
	for name, tc := range map[string]struct {
		config Config
		says   string
	}{
		"no client":     {Config{Namespace: "ns", Name: "lock"}, "client is nil"},
		"no namespace":  {Config{Client: client, Name: "lock"}, "namespace is empty"},
		"no name":       {Config{Client: client, Namespace: "ns"}, "name is empty"},
		"bad name":      {Config{Client: client, Namespace: "ns", Name: "My_Lock"}, "RFC 1123"},
		"bad namespace": {Config{Client: client, Namespace: "a.b", Name: "lock"}, "dots"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(tc.config); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("New: %v, want an error that says %q", err, tc.says)
			}
		})
	}
	if got := mustNew(t, client).Describe().String(); got != "Lease ns/lock" {
		t.Errorf("describes itself as %q", got)
	}
}

// limited is a client whose rate limiter lets nothing pass.
type limited struct{ rest.Interface }

func (c limited) Verb(verb string) *rest.Request {
	return c.Interface.Verb(verb).Throttle(flowcontrol.NewFakeNeverRateLimiter())
}

func TestTheClientsRateLimitDoesNotApply(t *testing.T) {
	_, client := newAPIServer(t)
	l := mustNew(t, limited{client})
	s := mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	mustWrite(t, l, s.Version, recordOf("a", 2))
	if _, err := l.Read(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatOthersWroteIsKept(t *testing.T) {
	a, client := newAPIServer(t)
	l := mustNew(t, client)
	first := mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	a.Mu.Lock()
	meta, spec := a.Objects[path]["metadata"].(object), a.Objects[path]["spec"].(object)
	meta["labels"] = object{"team": "x"}
	meta["ownerReferences"] = []any{object{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu"}}
	meta["annotations"].(object)["theirs"] = "kept"
	spec["strategy"], spec["preferredHolder"] = "OldestEmulationVersion", "b"
	want := clone(a.Objects[path])
	a.Mu.Unlock()

	s, err := l.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Version.UID != first.Version.UID || s.Record != first.Record {
		t.Errorf("read %+v, wrote %+v", s, first)
	}
	mustWrite(t, l, s.Version, recordOf("b", 2))
	want["metadata"].(object)["resourceVersion"] = "102"
	want["metadata"].(object)["annotations"].(object)["zonelect.dev/holder"] = "b"
	want["spec"].(object)["holderIdentity"] = "b"
	want["spec"].(object)["acquireTime"] = "2026-07-01T10:00:02.000001Z"
	want["spec"].(object)["renewTime"] = "2026-07-01T10:00:02.000001Z"
	if got := clone(a.Objects[path]); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %s\nwant %s", mustMarshal(got), mustMarshal(want))
	}
}

func TestAWriteCarriesUIDAndVersion(t *testing.T) {
	_, client := newAPIServer(t)
	l := mustNew(t, client)
	s := mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	var body object
	spy := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		stored := clone(body)
		stored["metadata"].(object)["resourceVersion"] = "102"
		reply(w, http.StatusOK, stored)
	}))
	mustWrite(t, mustNew(t, spy), s.Version, recordOf("a", 2))
	meta := body["metadata"].(object)
	if meta["uid"] != s.Version.UID || meta["resourceVersion"] != "101" || body["kind"] != "Lease" {
		t.Errorf("sent %s", mustMarshal(body))
	}
}

func TestAWriteThatCannotBeACompareAndSwapIsNotSent(t *testing.T) {
	l := mustNew(t, clientOf(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })))
	_, client := newAPIServer(t)
	other, err := New(Config{Client: client, Namespace: "ns", Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := mustWrite(t, other, locks.Version{}, recordOf("a", 1)).Version
	fraction := recordOf("a", 1)
	fraction.LeaseDuration = 1900 * time.Millisecond
	for name, tc := range map[string]struct {
		base   locks.Version
		record locks.Record
	}{
		"another Lease's version": {foreign, recordOf("a", 1)},
		"another lock's version":  {locks.Version{Number: 1, Opaque: "x"}, recordOf("a", 1)},
		"a record that is cut":    {locks.Version{}, fraction},
	} {
		if _, err := l.Write(t.Context(), tc.base, tc.record); err == nil || errors.Is(err, locks.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestALostAnswerIsNotRepeated: the write lands, the answer is lost, and
// nothing below the elector tries again.
func TestALostAnswerIsNotRepeated(t *testing.T) {
	a, _ := newAPIServer(t)
	var mu sync.Mutex
	requests := 0
	l := mustNew(t, clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			a.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		requests++
		mu.Unlock()
		a.ServeHTTP(discard{}, r)
		panic(http.ErrAbortHandler)
	})))
	_, err := l.Write(t.Context(), locks.Version{}, recordOf("a", 1))
	var answered interface{ StatusCode() int }
	if err == nil || errors.Is(err, locks.ErrConflict) || errors.As(err, &answered) {
		t.Errorf("write whose answer was lost: %v", err)
	}
	if mu.Lock(); requests != 1 {
		t.Errorf("it was sent %d times", requests)
	}
	mu.Unlock()
	if s, err := l.Read(t.Context()); err != nil || s.Record.Holder != "a" {
		t.Errorf("the next read does not settle it: %+v, %v", s, err)
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

func TestALongDurationIsHonoredAndWarnedOfOnce(t *testing.T) {
	a, client := newAPIServer(t)
	var warnings []string
	l, err := New(Config{Client: client, Namespace: "ns", Name: "lock", Logger: funcr.New(func(_, args string) { warnings = append(warnings, args) }, funcr.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	for i, seconds := range []int{7200, 7200, 10800} {
		a.Mu.Lock()
		a.Objects[path]["spec"].(object)["leaseDurationSeconds"] = seconds
		a.Mu.Unlock()
		s, err := l.Read(t.Context())
		if want := time.Duration(seconds) * time.Second; err != nil || s.Record.LeaseDuration != want {
			t.Errorf("duration %v, %v: want %v", s.Record.LeaseDuration, err, want)
		}
		if want := []int{1, 1, 2}[i]; len(warnings) != want {
			t.Errorf("%d warnings, want %d: %v", len(warnings), want, warnings)
		}
	}
	if hint := "set the Lease's leaseDurationSeconds to 1 and its renewTime to the present time"; !strings.Contains(warnings[0], hint) {
		t.Errorf("%s\ndoes not say: %s", warnings[0], hint)
	}
}

// TestAHolderWithoutADurationIsWarnedOfOnce: the Lease of another library, or one that
// somebody edited. What it says is not cut to anything.
func TestAHolderWithoutADurationIsWarnedOfOnce(t *testing.T) {
	a, client := newAPIServer(t)
	var warnings []string
	l, err := New(Config{Client: client, Namespace: "ns", Name: "lock", Logger: funcr.New(func(_, args string) { warnings = append(warnings, args) }, funcr.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	a.Mu.Lock()
	delete(a.Objects[path]["spec"].(object), "leaseDurationSeconds")
	a.Mu.Unlock()
	for range 2 {
		if s, err := l.Read(t.Context()); err != nil || s.Record.LeaseDuration != 0 {
			t.Errorf("duration %v, %v", s.Record.LeaseDuration, err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "nobody takes the lock from it") || !strings.Contains(warnings[0], `"holder"="a"`) {
		t.Errorf("warnings %v", warnings)
	}
}
