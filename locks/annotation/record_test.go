// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

var (
	acquired = time.Date(2026, 7, 1, 10, 0, 0, 123456000, time.FixedZone("CEST", 7200))
	renewed  = acquired.Add(2*time.Second + 3*time.Microsecond)
)

func held() locks.Record {
	pod := locks.Pod{Name: "pod-1", UID: "12345678-1234"}
	return locks.Record{
		Holder: "pod-1_12345678_ab", LeaseDuration: 15 * time.Second, AcquireTime: acquired, RenewTime: renewed, Transitions: 7,
		Details: locks.Details{Holder: "pod-1_12345678_ab", Token: 4711, Zone: "z1", Node: "n1", Pod: pod},
	}
}

func released() locks.Record {
	return locks.Record{
		LeaseDuration: time.Second, AcquireTime: renewed, RenewTime: renewed, Transitions: 7,
		Details: locks.Details{Holder: "a", Released: 4711, Token: 4711},
	}
}

// written returns an object with r on it.
func written(t *testing.T, r locks.Record) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	must(t, write(object, r))
	return object
}

func annotated(pairs ...string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{}
	object.Annotations = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		object.Annotations[pairs[i]] = pairs[i+1]
	}
	return object
}

func mustReadRecord(t *testing.T, object metav1.Object) locks.Record {
	t.Helper()
	r, err := read(object)
	must(t, err)
	return r
}

// same compares by value; times may differ in their location.
func same(a, b locks.Record) bool {
	times := a.AcquireTime.Equal(b.AcquireTime) && a.RenewTime.Equal(b.RenewTime)
	a.AcquireTime, a.RenewTime, b.AcquireTime, b.RenewTime = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return times && a == b
}

// valueOf returns a record as client-go writes it. A time is in quotes, or null.
func valueOf(holder string, seconds int, acquired, renewed string, transitions int) string {
	return `{"holderIdentity":"` + holder + `","leaseDurationSeconds":` + strconv.Itoa(seconds) +
		`,"acquireTime":` + acquired + `,"renewTime":` + renewed + `,"leaderTransitions":` + strconv.Itoa(transitions) + `}`
}

func TestTheRecordIsByteForByteWhatClientGoWrote(t *testing.T) {
	for name, tc := range map[string]struct {
		record locks.Record
		golden string
	}{
		"held":      {held(), valueOf(held().Holder, 15, `"2026-07-01T08:00:00Z"`, `"2026-07-01T08:00:02Z"`, 7)},
		"released":  {released(), valueOf("", 1, `"2026-07-01T08:00:02Z"`, `"2026-07-01T08:00:02Z"`, 7)},
		"no times":  {locks.Record{Holder: "a", LeaseDuration: time.Second}, valueOf("a", 1, "null", "null", 0)},
		"odd signs": {locks.Record{Holder: `<a>&"b"`, LeaseDuration: time.Second}, valueOf(`\u003ca\u003e\u0026\"b\"`, 1, "null", "null", 0)},
	} {
		t.Run(name, func(t *testing.T) {
			got := written(t, tc.record).Annotations[AnnotationRecord]
			if got != tc.golden {
				t.Errorf("\n got %s\nwant %s", got, tc.golden)
			}
			today, err := json.Marshal(resourcelock.LeaderElectionRecord{
				HolderIdentity:       tc.record.Holder,
				LeaseDurationSeconds: int(tc.record.LeaseDuration / time.Second),
				AcquireTime:          metav1.NewTime(tc.record.AcquireTime),
				RenewTime:            metav1.NewTime(tc.record.RenewTime),
				LeaderTransitions:    int(tc.record.Transitions),
			})
			// Today's type has two more fields, which no legacy elector wrote.
			want := strings.Replace(string(today), `,"strategy":"","preferredHolder":""`, "", 1)
			if err != nil || got != want {
				t.Errorf("\n got %s\nwant %s as client-go's type says (%v)", got, want, err)
			}
		})
	}
}

