// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/locks"
)

var (
	acquired = time.Date(2026, 7, 1, 10, 0, 0, 123456789, time.FixedZone("CEST", 7200))
	renewed  = acquired.Add(2*time.Second + 3*time.Microsecond)
)

func held() locks.Record {
	return locks.Record{
		Holder: "pod-1_12345678_ab", LeaseDuration: 15 * time.Second,
		AcquireTime: acquired, RenewTime: renewed, Transitions: 7,
		Details: locks.Details{
			Holder: "pod-1_12345678_ab", Token: 4711, Zone: "z1", Node: "n1",
			Pod: locks.Pod{Name: "pod-1", UID: "12345678-1234"}, Nonce: "n", Trace: "00-aa-bb-01",
			ProcessLock: "boot/net/name/process",
			Request:     `{"holder":"pod-1_12345678_ab"}`, Refused: "no successor", Waits: "others may lead",
		},
	}
}

func released() locks.Record {
	return locks.Record{
		LeaseDuration: time.Second, AcquireTime: renewed, RenewTime: renewed, Transitions: 7,
		Details: locks.Details{Released: 4711, Token: 4711, Handover: locks.Handover{To: "pod 2", Precedence: 4 * time.Second}},
	}
}

func asClientGo(r locks.Record) coordinationv1.LeaseSpec {
	return resourcelock.LeaderElectionRecordToLeaseSpec(&resourcelock.LeaderElectionRecord{
		HolderIdentity:       r.Holder,
		LeaseDurationSeconds: int(r.LeaseDuration / time.Second),
		AcquireTime:          metav1.NewTime(r.AcquireTime),
		RenewTime:            metav1.NewTime(r.RenewTime),
		LeaderTransitions:    int(r.Transitions),
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("marshal %T: %v", v, err)
	}
	return string(b)
}

func TestSpecIsByteForByteWhatClientGoWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		record locks.Record
		golden string
	}{
		"held": {held(), `{"holderIdentity":"pod-1_12345678_ab","leaseDurationSeconds":15,` +
			`"acquireTime":"2026-07-01T08:00:00.123456Z","renewTime":"2026-07-01T08:00:02.123459Z","leaseTransitions":7}`},
		"released": {released(), `{"holderIdentity":"","leaseDurationSeconds":1,` +
			`"acquireTime":"2026-07-01T08:00:02.123459Z","renewTime":"2026-07-01T08:00:02.123459Z","leaseTransitions":7}`},
		"no times": {locks.Record{Holder: "a", LeaseDuration: time.Second},
			`{"holderIdentity":"a","leaseDurationSeconds":1,"acquireTime":null,"renewTime":null,"leaseTransitions":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustJSON(t, Write(nil, tc.record).Spec)
			if want := mustJSON(t, asClientGo(tc.record)); got != want {
				t.Errorf("spec differs from client-go's\n got %s\nwant %s", got, want)
			}
			if got != tc.golden {
				t.Errorf("spec differs from the golden one\n got %s\nwant %s", got, tc.golden)
			}
		})
	}
}

// full is a Lease that others have written to as well.
func full() *coordinationv1.Lease {
	strategy, preferred := coordinationv1.OldestEmulationVersion, "other"
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: "lock", Namespace: "ns", UID: "u1", ResourceVersion: "42",
			Labels: map[string]string{"team": "a"},
			Annotations: map[string]string{
				"theirs": "kept", "zonelect.dev/phase": "dual", AnnotationZone: "old", AnnotationTrace: "old", AnnotationReleased: "3",
			},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "pu"}},
			Finalizers:      []string{"f/f"},
		},
		Spec: coordinationv1.LeaseSpec{Strategy: &strategy, PreferredHolder: &preferred},
	}
}

func TestWhateverIsNotOursIsKept(t *testing.T) {
	base := full()
	r := held()
	r.Details.Zone = ""
	got := Write(base, r)
	if !reflect.DeepEqual(base, full()) {
		t.Errorf("the base was changed: %+v", base)
	}
	want := full()
	want.Spec = asClientGo(r)
	want.Spec.Strategy, want.Spec.PreferredHolder = full().Spec.Strategy, full().Spec.PreferredHolder
	want.Annotations = map[string]string{
		"theirs": "kept", "zonelect.dev/phase": "dual",
		AnnotationHolder: r.Holder, AnnotationToken: "4711", AnnotationNode: "n1",
		AnnotationPod: r.Details.Pod.String(), AnnotationNonce: "n", AnnotationTrace: "00-aa-bb-01",
		AnnotationProcessLock: "boot/net/name/process",
		AnnotationRequest:     r.Details.Request, AnnotationRefused: r.Details.Refused, AnnotationWaits: r.Details.Waits,
	}
	if g, w := mustJSON(t, got), mustJSON(t, want); g != w {
		t.Errorf("\n got %s\nwant %s", g, w)
	}
}

func TestGarbageReadsAsAbsent(t *testing.T) {
	negative := int32(-5)
	long := strings.Repeat("x", MaxText+1)
	for name, lease := range map[string]*coordinationv1.Lease{
		"nothing":          {},
		"negative numbers": {Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &negative, LeaseTransitions: &negative}},
		"null times":       {Spec: coordinationv1.LeaseSpec{AcquireTime: &metav1.MicroTime{}, RenewTime: &metav1.MicroTime{}}},
		"huge texts": annotated(AnnotationHolder, long, AnnotationZone, long, AnnotationNode, long, AnnotationPod, long, AnnotationNonce, long,
			AnnotationTrace, long, AnnotationRequest, long, AnnotationRefused, long, AnnotationHandover, `{"to":"`+long+`","precedenceMs":4}`),
		"nobody to hand over": annotated(AnnotationHandover, `{"to":"","precedenceMs":4000}`),
	} {
		t.Run(name, func(t *testing.T) {
			if got := Read(lease); got != (locks.Record{}) {
				t.Errorf("read %+v, want nothing", got)
			}
		})
	}
}

func annotated(pairs ...string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	lease.Annotations = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		lease.Annotations[pairs[i]] = pairs[i+1]
	}
	return lease
}

func TestAbsurdTimesAndLongDurationsAreKept(t *testing.T) {
	far := metav1.NewMicroTime(time.Date(9999, 1, 1, 0, 0, 0, 1000, time.UTC))
	seconds := int32(math.MaxInt32)
	got := Read(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &far, LeaseDurationSeconds: &seconds}})
	if !got.RenewTime.Equal(far.Time) {
		t.Errorf("renew time %v, want %v: or two renewals would look like one", got.RenewTime, far)
	}
	if want := math.MaxInt32 * time.Second; got.LeaseDuration != want {
		t.Errorf("lease duration %v, want %v: or a live lease would be taken", got.LeaseDuration, want)
	}
}

func TestCheckRefusesWhatWouldBeCut(t *testing.T) {
	for name, change := range map[string]func(*locks.Record){
		"fraction of a second": func(r *locks.Record) { r.LeaseDuration = 1900 * time.Millisecond },
		"no duration":          func(r *locks.Record) { r.LeaseDuration = 0 },
		"negative duration":    func(r *locks.Record) { r.LeaseDuration = -time.Second },
		"duration too long":    func(r *locks.Record) { r.LeaseDuration = (math.MaxInt32 + 1) * time.Second },
		"negative transitions": func(r *locks.Record) { r.Transitions = -1 },
		"huge identity":        func(r *locks.Record) { r.Holder = strings.Repeat("x", MaxText+1) },
		"huge successor":       func(r *locks.Record) { r.Details.Handover.To = strings.Repeat("x", MaxText+1) },
		"huge zone":            func(r *locks.Record) { r.Details.Zone = strings.Repeat("x", MaxText+1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := held()
			change(&r)
			if err := Check(r); !errors.Is(err, ErrUnwritable) {
				t.Errorf("Check: %v, want ErrUnwritable", err)
			}
		})
	}
	for name, r := range map[string]locks.Record{"held": held(), "released": released()} {
		if err := Check(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEvacuatedZonesAreLeftAsTheyAreUnlessKnown(t *testing.T) {
	long := strings.Repeat("z", MaxText+1)
	for there, want := range map[string]string{"za,zb": "za,zb", long: "", "": ""} {
		base := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationEvacuated: there}}}
		r := Read(base)
		if r.Evacuated != want {
			t.Errorf("%.9q is read as %.9q", there, r.Evacuated)
		}
		if got := Write(base, r).Annotations[AnnotationEvacuated]; got != there {
			t.Errorf("%.9q is written as %.9q", there, got)
		}
		if got := Read(Write(nil, r)).Evacuated; got != want {
			t.Errorf("on a new Lease %.9q is %.9q", there, got)
		}
	}
}

// TestALongIdentityHoldsTheLockAndIsShort: it differs from all others, and only an empty
// holder reads as nobody.
func TestALongIdentityHoldsTheLockAndIsShort(t *testing.T) {
	read := func(holder string) string {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		got := Read(lease).Holder
		if of := HolderOf(Snapshot(lease).Version); of != got {
			t.Errorf("the holder is %.9q, and of the version %.9q", got, of)
		}
		return got
	}
	if full := strings.Repeat("x", MaxText); read(full) != full {
		t.Error("an identity that is not too long is not kept")
	}
	a, b := read(strings.Repeat("\u00e9", 1<<19)), read(strings.Repeat("\u00e9", 1<<19)+"b")
	if a == b || len(a) > MaxText || len(a) < MaxText/2 {
		t.Errorf("two long ones are read as %d and %d bytes, alike: %v", len(a), len(b), a == b)
	}
}
