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

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

const mapPath = "/api/v1/namespaces/ns/configmaps/lock"

// newMap returns a ConfigMap on a server, and the verb and path of each request.
func newMap(t *testing.T) (*apitest.Server, *ConfigMap, *[]string) {
	t.Helper()
	server, sent := apitest.NewServer(), &[]string{}
	server.Before = func(verb, path string) (int, apitest.Object) {
		*sent = append(*sent, verb+" "+path)
		return 0, nil
	}
	m, err := New(Config{Core: apitest.Wire(t, server, corev1.SchemeGroupVersion), Namespace: "ns", Name: "lock"})
	if err != nil {
		t.Fatal(err)
	}
	return server, m, sent
}

func mustRead(t *testing.T, m *ConfigMap) Record {
	t.Helper()
	r, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// up puts up a shield of these candidates.
func up(t *testing.T, m *ConfigMap, names ...string) Record {
	t.Helper()
	s := ShieldState{Stage: record.Stage{Phase: record.PhaseDual, Step: 1}}
	for _, name := range names {
		s = s.With(presenceOf(name))
	}
	r, err := m.PutUp(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func change(t *testing.T, m *ConfigMap, base Record, s ShieldState) Record {
	t.Helper()
	r, err := m.Change(t.Context(), base, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// armed puts up an armed shield.
func armed(t *testing.T, m *ConfigMap, names ...string) Record {
	t.Helper()
	r := up(t, m, names...)
	s := r.Shield
	s.Armed = true
	return change(t, m, r, s)
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	if _, err := New(Config{Namespace: "ns", Name: "My_Lock"}); err == nil || !strings.Contains(err.Error(), "client is nil") || !strings.Contains(err.Error(), "RFC 1123") {
		t.Errorf("New: %v", err)
	}
}

func TestNothingThereIsAbsent(t *testing.T) {
	_, m, _ := newMap(t)
	if r := mustRead(t, m); r.Kind != Absent || r.Number != 0 {
		t.Errorf("read %+v", r)
	}
}

func TestTheShieldsLife(t *testing.T) {
	_, m, sent := newMap(t)
	r := up(t, m, "a")
	s := r.Shield
	if r.Kind != Shield || s.Armed || !s.Has(presenceOf("a")) || s.Stage.Phase != record.PhaseDual || r.UID == "" || r.Number == 0 {
		t.Fatalf("put up %+v", r)
	}
	s = s.With(presenceOf("b")).Remember(podOf("old"))
	s.Armed = true
	r = change(t, m, r, s)
	if read := mustRead(t, m); !reflect.DeepEqual(read.Shield, s) || read.Number != r.Number || read.UID != r.UID {
		t.Fatalf("read %+v, want %+v", read, s)
	}
	s.Presences, s.Stage = nil, record.Stage{Phase: record.PhaseSealed, Step: 2}
	if r = change(t, m, r, s); r.Kind != Sealed || !r.Shield.Armed || !reflect.DeepEqual(r, mustRead(t, m)) {
		t.Fatalf("sealed %+v", r)
	}
	s.Presences, s.Stage = []Owner{presenceOf("b")}, record.Stage{Phase: record.PhaseDual, Step: 3}
	if r = change(t, m, r, s); r.Kind != Shield || !r.Shield.Armed || !r.Shield.Has(presenceOf("b")) {
		t.Fatalf("given back %+v", r)
	}
	if err := m.Remove(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r = mustRead(t, m); r.Kind != Absent {
		t.Fatalf("removed %+v", r)
	}
	for _, request := range *sent {
		if strings.HasPrefix(request, "watch") || strings.HasPrefix(request, "list") {
			t.Errorf("%s was not asked for", request)
		}
	}
}

// TestWhatFinalizersKeepWasNotRemoved: the log says what keeps it.
func TestWhatFinalizersKeepWasNotRemoved(t *testing.T) {
	server, m, _ := newMap(t)
	var said []string
	m.log = funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
	up(t, m, "a")
	server.Lingers = func(string) bool { return true }
	server.Change(mapPath, func(o apitest.Object) {
		o["metadata"].(apitest.Object)["finalizers"] = []any{"f/1", "f/2", "f/3", "f/4", "f/5", "f/6"}
	})
	r := mustRead(t, m)
	if r.Condemned || r.Lingering() != "" || !r.Stays() {
		t.Errorf("read %+v", r)
	}
	said = nil
	if err := m.Remove(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	const want = "the ConfigMap was deleted, and stays until its finalizers are gone: f/1, f/2, f/3, f/4, f/5, and 1 more"
	if len(said) != 1 || !strings.Contains(said[0], want) {
		t.Errorf("it says %q", said)
	}
	if r = mustRead(t, m); !r.Condemned || r.Kind != Shield || r.Lingering() != want {
		t.Errorf("read %+v", r)
	}
}

func TestM11TheShieldNamesThePodsThatArePresumedGone(t *testing.T) {
	_, m, _ := newMap(t)
	r := up(t, m, "a")
	s := r.Shield
	s.Presumed = []Owner{podOf("old")}
	change(t, m, r, s)
	if read := mustRead(t, m); !reflect.DeepEqual(read.Shield, s) {
		t.Errorf("read %+v, want %+v", read.Shield, s)
	}
}

func TestWhatOthersPutOnTheShieldIsKept(t *testing.T) {
	server, m, _ := newMap(t)
	up(t, m, "a")
	server.Change(mapPath, func(o apitest.Object) {
		meta := o["metadata"].(apitest.Object)
		meta["labels"], meta["finalizers"] = apitest.Object{"team": "a"}, []any{"f/f"}
		meta["annotations"].(apitest.Object)["theirs"] = "kept"
		meta["ownerReferences"].([]any)[0].(apitest.Object)["controller"] = false
		o["data"] = apitest.Object{"k": "v"}
	})
	r := mustRead(t, m)
	before := r.object.DeepCopy()
	change(t, m, r, r.Shield.With(presenceOf("b")))
	if !reflect.DeepEqual(r.object, before) {
		t.Error("the record that was changed is not what it was")
	}
	cm := mustRead(t, m).object
	no := false
	kept := metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: "lock.a", UID: "lease-a", Controller: &no}
	if cm.Labels["team"] != "a" || cm.Annotations["theirs"] != "kept" || len(cm.Finalizers) != 1 || cm.Data["k"] != "v" ||
		len(cm.OwnerReferences) != 2 || !reflect.DeepEqual(cm.OwnerReferences[0], kept) {
		t.Errorf("now %+v", cm)
	}
}

// TestAWriteHitsTheVersionThatWasJudgedOrNone, so that candidates do not arm, join or
// remove a ConfigMap that has become something else meanwhile.
func TestAWriteHitsTheVersionThatWasJudgedOrNone(t *testing.T) {
	touch := func(s *apitest.Server) {
		s.Change(mapPath, func(o apitest.Object) { o["metadata"].(apitest.Object)["labels"] = apitest.Object{"x": "y"} })
	}
	again := func(s *apitest.Server) {
		s.Delete(mapPath)
		s.Put(mapPath, configMap(dual, podRef("p", "pu")))
	}
	for name, meanwhile := range map[string]func(*apitest.Server){
		"changed": touch, "deleted": func(s *apitest.Server) { s.Delete(mapPath) }, "deleted and made anew": again,
	} {
		for what, do := range map[string]func(*ConfigMap, Record) error{
			"change": func(m *ConfigMap, r Record) error {
				_, err := m.Change(t.Context(), r, r.Shield.With(presenceOf("b")))
				return err
			},
			"remove": func(m *ConfigMap, r Record) error { return m.Remove(t.Context(), r) },
		} {
			t.Run(what+"/"+name, func(t *testing.T) {
				server, m, _ := newMap(t)
				r := armed(t, m, "a")
				meanwhile(server)
				before := mustRead(t, m)
				if err := do(m, r); !errors.Is(err, locks.ErrConflict) {
					t.Errorf("got %v, want a conflict", err)
				}
				if after := mustRead(t, m); after.Number != before.Number || after.UID != before.UID {
					t.Errorf("it was %+v, now is %+v", before, after)
				}
			})
		}
	}
}

func TestAShieldGoesUpOnlyWhereNothingStands(t *testing.T) {
	server, m, _ := newMap(t)
	server.Put(mapPath, configMap(nil, podRef("p", "pu")))
	_, err := m.PutUp(t.Context(), ShieldState{}.With(presenceOf("a")))
	if r := mustRead(t, m); !errors.Is(err, locks.ErrConflict) || r.Kind != Legacy {
		t.Errorf("got %v, there is %+v", err, r)
	}
	if err := m.Remove(t.Context(), mustRead(t, m)); err != nil {
		t.Error(err)
	}
	up(t, m, "a")
}

func TestWhatMustNotBeIsNotSent(t *testing.T) {
	one := ShieldState{}.With(presenceOf("a"))
	arm := one
	arm.Armed = true
	sealing := ShieldState{Stage: record.Stage{Phase: record.PhaseSealed, Step: 2}}
	record := func(cm *corev1.ConfigMap) Record { return Recognize(cm) }
	a := leaseRef("lock.a", "lease-a")
	many := one
	for i := range maxSeen + 1 {
		many.Seen = append(many.Seen, podOf(fmt.Sprint(i)))
	}
	for name, tc := range map[string]struct {
		do   func(m *ConfigMap) error
		says string
	}{
		"put up armed":          {putUp(arm), "cannot be armed"},
		"put up for nobody":     {putUp(ShieldState{}), "for ever"},
		"a presence unmade":     {putUp(ShieldState{}.With(Owner{Name: "lock.a"})), "no presence"},
		"a nameless presence":   {putUp(ShieldState{}.With(Owner{UID: "u"})), "no presence"},
		"too much to remember":  {putUp(many), "at most 100"},
		"what cannot be listed": {putUp(one.Remember(Owner{"a,b", "u"})), "cannot be remembered"},

		"change nothing":                 {changed(record(nil), one), "it is absent"},
		"change a record made up":        {changed(Record{Kind: Shield}, one), "was not read from"},
		"change a legacy lock":           {changed(record(configMap(nil, podRef("p", "pu"))), one), "it is legacy"},
		"change what is no lock":         {changed(record(holding(other, configMap(nil))), one), "holds data"},
		"take the last presence":         {changed(record(configMap(dual, a)), ShieldState{Armed: true}), "for ever"},
		"seal what is not armed":         {changed(record(configMap(notes{annotationArmed: "false"}, a)), sealing), "only an armed shield"},
		"seal what was not here sealed":  {changed(record(configMap(notes{annotationArmed: "else"})), sealing), "only an armed shield"},
		"remove nothing":                 {removed(record(nil)), "it is absent"},
		"remove what is no lock":         {removed(record(holding(other, configMap(nil)))), "holds data"},
		"remove a record made up":        {removed(Record{Kind: Legacy, UID: "u"}), "not ours"},
		"remove a lock of another owner": {removed(record(configMap(nil, metav1.OwnerReference{Kind: "Node", Name: "n", UID: "u"}))), "Node n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, m, sent := newMap(t)
			if err := tc.do(m); err == nil || !strings.Contains(err.Error(), tc.says) || !strings.HasPrefix(err.Error(), "configmap ns/lock: ") {
				t.Errorf("got %v, want words like %q", err, tc.says)
			}
			if len(*sent) > 0 {
				t.Errorf("%q was sent", *sent)
			}
		})
	}
}

func putUp(s ShieldState) func(*ConfigMap) error {
	return func(m *ConfigMap) error { _, err := m.PutUp(context.Background(), s); return err }
}

func changed(base Record, s ShieldState) func(*ConfigMap) error {
	return func(m *ConfigMap) error { _, err := m.Change(context.Background(), base, s); return err }
}

func removed(base Record) func(*ConfigMap) error {
	return func(m *ConfigMap) error { return m.Remove(context.Background(), base) }
}

// TestASealedOneIsArmedAnewWhereItStands: it was deleted, and its leader recreated it
// without owners and unarmed.
func TestASealedOneIsArmedAnewWhereItStands(t *testing.T) {
	_, m, _ := newMap(t)
	s := ShieldState{Stage: record.Stage{Phase: record.PhaseSealed, Step: 2}}
	r, err := m.PutUp(t.Context(), s)
	if err != nil || r.Kind != Sealed || r.Shield.Armed {
		t.Fatalf("got %+v, %v", r, err)
	}
	s.Armed = true
	if r = change(t, m, r, s); r.Kind != Sealed || !r.Shield.Armed {
		t.Errorf("got %+v", r)
	}
}

// TestACopyOfAnArmedShieldIsNotArmed: between its deletion and its restoration legacy
// pods may have begun to lead.
func TestACopyOfAnArmedShieldIsNotArmed(t *testing.T) {
	server, m, _ := newMap(t)
	r := armed(t, m, "a")
	again := r.object.DeepCopy()
	again.UID = "another"
	server.Delete(mapPath)
	server.Put(mapPath, again)
	if r := mustRead(t, m); r.Kind != Shield || r.Shield.Armed {
		t.Errorf("read %+v", r)
	}
}

func TestTheWatchTellsEveryStepInOrder(t *testing.T) {
	server, m, _ := newMap(t)
	r := up(t, m, "a")
	server.Delete(mapPath)
	server.Put(mapPath, configMap(nil, podRef("p", "pu")))
	server.Delete(mapPath)
	server.Put(mapPath, configMap(dual, leaseRef("lock.a", "lease-a")))
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

// TestAMissingPermissionIsNamed: the verb and the resource, in words to act on.
func TestAMissingPermissionIsNamed(t *testing.T) {
	shield := Recognize(configMap(dual, leaseRef("lock.a", "lease-a")))
	for verb, do := range map[string]func(*ConfigMap) error{
		"get":    func(m *ConfigMap) error { _, err := m.Read(t.Context()); return err },
		"create": putUp(ShieldState{}.With(presenceOf("a"))),
		"update": changed(shield, shield.Shield),
		"delete": removed(shield),
		"watch":  func(m *ConfigMap) error { return m.Watch(t.Context(), 1, nil, nil) },
	} {
		server, m, _ := newMap(t)
		server.Before = apitest.Forbidden
		err := do(m)
		if want := fmt.Sprintf(`needs verb %q on configmaps in namespace "ns"`, verb); err == nil || !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", verb, err, want)
		}
	}
}

// TestOwnersTakeThePermissionToDelete if the API server has the same admission plugin as
// OpenShift's.
func TestOwnersTakeThePermissionToDelete(t *testing.T) {
	server, m, _ := newMap(t)
	r := up(t, m, "a")
	server.Before = func(string, string) (int, apitest.Object) {
		return http.StatusForbidden, apitest.Status(403, "Forbidden", `configmaps "lock" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>`, "configmaps", "lock")
	}
	_, err := m.Change(t.Context(), r, r.Shield.With(presenceOf("b")))
	if !errors.Is(err, locks.ErrForbidden) || !strings.Contains(err.Error(), `needs verb "delete" on configmaps`) {
		t.Errorf("got %v", err)
	}
}

// TestAShieldHasTheLabelsOfItsConfiguration when it is made and when it is changed, beside those
// of others.
func TestAShieldHasTheLabelsOfItsConfiguration(t *testing.T) {
	server, m, _ := newMap(t)
	m.labels = map[string]string{"team": "a"}
	labels := func() any {
		server.Mu.Lock()
		defer server.Mu.Unlock()
		return server.Objects[mapPath]["metadata"].(apitest.Object)["labels"]
	}
	r := up(t, m, "a")
	if got := labels(); !reflect.DeepEqual(got, apitest.Object{"team": "a"}) {
		t.Errorf("made with the labels %v", got)
	}
	r.object.Labels = map[string]string{"app": "op"}
	if _, err := m.Change(t.Context(), r, r.Shield.With(presenceOf("b"))); err != nil {
		t.Fatal(err)
	}
	if got := labels(); !reflect.DeepEqual(got, apitest.Object{"team": "a", "app": "op"}) {
		t.Errorf("changed to the labels %v", got)
	}
}
