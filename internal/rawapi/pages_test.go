// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// leases serves that many Leases, each with a holder of that length, and notes the queries.
func leases(t *testing.T, n, long int) (client rest.Interface, server *apitest.Server, asked *[]url.Values) {
	t.Helper()
	server, asked = apitest.NewServer(), &[]url.Values{}
	for i := range n {
		server.Put(fmt.Sprintf("/apis/coordination.k8s.io/v1/namespaces/ns/leases/l%05d", i), apitest.Object{
			"metadata": apitest.Object{"name": fmt.Sprintf("l%05d", i), "namespace": "ns", "uid": fmt.Sprint("u", i)},
			"spec":     apitest.Object{"holderIdentity": strings.Repeat("x", long)},
		})
	}
	return apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Query())
		server.ServeHTTP(w, r)
	}), coordinationv1.SchemeGroupVersion), server, asked
}

func of(long func(string) bool) rawapi.Query {
	return rawapi.Query{Resource: apierror.Leases, Namespace: "ns", Long: long}
}

// TestAListIsBoundedByItsParts: 100 MiB are read though nobody holds them, and of each object that
// nobody wants no more is kept than which one it is.
func TestAListIsBoundedByItsParts(t *testing.T) {
	client, _, _ := leases(t, 70, 1_450_000)
	cut, whole, size := 0, 0, 0
	_, err := rawapi.ListEach(t.Context(), client, of(func(name string) bool { return name == "l00007" }), func() {}, func(e rawapi.Event[*coordinationv1.Lease]) {
		if size += e.Size; e.Object.Name == "" || e.Object.UID == "" || e.Object.Namespace != "ns" || e.Object.ResourceVersion == "" {
			t.Errorf("it is not known which one is %+v", e.Object.ObjectMeta)
		}
		if e.Cut {
			cut++
		} else if whole++; len(*e.Object.Spec.HolderIdentity) != 1_450_000 {
			t.Errorf("the one that is wanted has %d bytes", len(*e.Object.Spec.HolderIdentity))
		}
	})
	if err != nil || cut != 69 || whole != 1 || size > 70*(64<<10)+1_500_000 {
		t.Errorf("%d are cut and %d whole, %d bytes, %v", cut, whole, size, err)
	}
	all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
	if err != nil || len(all.Items) != 70 {
		t.Errorf("%d of 70 are listed, %v", len(all.Items), err)
	}
}

// TestPagesShrinkIfOneIsTooLarge, and together are the list.
func TestPagesShrinkIfOneIsTooLarge(t *testing.T) {
	client, _, asked := leases(t, 4500, 7000)
	all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
	if err != nil || len(all.Items) != 4500 || all.Items[4499].Name != "l04499" {
		t.Fatalf("%d are listed, %v", len(all.Items), err)
	}
	if n := len(*asked); n < 3 || n > 5 || (*asked)[0].Get("limit") != "2000" || (*asked)[0].Has("continue") {
		t.Errorf("asked for %v", *asked)
	}
	for _, q := range (*asked)[1:] {
		if limit, _ := strconv.Atoi(q.Get("limit")); limit < 1000 || limit > 1250 || !q.Has("continue") {
			t.Errorf("asked for %v", q)
		}
	}
}

// TestAListWhoseStateIsForgottenBeginsAgain, a few times.
func TestAListWhoseStateIsForgottenBeginsAgain(t *testing.T) {
	for forgotten, want := range map[int]string{1: "", 2: "", 3: "forgotten"} {
		client, server, asked := leases(t, 2001, 1)
		left := forgotten
		server.Before = func(string, string) (int, apitest.Object) {
			if q := (*asked)[len(*asked)-1]; q.Has("continue") && left > 0 {
				left--
				return http.StatusGone, apitest.Status(http.StatusGone, "Expired", "The provided continue parameter is too old", "", "")
			}
			return 0, nil
		}
		all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
		if want == "" && (err != nil || len(all.Items) != 2001) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("forgotten %d times: %d are listed, %v", forgotten, len(all.Items), err)
		}
	}
}

// TestAListOfSeveralMomentsIsNone.
func TestAListOfSeveralMomentsIsNone(t *testing.T) {
	n := 0
	client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		apitest.Reply(w, http.StatusOK, json.RawMessage(fmt.Sprintf(`{"metadata":{"resourceVersion":"%d","continue":%q},"items":[]}`, n, strings.Repeat("more", 2-n))))
	}), coordinationv1.SchemeGroupVersion)
	if all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", ""); err == nil {
		t.Errorf("it is %+v", all)
	}
}

