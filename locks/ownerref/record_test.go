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
)

const (
	recordKey = "control-plane.alpha.kubernetes.io/leader"
	phaseMark = record.AnnotationPhase
	stepMark  = record.AnnotationPhaseStep
	armedMark = record.AnnotationShieldArmed
	podsMark  = record.AnnotationLegacyPods
	goneMark  = record.AnnotationPresumedGone
)

func presenceOf(name string) Owner { return Owner{"lock." + name, types.UID("lease-" + name)} }

func podOf(name string) Owner { return Owner{name, types.UID("uid-" + name)} }

func ownedBy(api, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: api, Kind: kind, Name: name, UID: uid}
}

func holding(data map[string]string, cm *corev1.ConfigMap) *corev1.ConfigMap {
	cm.Data = data
	return cm
}

type notes = map[string]string

// old is a list of one pod, in an annotation.
const old = `[{"name":"old","uid":"uid-old"}]`

var (
	dual   = notes{phaseMark: "dual", stepMark: "1", armedMark: "u", podsMark: old}
	sealed = notes{phaseMark: "sealed", stepMark: "2", armedMark: "u"}
	other  = map[string]string{"config.yaml": "a: b"}
)

func TestEachConfigMapIsToldForWhatItIs(t *testing.T) {
	aAndB := []Owner{presenceOf("a"), presenceOf("b")}
	seen := []Owner{podOf("old")}
	a, b := apitest.LeaseRef("lock.a", "lease-a"), apitest.LeaseRef("lock.b", "lease-b")
	pod := apitest.PodRef("p", "pu")
	on, legacy := apitest.ConfigMap, Record{Kind: Legacy, Owner: Owner{"p", "pu"}}
	client := notes{recordKey: `{"holderIdentity":"x"}`}
	foreign := func(why string) Record { return Record{Kind: Foreign, Why: why} }
	armed := func(by ...Owner) Record {
		return Record{Kind: Shield, Presences: by, Armed: true, Stage: record.Stage{Phase: "dual", Step: 1}, Seen: seen}
	}
	shieldOfA := Record{Kind: Shield, Presences: aAndB[:1]}
	seenByA := Record{Kind: Shield, Presences: aAndB[:1], Seen: seen}
	inSealed := record.Stage{Phase: "sealed", Step: 2}
	garbage := `["x",5,null,{},{"name":"a"},{"uid":"c"},{"name":"b","uid":7},` + old[1:]
	for name, tc := range map[string]struct {
		cm   *corev1.ConfigMap
		want Record // without UID, Number and Object; Why is the text that it must contain
	}{
		"nothing": {nil, Record{Kind: Absent}},

		"leader-for-life":         {on(nil, pod), legacy},
		"with labels of others":   {on(notes{"team": "a"}, pod), legacy},
		"with marks of a shield":  {on(dual, pod), legacy},
		"with data":               {holding(other, on(nil, pod)), foreign("holds data")},
		"with data and marks":     {holding(other, on(dual, pod)), foreign("holds data")},
		"with client-go's record": {on(client, pod), foreign("set --leader-elect-resource-lock=configmapsleases")},
		"with a garbled record":   {on(notes{recordKey: ""}, pod), foreign("election record")},
		"two pods":                {on(nil, pod, apitest.PodRef("q", "qu")), foreign("Pod p (v1), Pod q (v1)")},
		"a pod and a Deployment":  {on(nil, pod, ownedBy("apps/v1", "Deployment", "d", "du")), foreign("Deployment d (apps/v1)")},
		"owned by a Deployment":   {on(nil, ownedBy("apps/v1", "Deployment", "d", "du")), foreign("Deployment d (apps/v1)")},
		"a Pod of another API":    {on(nil, ownedBy("metrics.k8s.io/v1beta1", "Pod", "p", "pu")), foreign("metrics.k8s.io/v1beta1")},
		"a pod without UID":       {on(nil, apitest.PodRef("p", "")), foreign("Pod p")},
		"no owner, nothing in it": {on(nil), Record{Kind: Foreign, Why: "has no owner", Bare: true}},
		"no lock at all":          {holding(other, on(nil)), foreign("holds data")},
		"binary data":             {&corev1.ConfigMap{BinaryData: map[string][]byte{"x": {1}}}, foreign("holds data")},
		"no owner, but a record":  {on(notes{recordKey: "{}"}), foreign("election record")},
		"another's dependent":     {holding(other, on(nil, a)), foreign("holds data")},

		"a shield":                       {on(dual, a, b), armed(aAndB...)},
		"of a newer Lease API":           {on(dual, a, ownedBy("coordination.k8s.io/v2", "Lease", "lock.b", "lease-b")), armed(aAndB...)},
		"unarmed":                        {on(notes{armedMark: "false"}, a), shieldOfA},
		"armed by hand":                  {on(notes{armedMark: "true"}, a), shieldOfA},
		"restored from a copy":           {on(notes{armedMark: "another", podsMark: old}, a), seenByA},
		"to which data was added":        {holding(other, on(dual, a)), armed(aAndB[0])},
		"stripped of its annotations":    {on(nil, a, b), Record{Kind: Shield, Presences: aAndB}},
		"stripped of its owners":         {on(dual), armed()},
		"of pods presumed gone":          {on(notes{goneMark: old}, a), Record{Kind: Shield, Presences: aAndB[:1], Presumed: seen}},
		"of all but who was seen":        {on(notes{podsMark: old}), Record{Kind: Shield, Seen: seen}},
		"with a pod among its owners":    {on(dual, a, pod), foreign("Pod p (v1)")},
		"with another kind among them":   {on(dual, a, ownedBy("v1", "Node", "n", "nu")), foreign("Node n (v1)")},
		"with another API's Lease":       {on(dual, ownedBy("example.com/v1", "Lease", "x", "xu")), foreign("example.com/v1")},
		"with an election record on it":  {on(notes{recordKey: "{}", armedMark: "u"}, a), foreign("election record")},
		"garbage where its stage stands": {on(notes{phaseMark: "x", podsMark: garbage}, a), seenByA},

		"sealed":              {on(sealed), Record{Kind: Sealed, Armed: true, Stage: inSealed}},
		"sealed, recreated":   {on(notes{phaseMark: "sealed", armedMark: "false"}), Record{Kind: Sealed, Stage: record.Stage{Phase: "sealed"}}},
		"clean":               {on(notes{phaseMark: "clean"}), Record{Kind: Sealed, Stage: record.Stage{Phase: "clean"}}},
		"sealed, with owners": {on(sealed, a), Record{Kind: Shield, Presences: aAndB[:1], Armed: true, Stage: inSealed}},
		"sealed, with a pod":  {on(sealed, pod), legacy},
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
	r := Recognize(apitest.ConfigMap(notes{podsMark: all, goneMark: all}))
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
	_, err := New(Config{Namespace: "ns", Name: "My_Lock"})
	if err == nil || !strings.Contains(err.Error(), "client is nil") || !strings.Contains(err.Error(), "RFC 1123") {
		t.Errorf("New: %v", err)
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
