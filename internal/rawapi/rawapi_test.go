// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// request is a request that a server got.
type request struct {
	method, path string
	body         map[string]any
}

// clientOf returns a client of the core group whose requests all get answer,
// and what it sent.
func clientOf(t *testing.T, code int, answer string) (*rest.RESTClient, <-chan request) {
	t.Helper()
	sent := make(chan request, 10)
	return apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := request{method: r.Method, path: r.URL.Path}
		if r.Body != nil {
			if err := json.NewDecoder(r.Body).Decode(&got.body); err != nil {
				t.Errorf("sent no object: %v", err)
			}
		}
		sent <- got
		w.Header().Set("Retry-After", "1")
		answers{code, answer}.ServeHTTP(w, r)
	}), corev1.SchemeGroupVersion), sent
}

var name = apierror.Object{Resource: apierror.ConfigMaps, Namespace: "ns", Name: "lock"}

// object returns an object of that name, as a server answers with it.
func object(kind, uid, version string) string {
	const meta = `"name":"lock","namespace":"ns"`
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{%s,"uid":%q,"resourceVersion":%q}}`, kind, meta, uid, version)
}

const success = `{"kind":"Status","apiVersion":"v1","status":"Success"}`

func TestADeleteCarriesItsPreconditions(t *testing.T) {
	client, sent := clientOf(t, http.StatusOK, success)
	o := rawapi.New[corev1.ConfigMap](client, name)
	for version, want := range map[string]string{"7": "map[resourceVersion:7 uid:u]", "": "map[uid:u]"} {
		if err := o.Delete(t.Context(), "u", version); err != nil {
			t.Fatal(err)
		}
		r := <-sent
		got := fmt.Sprint(r.body["preconditions"])
		if r.method != http.MethodDelete || r.path != "/api/v1/namespaces/ns/configmaps/lock" || got != want {
			t.Errorf("sent %s %s with %s, want %s", r.method, r.path, got, want)
		}
	}
}

// TestAWriteByBareNameIsNotSent: a write must go to the object that was judged.
func TestAWriteByBareNameIsNotSent(t *testing.T) {
	client, sent := clientOf(t, http.StatusOK, success)
	o := rawapi.New[corev1.ConfigMap](client, name)
	if err := o.Delete(t.Context(), "", "7"); err == nil {
		t.Error("a delete without UID was accepted")
	}
	other := &corev1.ConfigMap{}
	other.Namespace, other.Name, other.UID, other.ResourceVersion = "ns", "other", "u", "7"
	bare := &corev1.ConfigMap{}
	bare.Namespace, bare.Name = "ns", "lock"
	for what, base := range map[string]*corev1.ConfigMap{"nothing": nil, "another object": other, "no version": bare} {
		if _, err := o.Update(t.Context(), base); err == nil {
			t.Errorf("an update of %s was accepted", what)
		}
	}
	if len(sent) > 0 {
		t.Errorf("%v was sent", <-sent)
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	const busy = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests"}`
	client, sent := clientOf(t, http.StatusTooManyRequests, busy)
	if _, err := rawapi.New[corev1.ConfigMap](client, name).Get(t.Context()); err == nil {
		t.Errorf("got %v", err)
	}
	if len(sent) != 1 {
		t.Errorf("%d requests were sent, want one", len(sent))
	}
}

func TestCreateSetsTheName(t *testing.T) {
	client, sent := clientOf(t, http.StatusCreated, object("ConfigMap", "u", "7"))
	made, err := rawapi.New[corev1.ConfigMap](client, name).Create(t.Context(), &corev1.ConfigMap{})
	if err != nil || made.UID != "u" {
		t.Errorf("got %v, %v", made, err)
	}
	r := <-sent
	meta := r.body["metadata"].(map[string]any)
	if r.path != "/api/v1/namespaces/ns/configmaps" || meta["name"] != "lock" || meta["namespace"] != "ns" {
		t.Errorf("sent %+v", r)
	}
}

// TestAnAnswerWithoutAVersionOrWithAnotherUIDIsAnError. Nor is the version that an update was to replace
// its result.
func TestAnAnswerWithoutAVersionOrWithAnotherUIDIsAnError(t *testing.T) {
	base := &corev1.ConfigMap{}
	base.Namespace, base.Name, base.UID, base.ResourceVersion = "ns", "lock", "u", "6"
	for what, tc := range map[string]struct {
		answer string
		well   string // the requests that may be answered so
	}{
		"this object":                    {object("ConfigMap", "u", "7"), "get create update"},
		"this object of another UID":     {object("ConfigMap", "v", "7"), "get create"},
		"the version before":             {object("ConfigMap", "u", "6"), "get create"},
		"another kind":                   {object("Secret", "u", "7"), ""},
		"no version":                     {`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"lock","namespace":"ns","uid":"u"}}`, ""},
		"a version that is not a number": {object("ConfigMap", "u", "x7"), ""},
	} {
		client, sent := clientOf(t, http.StatusOK, tc.answer)
		o := rawapi.New[corev1.ConfigMap](client, name)
		for verb, ask := range map[string]func() (*corev1.ConfigMap, error){
			"get":    func() (*corev1.ConfigMap, error) { return o.Get(t.Context()) },
			"create": func() (*corev1.ConfigMap, error) { return o.Create(t.Context(), &corev1.ConfigMap{}) },
			"update": func() (*corev1.ConfigMap, error) { return o.Update(t.Context(), base) },
		} {
			answer, err := ask()
			<-sent
			if well := strings.Contains(tc.well, verb); (err == nil) != well || (answer == nil) == well {
				t.Errorf("%s is answered with %s: %v, %v", verb, what, answer, err)
			}
		}
	}
}

// TestAnObjectWithoutAVersionIsAnError, wherever it comes from: nobody can say which of two is later.
func TestAnObjectWithoutAVersionIsAnError(t *testing.T) {
	for version, well := range map[string]bool{
		`"7"`: true, `"18446744073709551615"`: true, `"18446744073709551616"`: false, `"0"`: false, `""`: false,
		`null`: false, `"x7"`: false, `"-7"`: false, `"7.0"`: false, `" 7"`: false,
	} {
		lease := `{"metadata":{"name":"lock","namespace":"ns","resourceVersion":` + version + `}}`
		for what, ask := range map[string]func() error{
			"get": func() error { _, err := leaseFrom(t, answers{http.StatusOK, lease}).Get(t.Context()); return err },
			"list": func() error {
				list := answers{http.StatusOK, `{"metadata":{"resourceVersion":"9"},"items":[` + lease + `]}`}
				client := apitest.Wire(t, list, coordinationv1.SchemeGroupVersion)
				_, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
				return err
			},
			"a list's own": func() error {
				list := answers{http.StatusOK, `{"metadata":{"resourceVersion":` + version + `},"items":[]}`}
				client := apitest.Wire(t, list, coordinationv1.SchemeGroupVersion)
				_, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
				return err
			},
			"watch": func() error {
				each := func(context.Context, rawapi.Event[*coordinationv1.Lease]) error { return nil }
				return leaseFrom(t, answers{http.StatusOK, `{"type":"MODIFIED","object":` + lease + `}`}).Watch(t.Context(), 0, each)
			},
		} {
			if err := ask(); (err == nil) != well {
				t.Errorf("%s, %s: %v", what, version, err)
			}
		}
	}
}
