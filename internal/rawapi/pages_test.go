// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestAListIsBoundedByItsParts: 35 MB are read though nobody holds them, and of each object that
// nobody wants no more is kept than which one it is.
func TestAListIsBoundedByItsParts(t *testing.T) {
	client, _, _ := leases(t, 24, 1_450_000)
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
	if err != nil || cut != 23 || whole != 1 || size > 24*(64<<10)+1_500_000 {
		t.Errorf("%d are cut and %d whole, %d bytes, %v", cut, whole, size, err)
	}
	all, err := rawapi.List[coordinationv1.Lease](t.Context(), client, apierror.Leases, "ns", "")
	if err != nil || len(all.Items) != 24 {
		t.Errorf("%d of 24 are listed, %v", len(all.Items), err)
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
			want.Items[i].Kind, want.Items[i].ResourceVersion = "", "1" // another kind, or no version, is an error
		}
		got, err := read(apitest.Marshal(&want))
		if err != nil || !equality.Semantic.DeepEqual(got.Items, want.Items) || got.ResourceVersion != "7" {
			t.Fatalf("%+v is read as %+v, %v", want, got, err)
		}
	})
}

// endless is an answer that has a beginning and then goes on for ever, or says nothing more.
type endless struct{ begins, goesOn string }

func (e endless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Body: io.NopCloser(io.MultiReader(strings.NewReader(e.begins), &again{ctx: r.Context(), text: strings.Repeat(e.goesOn, 10000)})),
	}, nil
}

// again is a text again and again, until a context ends.
type again struct {
	ctx  context.Context
	text string
	at   int
}

func (r *again) Read(p []byte) (n int, err error) {
	if r.text == "" {
		<-r.ctx.Done()
	}
	if r.ctx.Err() == nil {
		n = copy(p, r.text[r.at:])
		r.at = (r.at + n) % len(r.text)
	}
	return n, r.ctx.Err()
}

// enough counts the bytes that pass, measures the memory, and ends a context after 24 MiB.
type enough struct {
	http.RoundTripper
	end func()

	read, measured, most uint64
	body                 io.ReadCloser
}

func (e *enough) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.RoundTripper.RoundTrip(r)
	if err == nil {
		e.body, resp.Body = resp.Body, e
	}
	return resp, err
}

func (e *enough) Close() error { return e.body.Close() }

func (e *enough) Read(p []byte) (int, error) {
	n, err := e.body.Read(p)
	if e.read += uint64(n); e.read>>23 > e.measured {
		e.measured, e.most = e.read>>23, max(e.most, held())
	}
	if e.read > 24<<20 {
		e.end()
	}
	return n, err
}

// held is how much memory is in use.
func held() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestWhatHasNoEndTakesNoMemory: a list or a watch, which has no bound as a whole, ends with an error or
// with its context. What is compressed to nearly nothing is such an answer too.
func TestWhatHasNoEndTakesNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector, these megabytes take most of a minute")
	}
	const list, item = `{"metadata":{"resourceVersion":"9"},"items":[`, `{"metadata":{"name":"lock","namespace":"ns","resourceVersion":"7"}}`
	for _, a := range []endless{
		{list, item + ","}, {list, " "}, {list + `{"spec":{"holderIdentity":"`, "x"}, {list + `{"metadata":{"annotations":{`, `"a":"x",`},
		{`{"metadata":`, "[1,["}, {`{"other":"`, `\\`}, {`{"`, "x"}, {"", "7"}, {`{"type":"BOOKMARK","x":"`, "y"}, {"", `{"type":"MODIFIED","object":` + item + "}"},
	} {
		for what, ask := range map[string]func(ctx context.Context, client rest.Interface) error{
			"list": func(ctx context.Context, client rest.Interface) error {
				_, err := rawapi.ListEach(ctx, client, of(nil), func() {}, func(rawapi.Event[*coordinationv1.Lease]) {})
				return err
			},
			"watch": func(ctx context.Context, client rest.Interface) error {
				return rawapi.WatchAll(ctx, client, of(nil), 7, func(context.Context, rawapi.Event[*coordinationv1.Lease]) error { return nil })
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			e := &enough{RoundTripper: a, end: cancel}
			before, err := held(), ask(ctx, clientThat(t, e))
			if err == nil || e.most > before+12<<20 {
				t.Errorf("a %s that is %.40q and then %q: %v, with %d MiB after %d MiB", what, a.begins, a.goesOn, err, (e.most-before)>>20, e.read>>20)
			}
			cancel()
		}
	}
}

// TestAListThatDoesNotEndIsGivenUp: a candidate would wait for it for ever.
func TestAListThatDoesNotEndIsGivenUp(t *testing.T) {
	for what, tc := range map[string]struct {
		answer http.RoundTripper
		most   time.Duration
	}{
		"silence":                 {endless{`{"metadata":{"resourceVersion":"9"},"items":[`, ""}, 70 * time.Second},
		"pages without an end":    {slowly{answers{http.StatusOK, `{"metadata":{"resourceVersion":"9","continue":"more"},"items":[]}`}}, 10 * time.Minute},
		"not even a first header": {never{}, 70 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			_, err := rawapi.List[coordinationv1.Lease](t.Context(), clientThat(t, tc.answer), apierror.Leases, "ns", "")
			if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "goes on after") || !errors.Is(err, context.DeadlineExceeded) || took > tc.most {
				t.Errorf("%s: after %v %v, want %v at most", what, took, err, tc.most)
			}
		})
	}
}

// slowly answers after a second.
type slowly struct{ http.RoundTripper }

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Second):
		return s.RoundTripper.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// never does not answer.
type never struct{}

func (never) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
