// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// object is a Lease as raw JSON, so that no type of this repository decides
// what is kept.
type object = map[string]any

// apiServer speaks as much of the API's wire format as a lock hears: GET, POST,
// PUT and watches of Leases. It counts resourceVersions across all objects.
type apiServer struct {
	mu      sync.Mutex
	number  int
	objects map[string]object // by path
	history []change
	changed chan struct{}
}

type change struct {
	kind, path string
	number     int
	object     object
}

func newAPIServer(t *testing.T) (*apiServer, *rest.RESTClient) {
	a := &apiServer{number: 100, objects: map[string]object{}, changed: make(chan struct{})}
	return a, clientOf(t, a)
}

// clientOf returns a client of a server that ends with the test.
func clientOf(t *testing.T, h http.Handler) *rest.RESTClient {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	cfg := &rest.Config{Host: s.URL, APIPath: "/apis"}
	cfg.GroupVersion = &coordinationv1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientForConfigAndClient(cfg, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case q.Get("watch") == "true":
		name := strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name=")
		a.watch(w, r, r.URL.Path+"/"+name, q.Get("resourceVersion"))
	case r.Method == http.MethodGet:
		a.answer(w, func() (int, any) { return a.get(r.URL.Path) })
	default:
		var o object
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			reply(w, http.StatusBadRequest, status(http.StatusBadRequest, "BadRequest", err.Error(), "", ""))
			return
		}
		a.answer(w, func() (int, any) { return a.write(r.Method, r.URL.Path, o) })
	}
}

func (a *apiServer) answer(w http.ResponseWriter, do func() (int, any)) {
	a.mu.Lock()
	code, body := do()
	raw := mustMarshal(body)
	a.mu.Unlock()
	reply(w, code, json.RawMessage(raw))
}

func (a *apiServer) get(path string) (int, any) {
	if o, ok := a.objects[path]; ok {
		return http.StatusOK, o
	}
	return http.StatusNotFound, notFound(path)
}

func (a *apiServer) write(method, path string, o object) (int, any) {
	meta := o["metadata"].(object)
	if method == http.MethodPost {
		path += "/" + meta["name"].(string)
	}
	old, exists := a.objects[path]
	switch {
	case method == http.MethodPost && exists:
		return http.StatusConflict, status(409, "AlreadyExists", "already exists", "leases", last(path))
	case method == http.MethodPut && !exists:
		// The real one answers a PUT with a UID so, too: leases may be
		// created by PUT, but the UID is a precondition.
		return http.StatusConflict, status(409, "Conflict", "Precondition failed: UID in precondition", "leases", last(path))
	case method == http.MethodPut && (meta["uid"] != old["metadata"].(object)["uid"] || meta["resourceVersion"] != old["metadata"].(object)["resourceVersion"]):
		return http.StatusConflict, status(409, "Conflict", "the object has been modified", "leases", last(path))
	}
	kind, code := "MODIFIED", http.StatusOK
	if !exists {
		kind, code = "ADDED", http.StatusCreated
		meta["uid"] = fmt.Sprintf("uid-%d", a.number)
	}
	a.put(kind, path, o)
	return code, o
}

// put stores o under the next resourceVersion. The caller holds mu.
func (a *apiServer) put(kind, path string, o object) {
	a.number++
	o["metadata"].(object)["resourceVersion"] = strconv.Itoa(a.number)
	if kind == "DELETED" {
		delete(a.objects, path)
	} else {
		a.objects[path] = o
	}
	a.history = append(a.history, change{kind, path, a.number, clone(o)})
	close(a.changed)
	a.changed = make(chan struct{})
}

// delete removes the Lease behind the lock's back.
func (a *apiServer) delete(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o, ok := a.objects[path]; ok {
		a.put("DELETED", path, clone(o))
	}
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, path, from string) {
	after, _ := strconv.Atoi(from)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for first := true; ; first = false {
		a.mu.Lock()
		if o, ok := a.objects[path]; first && after == 0 {
			if ok {
				send(w, "ADDED", clone(o))
			}
			after = a.number
		}
		for _, c := range a.history {
			if c.number > after && c.path == path {
				send(w, c.kind, c.object)
			}
		}
		after = a.number
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// send writes one event of a watch.
func send(w http.ResponseWriter, kind string, o any) {
	fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, mustMarshal(o))
	w.(http.Flusher).Flush()
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(mustMarshal(body))
}

// status is an error as the API server words it.
func status(code int, reason, message, kind, name string, causes ...string) object {
	o := object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure", "message": message, "reason": reason, "code": code}
	if kind != "" || len(causes) > 0 {
		list := []any{}
		for _, c := range causes {
			list = append(list, object{"reason": c})
		}
		o["details"] = object{"kind": kind, "name": name, "causes": list}
	}
	return o
}

func notFound(path string) object {
	return status(404, "NotFound", fmt.Sprintf("leases.coordination.k8s.io %q not found", last(path)), "leases", last(path))
}

func last(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func clone(o object) object {
	var c object
	if err := json.Unmarshal(mustMarshal(o), &c); err != nil {
		panic(err) // it was JSON
	}
	return c
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // tests marshal maps and strings only
	}
	return b
}
