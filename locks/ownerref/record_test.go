// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

const recordKey = "control-plane.alpha.kubernetes.io/leader"

func presenceOf(name string) Owner { return Owner{"lock." + name, types.UID("lease-" + name)} }

func podOf(name string) Owner { return Owner{name, types.UID("uid-" + name)} }

func holding(data map[string]string, cm *corev1.ConfigMap) *corev1.ConfigMap {
	cm.Data = data
	return cm
}

type notes = map[string]string

// old is a list of one pod, in an annotation.
const old = `[{"name":"old","uid":"uid-old"}]`

var (
	dual   = notes{record.AnnotationPhase: "dual", record.AnnotationPhaseStep: "1", record.AnnotationShieldArmed: "u", record.AnnotationLegacyPods: old}
	sealed = notes{record.AnnotationPhase: "sealed", record.AnnotationPhaseStep: "2", record.AnnotationShieldArmed: "u"}
	other  = map[string]string{"config.yaml": "a: b"}
)

func TestEachConfigMapIsToldForWhatItIs(t *testing.T) {
	aAndB := []Owner{presenceOf("a"), presenceOf("b")}
	seen := []Owner{podOf("old")}
	a, b := apitest.LeaseRef("lock.a", "lease-a"), apitest.LeaseRef("lock.b", "lease-b")
	pod := apitest.PodRef("p", "pu")
	for name, tc := range map[string]struct {
		cm   *corev1.ConfigMap
		want Record // without UID, Number and Object; Why is the text that it must contain
	}{
		"nothing": {nil, Record{Kind: Absent}},

		"leader-for-life":             {apitest.ConfigMap(nil, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
		"with labels of others":       {apitest.ConfigMap(notes{"team": "a"}, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
		"with marks of a shield":      {apitest.ConfigMap(dual, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
		"with data":                   {holding(other, apitest.ConfigMap(nil, pod)), Record{Kind: Foreign, Why: "holds data"}},
		"with data and marks":         {holding(other, apitest.ConfigMap(dual, pod)), Record{Kind: Foreign, Why: "holds data"}},
		"with a record of client-go":  {apitest.ConfigMap(notes{recordKey: `{"holderIdentity":"x"}`}, pod), Record{Kind: Foreign, Why: "set --leader-elect-resource-lock=configmapsleases"}},
		"with a garbled such record":  {apitest.ConfigMap(notes{recordKey: ""}, pod), Record{Kind: Foreign, Why: "election record"}},
		"two pods":                    {apitest.ConfigMap(nil, pod, apitest.PodRef("q", "qu")), Record{Kind: Foreign, Why: "Pod p (v1), Pod q (v1)"}},
		"a pod and its Deployment":    {apitest.ConfigMap(nil, pod, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "du"}), Record{Kind: Foreign, Why: "Deployment d (apps/v1)"}},
		"an owner of another kind":    {apitest.ConfigMap(nil, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "du"}), Record{Kind: Foreign, Why: "Deployment d (apps/v1)"}},
		"a Pod of another API":        {apitest.ConfigMap(nil, metav1.OwnerReference{APIVersion: "metrics.k8s.io/v1beta1", Kind: "Pod", Name: "p", UID: "pu"}), Record{Kind: Foreign, Why: "metrics.k8s.io/v1beta1"}},
		"a pod without UID":           {apitest.ConfigMap(nil, apitest.PodRef("p", "")), Record{Kind: Foreign, Why: "Pod p"}},
		"no owner and nothing in it":  {apitest.ConfigMap(nil), Record{Kind: Foreign, Why: "has no owner", Bare: true}},
		"no lock at all":              {holding(other, apitest.ConfigMap(nil)), Record{Kind: Foreign, Why: "holds data"}},
		"binary data":                 {&corev1.ConfigMap{BinaryData: map[string][]byte{"x": {1}}}, Record{Kind: Foreign, Why: "holds data"}},
		"no owner, but a record":      {apitest.ConfigMap(notes{recordKey: "{}"}), Record{Kind: Foreign, Why: "election record"}},
		"another program's dependent": {holding(other, apitest.ConfigMap(nil, a)), Record{Kind: Foreign, Why: "holds data"}},

		"a shield":                       {apitest.ConfigMap(dual, a, b), Record{Kind: Shield, Presences: aAndB, Armed: true, Stage: record.Stage{Phase: "dual", Step: 1}, Seen: seen}},
		"of a newer Lease API":           {apitest.ConfigMap(dual, a, metav1.OwnerReference{APIVersion: "coordination.k8s.io/v2", Kind: "Lease", Name: "lock.b", UID: "lease-b"}), Record{Kind: Shield, Presences: aAndB, Armed: true, Stage: record.Stage{Phase: "dual", Step: 1}, Seen: seen}},
		"unarmed":                        {apitest.ConfigMap(notes{record.AnnotationShieldArmed: "false"}, a), Record{Kind: Shield, Presences: aAndB[:1]}},
		"armed by hand":                  {apitest.ConfigMap(notes{record.AnnotationShieldArmed: "true"}, a), Record{Kind: Shield, Presences: aAndB[:1]}},
		"restored from a copy":           {apitest.ConfigMap(notes{record.AnnotationShieldArmed: "another", record.AnnotationLegacyPods: old}, a), Record{Kind: Shield, Presences: aAndB[:1], Seen: seen}},
		"to which data was added":        {holding(other, apitest.ConfigMap(dual, a)), Record{Kind: Shield, Presences: aAndB[:1], Armed: true, Stage: record.Stage{Phase: "dual", Step: 1}, Seen: seen}},
		"stripped of its annotations":    {apitest.ConfigMap(nil, a, b), Record{Kind: Shield, Presences: aAndB}},
		"stripped of its owners":         {apitest.ConfigMap(dual), Record{Kind: Shield, Armed: true, Stage: record.Stage{Phase: "dual", Step: 1}, Seen: seen}},
		"of pods presumed gone":          {apitest.ConfigMap(notes{record.AnnotationPresumedGone: old}, a), Record{Kind: Shield, Presences: aAndB[:1], Presumed: seen}},
		"of all but who was seen":        {apitest.ConfigMap(notes{record.AnnotationLegacyPods: old}), Record{Kind: Shield, Seen: seen}},
		"with a pod among its owners":    {apitest.ConfigMap(dual, a, pod), Record{Kind: Foreign, Why: "Pod p (v1)"}},
		"with another kind among them":   {apitest.ConfigMap(dual, a, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "nu"}), Record{Kind: Foreign, Why: "Node n (v1)"}},
		"with another API's Lease":       {apitest.ConfigMap(dual, metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Lease", Name: "x", UID: "xu"}), Record{Kind: Foreign, Why: "example.com/v1"}},
		"with an election record on it":  {apitest.ConfigMap(notes{recordKey: "{}", record.AnnotationShieldArmed: "u"}, a), Record{Kind: Foreign, Why: "election record"}},
		"garbage where its stage stands": {apitest.ConfigMap(notes{record.AnnotationPhase: "x", record.AnnotationLegacyPods: `["x",5,null,{},{"name":"a"},{"uid":"c"},{"name":"b","uid":7},` + old[1:]}, a), Record{Kind: Shield, Presences: aAndB[:1], Seen: seen}},

		"sealed":              {apitest.ConfigMap(sealed), Record{Kind: Sealed, Armed: true, Stage: record.Stage{Phase: "sealed", Step: 2}}},
		"sealed, recreated":   {apitest.ConfigMap(notes{record.AnnotationPhase: "sealed", record.AnnotationShieldArmed: "false"}), Record{Kind: Sealed, Stage: record.Stage{Phase: "sealed"}}},
		"clean":               {apitest.ConfigMap(notes{record.AnnotationPhase: "clean"}), Record{Kind: Sealed, Stage: record.Stage{Phase: "clean"}}},
		"sealed, with owners": {apitest.ConfigMap(sealed, a), Record{Kind: Shield, Presences: aAndB[:1], Armed: true, Stage: record.Stage{Phase: "sealed", Step: 2}}},
		"sealed, with a pod":  {apitest.ConfigMap(sealed, pod), Record{Kind: Legacy, Owner: Owner{"p", "pu"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Recognize(tc.cm)
			if tc.cm != nil && (got.Object != tc.cm || got.UID != tc.cm.UID || tc.cm.ResourceVersion == "7" && got.Number != 7) {
				t.Errorf("it is %+v, which does not keep its version", got)
			}
			if !strings.Contains(got.Why, tc.want.Why) || (got.Why == "") != (tc.want.Why == "") {
				t.Errorf("it is %q, want words like %q", got.Why, tc.want.Why)
			}
			got.UID, got.Number, got.Object, got.Why = "", 0, nil, tc.want.Why
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// TestTwoOfOneNameAreTwo, because a StatefulSet's pod has its predecessor's name.
func TestTwoOfOneNameAreTwo(t *testing.T) {
	r := Record{Presences: []Owner{{"lock.a", "1"}}}
	if r.Has(Owner{"lock.a", "2"}) || !r.Has(Owner{"other", "1"}) {
		t.Error("presences are told by their names")
	}
}

// TestOnlySoManyLegacyPodsAreRead: the latest.
func TestOnlySoManyLegacyPodsAreRead(t *testing.T) {
	var list []string
	for i := range record.MaxLegacyPods + 1 {
		list = append(list, fmt.Sprintf(`{"name":"%d","uid":"uid-%d"}`, i, i))
	}
	all := "[" + strings.Join(list, ",") + "]"
	r := Recognize(apitest.ConfigMap(notes{record.AnnotationLegacyPods: all, record.AnnotationPresumedGone: all}))
	for _, pods := range [][]Owner{r.Seen, r.Presumed} {
		if len(pods) != record.MaxLegacyPods || pods[0] != podOf("1") {
			t.Errorf("%d are read, the oldest is %v", len(pods), pods[0])
		}
	}
}

const mapPath = "/api/v1/namespaces/ns/configmaps/lock"

// newMap returns a ConfigMap on a server.
func newMap(t *testing.T) (*apitest.Server, *ConfigMap) {
	t.Helper()
	server := apitest.NewServer()
	m, err := New(Config{Core: apitest.Wire(t, server, corev1.SchemeGroupVersion), Namespace: "ns", Name: "lock"})
	if err != nil {
		t.Fatal(err)
	}
	return server, m
}

func mustRead(t *testing.T, m *ConfigMap) Record {
	t.Helper()
	r, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	if _, err := New(Config{Namespace: "ns", Name: "My_Lock"}); err == nil || !strings.Contains(err.Error(), "client is nil") || !strings.Contains(err.Error(), "RFC 1123") {
		t.Errorf("New: %v", err)
	}
}

func TestNothingThereIsAbsent(t *testing.T) {
	_, m := newMap(t)
	if r := mustRead(t, m); r.Kind != Absent || r.Number != 0 {
		t.Errorf("read %+v", r)
	}
}

func TestTheWatchPassesBookmarksOn(t *testing.T) {
	m, err := New(Config{Namespace: "ns", Name: "lock", Core: apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}`)
	}), corev1.SchemeGroupVersion)})
	if err != nil {
		t.Fatal(err)
	}
	var got []Record
	opened := 0
	err = m.Watch(t.Context(), 5, func() { opened++ }, func(_ context.Context, r Record, bookmark bool) error {
		if bookmark {
			got = append(got, r)
		}
		return nil
	})
	if want := []Record{{Number: 9}}; err != nil || !reflect.DeepEqual(got, want) || opened != 1 {
		t.Errorf("opened %d times, got %+v, %v", opened, got, err)
	}
}

func TestTheWatchTellsEveryStepInOrder(t *testing.T) {
	server, m := newMap(t)
	server.Put(mapPath, apitest.ConfigMap(dual, apitest.LeaseRef("lock.a", "lease-a")))
	r := mustRead(t, m)
	server.Delete(mapPath)
	server.Put(mapPath, apitest.ConfigMap(nil, apitest.PodRef("p", "pu")))
	server.Delete(mapPath)
	server.Put(mapPath, apitest.ConfigMap(dual, apitest.LeaseRef("lock.a", "lease-a")))
	server.Change(mapPath, func(o apitest.Object) { o["data"] = apitest.Object{"k": "v"} })

	stop := errors.New("seen enough")
	var seen []string
	err := m.Watch(t.Context(), r.Number, func() {}, func(_ context.Context, r Record, bookmark bool) error {
		seen = append(seen, fmt.Sprint(r.Kind, " ", r.Number, " ", bookmark))
		if len(seen) == 5 {
			return stop
		}
		return nil
	})
	want := "[absent 102 false legacy 103 false absent 104 false shield 105 false shield 106 false]"
	if !errors.Is(err, stop) || fmt.Sprint(seen) != want {
		t.Errorf("saw %v, %v\nwant %s", seen, err, want)
	}
}

// TestAMissingPermissionToReadIsNamed: the verb and the resource, in words to act on.
func TestAMissingPermissionToReadIsNamed(t *testing.T) {
	for verb, do := range map[string]func(*ConfigMap) error{
		"get":   func(m *ConfigMap) error { _, err := m.Read(t.Context()); return err },
		"watch": func(m *ConfigMap) error { return m.Watch(t.Context(), 1, nil, nil) },
	} {
		server, m := newMap(t)
		server.Before = apitest.Forbidden
		err := do(m)
		if want := fmt.Sprintf(`needs verb %q on configmaps in namespace "ns"`, verb); err == nil || !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", verb, err, want)
		}
	}
}
