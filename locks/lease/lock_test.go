// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

const path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustNew(t *testing.T, c rest.Interface) *Lock {
	t.Helper()
	l, err := New(Config{Client: c, Namespace: "ns", Name: "lock"})
	must(t, err)
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
	must(t, err)
	return s
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	_, client := newAPIServer(t)
	for says, config := range map[string]Config{
		"client is nil":      {Namespace: "ns", Name: "lock"},
		"namespace is empty": {Client: client, Name: "lock"},
		"name is empty":      {Client: client, Namespace: "ns"},
		"RFC 1123":           {Client: client, Namespace: "ns", Name: "My_Lock"},
		"dots":               {Client: client, Namespace: "a.b", Name: "lock"},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New: %v, want an error that says %q", err, says)
		}
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

func TestAWriteCarriesUIDAndVersion(t *testing.T) {
	_, client := newAPIServer(t)
	l := mustNew(t, client)
	s := mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	var body object
	spy := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		stored := apitest.Clone(body)
		stored["metadata"].(object)["resourceVersion"] = "102"
		apitest.Reply(w, http.StatusOK, stored)
	}))
	mustWrite(t, mustNew(t, spy), s.Version, recordOf("a", 2))
	meta := body["metadata"].(object)
	if meta["uid"] != s.Version.UID || meta["resourceVersion"] != "101" || body["kind"] != "Lease" {
		t.Errorf("sent %s", apitest.Marshal(body))
	}
}

func TestAWriteThatCannotBeACompareAndSwapIsNotSent(t *testing.T) {
	l := mustNew(t, clientOf(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })))
	_, client := newAPIServer(t)
	other, err := New(Config{Client: client, Namespace: "ns", Name: "other"})
	must(t, err)
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

// TestALostAnswerIsNotRepeated: the write lands, the answer is lost, and nothing below the elector tries again.
func TestALostAnswerIsNotRepeated(t *testing.T) {
	a, _ := newAPIServer(t)
	var writes atomic.Int64
	l := mustNew(t, clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			a.ServeHTTP(w, r)
			return
		}
		writes.Add(1)
		a.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})))
	_, err := l.Write(t.Context(), locks.Version{}, recordOf("a", 1))
	var answered apierrors.APIStatus
	if err == nil || errors.Is(err, locks.ErrConflict) || errors.As(err, &answered) || writes.Load() != 1 {
		t.Errorf("write whose answer was lost, sent %d times: %v", writes.Load(), err)
	}
	if s, err := l.Read(t.Context()); err != nil || s.Record.Holder != "a" {
		t.Errorf("the next read does not settle it: %+v, %v", s, err)
	}
}

// TestAnOddDurationIsHonoredAndWarnedOfOnce: a long one, or none, as another library or a hand writes it.
func TestAnOddDurationIsHonoredAndWarnedOfOnce(t *testing.T) {
	a, client := newAPIServer(t)
	var warnings []string
	logger := funcr.New(func(_, args string) { warnings = append(warnings, args) }, funcr.Options{})
	l, err := New(Config{Client: client, Namespace: "ns", Name: "lock", Logger: logger})
	must(t, err)
	mustWrite(t, l, locks.Version{}, recordOf("a", 1))
	for _, tc := range []struct{ seconds, warnings int }{{7200, 1}, {7200, 1}, {10800, 2}, {0, 3}, {0, 3}} {
		a.Change(path, func(o object) {
			if o["spec"].(object)["leaseDurationSeconds"] = tc.seconds; tc.seconds == 0 {
				delete(o["spec"].(object), "leaseDurationSeconds")
			}
		})
		s, err := l.Read(t.Context())
		if want := time.Duration(tc.seconds) * time.Second; err != nil || s.Record.LeaseDuration != want {
			t.Errorf("duration %v, %v: want %v", s.Record.LeaseDuration, err, want)
		}
		if len(warnings) != tc.warnings || !strings.Contains(warnings[0], "set leaseDurationSeconds to 1") {
			t.Errorf("want %d warnings of what to do: %q", tc.warnings, warnings)
		}
	}
}

// TestM12ALeaseWhosePhaseIsForOthersIsBarred, whoever reads it: only the lock of a migration lifts that.
func TestM12ALeaseWhosePhaseIsForOthersIsBarred(t *testing.T) {
	server, client := newAPIServer(t)
	l := mustNew(t, client)
	for phase, barred := range map[record.Phase]bool{
		record.PhaseLegacy: true, record.PhaseDual: true, record.PhaseSealed: false, record.PhaseClean: false,
	} {
		server.Put(path, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: "lock", Namespace: "ns", UID: "1", Annotations: record.WriteStage(nil, record.Stage{Phase: phase, Step: 1}),
		}})
		if s, err := l.Read(t.Context()); err != nil || (s.Barred != "") != barred {
			t.Errorf("in phase %s it is barred by %q, %v", phase, s.Barred, err)
		}
	}
}