// TestALongEventIsCutButNotItsKind: who follows all Leases still hears that one was deleted.
func TestALongEventIsCutButNotItsKind(t *testing.T) {
	long := func(kind, name string) string {
		return `{"type":"` + kind + `","object":{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"` + name + `","namespace":"ns","uid":"u","resourceVersion":"7","labels":{"name":"other"}},"spec":{"holderIdentity":"` + strings.Repeat(`\"name\":`, 1<<17) + `"}}}`
	}
	stream := long("ADDED", "a") + long("MODIFIED", "b") + long("DELETED", "c") + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`
	client, _ := clientOf(t, http.StatusOK, stream)
	var heard []string
	err := rawapi.WatchAll(t.Context(), client, of(func(name string) bool { return name == "b" }), 1, func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
		heard = append(heard, fmt.Sprint(e.Type, e.Object.Name, e.Object.ResourceVersion, e.Cut))
		return nil
	})
	if want := fmt.Sprint([]string{"ADDEDa7true", "MODIFIEDb7false", "DELETEDc7true", "BOOKMARK9false"}); err != nil || fmt.Sprint(heard) != want {
		t.Errorf("heard %v, %v, want %s", heard, err, want)
	}
}

// TestAnObjectThatCannotBeNamedIsAnError: to leave it out would look like a deletion.
func TestAnObjectThatCannotBeNamedIsAnError(t *testing.T) {
	for _, text := range []string{
		`{"spec":{"holderIdentity":"` + strings.Repeat("x", 5<<20) + `"},"metadata":{"name":"a","resourceVersion":"7"}}`,
		`{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 5<<20) + `"},"name":"a","resourceVersion":"7"}}`,
	} {
		client, _ := clientOf(t, http.StatusOK, `{"metadata":{"resourceVersion":"7"},"items":[`+text+`]}`)
		_, err := rawapi.ListEach(t.Context(), client, of(func(string) bool { return false }), func() {}, func(e rawapi.Event[*coordinationv1.Lease]) {
			t.Errorf("%+v was passed on", e.Object.ObjectMeta)
		})
		if err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Error(err)
		}
	}
}

// trickle gives a few bytes at a time.
type trickle struct {
	r io.Reader
	n int
}

func (t trickle) Read(p []byte) (int, error) { return t.r.Read(p[:min(len(p), t.n)]) }

// FuzzList reads any answer, however it arrives: no error is a panic, and a list is read as it
// is.
func FuzzList(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"resourceVersion":"7"},"items":[]}`, `{"metadata":{"resourceVersion":"7"},"items":null}`,
		`{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a\"}],","resourceVersion":"1"}}, {"metadata":{"name":"b"},"spec":{"leaseDurationSeconds":-1}}]}` + "\n",
		`{"items":[{"metadata":{"labels":{"\\":"]"}}}],"metadata":{"resourceVersion":"8"}}`, `{}`, `[]`, `7`, `{"items":[1,2]}`, `{"items":[,]}`, `{"items":[{}`, "",
	} {
		f.Add([]byte(seed), 1)
		f.Add([]byte(seed), 4096)
	}
	f.Fuzz(func(t *testing.T, answer []byte, n int) {
		read := func(answer []byte) (rawapi.Listing[coordinationv1.Lease], error) {
			body := trickle{bytes.NewReader(answer), 1 + max(0, n)}
			client := apitest.Wire(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, body) }), coordinationv1.SchemeGroupVersion)
			return rawapi.Collect(t.Context(), client, rawapi.Query{Resource: apierror.Leases, Cached: true}, func(e rawapi.Event[*coordinationv1.Lease]) *coordinationv1.Lease { return e.Object })
		}
		_, _ = read(answer)
		var want coordinationv1.LeaseList
		if json.Unmarshal(answer, &want) != nil {
			return
		}
		want.ResourceVersion = "7"
		for i := range want.Items {
			want.Items[i].Kind = "" // an object of another kind is an error
		}
		got, err := read(apitest.Marshal(&want))
		if err != nil || !equality.Semantic.DeepEqual(got.Items, want.Items) || got.ResourceVersion != "7" {
			t.Fatalf("%+v is read as %+v, %v", want, got, err)
		}
	})
}