// TestWhatLegacyElectorsWroteIsRead as they read it. The literals are records that
// client-go's electors leave, and records that people edited.
func TestWhatLegacyElectorsWroteIsRead(t *testing.T) {
	second := time.Date(2021, 11, 3, 9, 15, 4, 0, time.UTC)
	for name, tc := range map[string]struct {
		value string
		want  locks.Record
	}{
		"given up, as older ones did": {
			valueOf("", 0, "null", "null", 3),
			locks.Record{Transitions: 3},
		},
		"a time in another zone": {
			valueOf("a", 30, `"2021-11-03T10:15:04+01:00"`, `"2021-11-03T10:15:04.25+01:00"`, 0),
			locks.Record{Holder: "a", LeaseDuration: 30 * time.Second, AcquireTime: second, RenewTime: second.Add(250 * time.Millisecond)},
		},
		"numbers out of range": {
			`{"holderIdentity":"a","leaseDurationSeconds":-15,"leaderTransitions":-1}`,
			locks.Record{Holder: "a"},
		},
		"numbers that are too large": {
			`{"holderIdentity":"a","leaseDurationSeconds":9223372036854775807,"leaderTransitions":9223372036854775807}`,
			locks.Record{Holder: "a", LeaseDuration: math.MaxInt64 / time.Second * time.Second, Transitions: math.MaxInt32},
		},
		"empty": {`{}`, locks.Record{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustReadRecord(t, annotated(AnnotationRecord, tc.value)); !same(got, tc.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// TestS3ARecordOfAnotherLibraryIsReadInFullOrRefused, as is what is no record: nothing of it is cut, because its leader
// leads for as long as its own record says. The records are made up from what each library
// writes.
func TestS3ARecordOfAnotherLibraryIsReadInFullOrRefused(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 15, 4, 0, time.UTC)
	full := locks.Record{Holder: "pod-7f", LeaseDuration: time.Minute, AcquireTime: at, RenewTime: at.Add(2 * time.Second), Transitions: 4}
	sub, none := full, locks.Record{}
	sub.AcquireTime, sub.RenewTime = at.Add(120*time.Millisecond), full.RenewTime.Add(345*time.Millisecond)
	csharp := valueOf("pod-7f", 60, `"2026-03-01T09:15:04.120000Z"`, `"2026-03-01T09:15:06.345000Z"`, 4)
	java := valueOf("pod-7f", 60, `"2026-03-01T09:15:04.120Z"`, `"2026-03-01T09:15:06.345Z"`, 4)
	for name, tc := range map[string]struct {
		value   string
		want    locks.Record
		refused string // what the error says
	}{
		"half a record": {`{"holderIdentity":"a"`, none, AnnotationRecord},
		"client-go":     {valueOf("pod-7f", 60, `"2026-03-01T09:15:04Z"`, `"2026-03-01T09:15:06Z"`, 4), full, ""},
		"C#":            {csharp, sub, ""},
		"C#, names as in its code": {`{"HolderIdentity":"pod-7f","LeaseDurationSeconds":60,` +
			`"AcquireTime":"2026-03-01T09:15:04Z","RenewTime":"2026-03-01T09:15:06Z","LeaderTransitions":4}`, none, `"AcquireTime"`},
		"Java":               {java, sub, ""},
		"Java with an owner": {strings.TrimSuffix(java, "}") + `,"ownerReference":{"kind":"Pod","name":"pod-7f"}}`, none, `"ownerReference"`},
		"Java of old":        {valueOf("pod-7f", 60, `"20260301T091504.120Z"`, `"20260301T091506.345Z"`, 4), none, "cannot parse"},
		"Python": {`{"holderIdentity": "pod-7f", "leaseDurationSeconds": "60", ` +
			`"acquireTime": "2026-03-01 09:15:04.120000", "renewTime": "2026-03-01 09:15:06.345000"}`, none, "cannot parse"},
		"fabric8":       {strings.Replace(csharp, `Seconds":60`, `":60.000000000`, 1), none, `"leaseDuration"`},
		"fabric8, both": {`{"holderIdentity":"pod-7f","leaseDuration":60.000000000,"leaseDurationSeconds":15}`, none, `"leaseDuration"`},
		"fabric8, released (Flink does so)": {`{"leaseDuration":1.000000000,"acquireTime":"2026-03-01T09:15:04.120000Z",` +
			`"renewTime":"2026-03-01T09:15:04.120000Z","leaderTransitions":4}`, none, `"leaseDuration"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := read(annotated(AnnotationRecord, tc.value))
			if tc.refused == "" && (err != nil || !same(r, tc.want)) {
				t.Errorf("\n got %+v, %v\nwant %+v", r, err, tc.want)
			}
			if tc.refused != "" && (!errors.Is(err, ErrNoRecord) || !strings.Contains(err.Error(), tc.refused) || r != none) {
				t.Errorf("read %+v, %v: want it refused for %s", r, err, tc.refused)
			}
		})
	}
}

// TestRenewalsWithinASecondDiffer for readers of this library; the elector makes them
// differ by at least a microsecond.
func TestRenewalsWithinASecondDiffer(t *testing.T) {
	r := held()
	object := written(t, r)
	before := object.Annotations[AnnotationRecord]
	r.RenewTime = r.RenewTime.Add(time.Microsecond)
	must(t, write(object, r))
	if object.Annotations[AnnotationRecord] != before {
		t.Errorf("the record changed within a second: %s", object.Annotations[AnnotationRecord])
	}
	if got := mustReadRecord(t, object).RenewTime; !got.Equal(r.RenewTime) {
		t.Errorf("renewed at %v, want %v", got, r.RenewTime)
	}
}

// TestMicrosecondsThatALegacyElectorLeftStandingAreNotBelieved: the elector renews the
// record, and does not know of the microseconds.
func TestMicrosecondsThatALegacyElectorLeftStandingAreNotBelieved(t *testing.T) {
	object := written(t, held())
	object.Annotations[AnnotationRecord] = strings.ReplaceAll(object.Annotations[AnnotationRecord], "08:00:0", "08:00:1")
	r := mustReadRecord(t, object)
	if want := acquired.Truncate(time.Second).Add(10 * time.Second); !r.AcquireTime.Equal(want) {
		t.Errorf("acquired at %v, want %v", r.AcquireTime, want)
	}
	if want := renewed.Truncate(time.Second).Add(10 * time.Second); !r.RenewTime.Equal(want) {
		t.Errorf("renewed at %v, want %v", r.RenewTime, want)
	}
	for _, garbage := range []string{"", "soon", "2026-07-01T08:00:12Z", "2026-07-01T08:00:13.000001Z", "2026-07-01T08:00:11.999999Z"} {
		object.Annotations[AnnotationRenewed] = garbage
		if got := mustReadRecord(t, object).RenewTime; !got.Equal(r.RenewTime) {
			t.Errorf("with %q: renewed at %v, want %v", garbage, got, r.RenewTime)
		}
	}
}

func owned(kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: "u"}
}

// TestALockOfAnotherKindIsNotTaken, because its leader would not notice.
func TestALockOfAnotherKindIsNotTaken(t *testing.T) {
	pod := []metav1.OwnerReference{owned("Pod", "operator-0")}
	for name, tc := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		says        string // of the error; empty for none
	}{
		"nothing":              {},
		"leader for life":      {owners: pod, says: "the pod operator-0"},
		"one of ours by a pod": {owners: pod, annotations: map[string]string{AnnotationRecord: "{}"}},
		"a shield":             {owners: []metav1.OwnerReference{owned("Lease", "lock.a"), owned("Lease", "lock.b")}, says: "shields"},
		"a sealed shield":      {annotations: map[string]string{record.AnnotationPhase: "sealed"}, says: "shields"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{}
			object.OwnerReferences, object.Annotations = tc.owners, tc.annotations
			_, err := read(object)
			if tc.says == "" && err != nil {
				t.Errorf("read: %v", err)
			}
			if tc.says != "" && (!errors.Is(err, ErrOtherLock) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("read: %v, want an error that says %q", err, tc.says)
			}
		})
	}
}

// TestARecordThatWasRemovedIsNotReleased: the details of our term stay, so that the
// elector can tell it from a released record.
func TestARecordThatWasRemovedIsNotReleased(t *testing.T) {
	object := written(t, held())
	delete(object.Annotations, AnnotationRecord)
	want := locks.Record{Details: held().Details}
	if got := mustReadRecord(t, object); !same(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}
