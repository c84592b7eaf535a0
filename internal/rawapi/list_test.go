// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// TestAListIsLiveAndComplete: a list at a resourceVersion may come from a cache.
func TestAListIsLiveAndComplete(t *testing.T) {
	server := apitest.NewServer()
	for name, app := range map[string]string{"a": "x", "b": "x", "c": "y"} {
		pod := &corev1.Pod{}
		pod.Name, pod.Labels = name, map[string]string{"app": app}
		server.Put("/api/v1/namespaces/ns/pods/"+name, pod)
	}
	query := ""
	client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		server.ServeHTTP(w, r)
	}), corev1.SchemeGroupVersion)

	pods, err := rawapi.List[corev1.Pod](t.Context(), client, apierror.Pods, "ns", "app=x")
	if err != nil || len(pods) != 2 || pods[0].Name != "a" {
		t.Errorf("got %v, %v", pods, err)
	}
	if strings.Contains(query, "resourceVersion") {
		t.Errorf("asked for %s", query)
	}
}

// TestAReadIsLinearizable though the server's cache stands still, unless it asks for the cache.
func TestAReadIsLinearizable(t *testing.T) {
	server := apitest.NewServer()
	front := server.NewFront()
	client := apitest.Wire(t, front, corev1.SchemeGroupVersion)
	const path = "/api/v1/namespaces/ns/configmaps/lock"
	server.Put(path, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", UID: "u"}})
	front.Lag(apitest.Still)
	server.Put(path, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", UID: "u"}})

	if got, err := rawapi.New[corev1.ConfigMap](client, name).Get(t.Context()); err != nil || got.ResourceVersion != "102" {
		t.Errorf("got %v, %v", got, err)
	}
	for cached, want := range map[bool]string{false: "102", true: "101"} {
		var got []string
		q := rawapi.Query{Resource: apierror.ConfigMaps, Namespace: "ns", Cached: cached}
		version, err := rawapi.ListEach(t.Context(), client, q, func(e rawapi.Event[*corev1.ConfigMap]) {
			got = append(got, e.Object.ResourceVersion)
		})
		if err != nil || fmt.Sprint(version) != want || !slices.Equal(got, []string{want}) {
			t.Errorf("cached %v: %d with %q, %v", cached, version, got, err)
		}
	}
}

// TestWhatIsNoListIsNotAnEmptyOne: an empty list counts only if the server said so.
func TestWhatIsNoListIsNotAnEmptyOne(t *testing.T) {
	for _, answer := range []string{`{}`, success, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`} {
		client, _ := clientOf(t, http.StatusOK, answer)
		if pods, err := rawapi.List[corev1.Pod](t.Context(), client, apierror.Pods, "ns", ""); err == nil {
			t.Errorf("%s was taken for %v", answer, pods)
		}
	}
}

// TestALongListIsReadInPages, and none without the last of them.
func TestALongListIsReadInPages(t *testing.T) {
	server, pages := apitest.NewServer(), 0
	for i := range 2001 {
		lease := fmt.Sprintf("l%05d", i)
		server.Put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/"+lease, &coordinationv1.Lease{})
	}
	client := apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)
	server.Before = func(string, string) (int, apitest.Object) { pages++; return 0, nil }
	all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
	if err != nil || len(all) != 2001 || all[2000].Name != "l02000" || pages != 5 {
		t.Errorf("%d are listed on %d pages, %v", len(all), pages, err)
	}
	server.Before = func(string, string) (int, apitest.Object) {
		if pages++; pages == 10 {
			return http.StatusGone, apitest.Status(http.StatusGone, "Expired", "The provided continue parameter is too old", "", "")
		}
		return 0, nil
	}
	if all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", ""); err == nil || all != nil {
		t.Errorf("%d are listed without the last page", len(all))
	}
}

// TestAListOfSeveralMomentsIsNone.
func TestAListOfSeveralMomentsIsNone(t *testing.T) {
	n := 0
	client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		page := fmt.Sprintf(`{"metadata":{"resourceVersion":"%d","continue":%q},"items":[]}`, n, strings.Repeat("more", 2-n))
		apitest.Reply(w, http.StatusOK, json.RawMessage(page))
	}), coordinationv1.SchemeGroupVersion)
	if all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", ""); err == nil {
		t.Errorf("it is %+v", all)
	}
}
