// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shieldmap

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/ownerref"
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
	core := apitest.Wire(t, server, corev1.SchemeGroupVersion)
	m, err := New(ownerref.Config{Core: core, Namespace: "ns", Name: "lock"}, nil, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return server, m, sent
}

func mustRead(t *testing.T, m *ConfigMap) ownerref.Record {
	t.Helper()
	r, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// up puts up a shield of these candidates.
func up(t *testing.T, m *ConfigMap, names ...string) ownerref.Record {
	t.Helper()
	s := State{Stage: record.Stage{Phase: record.PhaseDual, Step: 1}}
	for _, name := range names {
		s = s.With(presenceOf(name))
	}
	r, err := m.PutUp(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func change(t *testing.T, m *ConfigMap, base ownerref.Record, s State) ownerref.Record {
	t.Helper()
	r, err := m.Change(t.Context(), base, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// armed puts up an armed shield.
func armed(t *testing.T, m *ConfigMap, names ...string) ownerref.Record {
	t.Helper()
	r := up(t, m, names...)
	s := StateOf(r)
	s.Armed = true
	return change(t, m, r, s)
}

// TestTheShieldsLife, with all that it says, such as the pods that are presumed gone (M11).
func TestTheShieldsLife(t *testing.T) {
	_, m, sent := newMap(t)
	m.labels = map[string]string{"team": "a"}
	r := up(t, m, "a")
	s := StateOf(r)
	made := r.Kind == ownerref.Shield && r.UID != "" && r.Number != 0 && r.Object.Labels["team"] == "a" && r.Has(presenceOf("a"))
	if !made || s.Armed || s.Stage.Phase != record.PhaseDual {
		t.Fatalf("put up %+v", r)
	}
	s = s.With(presenceOf("b")).Remember(podOf("old"))
	s.Armed, s.Presumed = true, []ownerref.Owner{podOf("gone")}
	r = change(t, m, r, s)
	if read := mustRead(t, m); !reflect.DeepEqual(StateOf(read), s) || read.Number != r.Number || read.UID != r.UID {
		t.Fatalf("read %+v, want %+v", read, s)
	}
	s.Presences, s.Stage = nil, record.Stage{Phase: record.PhaseSealed, Step: 2}
	if r = change(t, m, r, s); r.Kind != ownerref.Sealed || !r.Armed || !reflect.DeepEqual(r, mustRead(t, m)) {
		t.Fatalf("sealed %+v", r)
	}
	s.Presences, s.Stage = []ownerref.Owner{presenceOf("b")}, record.Stage{Phase: record.PhaseDual, Step: 3}
	if r = change(t, m, r, s); r.Kind != ownerref.Shield || !r.Armed || !r.Has(presenceOf("b")) {
		t.Fatalf("given back %+v", r)
	}
	if err := m.Remove(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r = mustRead(t, m); r.Kind != ownerref.Absent {
		t.Fatalf("removed %+v", r)
	}
	for _, request := range *sent {
		if strings.HasPrefix(request, "watch") || strings.HasPrefix(request, "list") {
			t.Errorf("%s was not asked for", request)
		}
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
	before := r.Object.DeepCopy()
	change(t, m, r, StateOf(r).With(presenceOf("b")))
	if !reflect.DeepEqual(r.Object, before) {
		t.Error("the record that was changed is not what it was")
	}
	cm := mustRead(t, m).Object
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
		s.Put(mapPath, apitest.ConfigMap(dual, apitest.PodRef("p", "pu")))
	}
	for name, meanwhile := range map[string]func(*apitest.Server){
		"changed": touch, "deleted": func(s *apitest.Server) { s.Delete(mapPath) }, "deleted and recreated": again,
	} {
		for what, do := range map[string]func(*ConfigMap, ownerref.Record) error{
			"change": func(m *ConfigMap, r ownerref.Record) error {
				_, err := m.Change(t.Context(), r, StateOf(r).With(presenceOf("b")))
				return err
			},
			"remove": func(m *ConfigMap, r ownerref.Record) error { return m.Remove(t.Context(), r) },
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
	server.Put(mapPath, apitest.ConfigMap(nil, apitest.PodRef("p", "pu")))
	_, err := m.PutUp(t.Context(), State{}.With(presenceOf("a")))
	if r := mustRead(t, m); !errors.Is(err, locks.ErrConflict) || r.Kind != ownerref.Legacy {
		t.Errorf("got %v, there is %+v", err, r)
	}
	if err := m.Remove(t.Context(), mustRead(t, m)); err != nil {
		t.Error(err)
	}
	up(t, m, "a")
}

func TestWhatMustNotBeIsNotSent(t *testing.T) {
	one := State{}.With(presenceOf("a"))
	arm := one
	arm.Armed = true
	sealing := State{Stage: record.Stage{Phase: record.PhaseSealed, Step: 2}}
	read, on := ownerref.Recognize, apitest.ConfigMap
	unarmed, copied := notes{record.AnnotationShieldArmed: "false"}, notes{record.AnnotationShieldArmed: "else"}
	node := metav1.OwnerReference{Kind: "Node", Name: "n", UID: "u"}
	a := apitest.LeaseRef("lock.a", "lease-a")
	many := one
	for i := range record.MaxLegacyPods + 1 {
		many.Presumed = append(many.Presumed, podOf(fmt.Sprint(i)))
	}
	for name, tc := range map[string]struct {
		do   func(m *ConfigMap) error
		says string
	}{
		"put up armed":         {putUp(arm), "cannot be armed"},
		"put up for nobody":    {putUp(State{}), "forever"},
		"too much to remember": {putUp(many), "at most 100"},

		"change nothing":                 {changed(read(nil), one), "it is absent"},
		"change a record made up":        {changed(ownerref.Record{Kind: ownerref.Shield}, one), "was not read from"},
		"change a legacy lock":           {changed(read(on(nil, apitest.PodRef("p", "pu"))), one), "it is legacy"},
		"change what is not a lock":      {changed(read(holding(other, on(nil))), one), "holds data"},
		"take the last presence":         {changed(read(on(dual, a)), State{Armed: true}), "forever"},
		"seal what is not armed":         {changed(read(on(unarmed, a)), sealing), "only an armed shield"},
		"seal what was not here sealed":  {changed(read(on(copied)), sealing), "only an armed shield"},
		"remove nothing":                 {removed(read(nil)), "it is absent"},
		"remove what is not a lock":      {removed(read(holding(other, on(nil)))), "holds data"},
		"remove a lock of another owner": {removed(read(on(nil, node))), "Node n"},
		"remove a record made up":        {removed(ownerref.Record{Kind: ownerref.Legacy, UID: "u"}), "not ours"},
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

func putUp(s State) func(*ConfigMap) error {
	return func(m *ConfigMap) error { _, err := m.PutUp(context.Background(), s); return err }
}

func changed(base ownerref.Record, s State) func(*ConfigMap) error {
	return func(m *ConfigMap) error { _, err := m.Change(context.Background(), base, s); return err }
}

func removed(base ownerref.Record) func(*ConfigMap) error {
	return func(m *ConfigMap) error { return m.Remove(context.Background(), base) }
}

// TestACopyOfAnArmedShieldIsNotArmed: between its deletion and its restoration legacy
// pods may have begun to lead.
func TestACopyOfAnArmedShieldIsNotArmed(t *testing.T) {
	server, m, _ := newMap(t)
	r := armed(t, m, "a")
	again := r.Object.DeepCopy()
	again.UID = "another"
	server.Delete(mapPath)
	server.Put(mapPath, again)
	if r := mustRead(t, m); r.Kind != ownerref.Shield || r.Armed {
		t.Errorf("read %+v", r)
	}
}
