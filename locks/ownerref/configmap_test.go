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

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

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
