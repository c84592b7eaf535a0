// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest is an API server in memory, for the tests of locks.
package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Object is an object of the API as raw JSON, so that no type of this repository decides
// which fields are kept.
type Object = map[string]any

// Server speaks as much of the API's wire format as a lock needs: GET, POST, PUT, DELETE,
// lists, and watches of single objects or of all of a resource, in one namespace or in all.
// It counts resourceVersions across all objects, starting at 101.
type Server struct {
	Mu      sync.Mutex        // guards Objects, which requests and the methods of the server change
	Objects map[string]Object // by path

	// Before, if set, sees every request before it is served: the verb, as RBAC calls it, and
	// the path. If it returns a code other than zero, that is the answer. It is called by one
	// goroutine at a time.
	Before func(verb, path string) (code int, body Object)
	// Stored, if set, sees every change of an object when it is made: the request, nil for a
	// change behind the clients' backs, and the object before and after, nil where there is
	// none. It may change neither. It is called by one goroutine at a time, which holds Mu.
	Stored func(r *http.Request, path string, before, after Object)
	// Landing, if set, is called for each write, by several goroutines at a time and without Mu: after
	// a real server has compared versions, and before the store. If the object has changed when the
	// write is to land, all of that begins again. A write for which it returns false never lands.
	Landing func(r *http.Request) bool
	// Lingers, if set, says which objects stay with a deletionTimestamp when a client deletes
	// them, as pods do, until Server.Delete.
	Lingers func(path string) bool

	view    // of what is stored
	history []change
	pages   map[string]page
	fronts  []*Front
}

// NewServer returns a server without objects.
func NewServer() *Server {
	return &Server{view: newView(100), Objects: map[string]Object{}, pages: map[string]page{}}
}

// Run starts a server, for examples. It returns the config for it, and a function that ends it.
func Run() (cfg *rest.Config, stop func()) {
	s := httptest.NewServer(NewServer())
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, func() {
		s.CloseClientConnections()
		s.Close()
	}
}

// ServeHTTP serves the API.
func (a *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.serve(w, r, &a.view) }

// serve serves the API, with reads and watches from a view.
func (a *Server) serve(w http.ResponseWriter, r *http.Request, from *view) {
	q := r.URL.Query()
	if code, body := a.before(r); code != 0 {
		Reply(w, code, body)
		return
	}
	switch {
	case q.Get("watch") == "true":
		of := parse(r.URL.Path)
		if name, one := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); one {
			of.name = name
		}
		a.watch(w, r, of, from)
	case verbOf(r) == "list":
		a.answer(w, func() (int, any) { return a.list(r.URL.Path, q, from) })
	case r.Method == http.MethodGet:
		a.answer(w, func() (int, any) {
			if o, exists := from.objects[r.URL.Path]; exists {
				return http.StatusOK, o.raw
			}
			return http.StatusNotFound, NotFound(r.URL.Path)
		})
	default:
		body, err := io.ReadAll(r.Body) // before Mu is taken: it may come late
		if err != nil {
			Reply(w, http.StatusBadRequest, Status(http.StatusBadRequest, "BadRequest", err.Error(), "", ""))
			return
		}
		a.answer(w, func() (int, any) { return a.write(r, body) })
	}
}

func (a *Server) before(r *http.Request) (int, Object) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.Before == nil {
		return 0, nil
	}
	return a.Before(verbOf(r), r.URL.Path)
}

func (a *Server) answer(w http.ResponseWriter, do func() (int, any)) {
	a.Mu.Lock()
	code, body := do()
	raw := Marshal(body)
	a.Mu.Unlock()
	Reply(w, code, json.RawMessage(raw))
}

// write makes what a request wants of the object as it is, and stores that if the object is
// still the same once the write has been admitted and may land.
func (a *Server) write(r *http.Request, body []byte) (int, any) {
	path, o := r.URL.Path, Object{} // for a deletion its options
	if r.Method == http.MethodPatch {
		return http.StatusUnsupportedMediaType, Status(http.StatusUnsupportedMediaType, "", http.ErrNotSupported.Error(), "", "")
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return http.StatusBadRequest, Status(http.StatusBadRequest, "BadRequest", err.Error(), "", "")
	}
	if r.Method == http.MethodPost {
		meta, named := o["metadata"].(Object)
		if !named { // a question, such as who the sender is: as a server that does not know it
			return http.StatusNotFound, NotFound(path)
		}
		path += "/" + meta["name"].(string)
	}
	for {
		number := a.objects[path].number
		if code, body := check(r.Method, path, a.Objects[path], o); code != 0 {
			return code, body
		}
		if !a.lands(r) {
			return http.StatusGatewayTimeout, Status(http.StatusGatewayTimeout, "Timeout", "the write has not landed", "", "")
		}
		if a.objects[path].number == number {
			return a.store(r, path, o)
		}
	}
}

// lands has Landing hold a write up. The caller holds Mu.
func (a *Server) lands(r *http.Request) bool {
	hook := a.Landing
	if hook == nil {
		return true
	}
	a.Mu.Unlock()
	defer a.Mu.Lock()
	return hook(r)
}

// check compares what a write was made for with what is there.
func check(method, path string, old, o Object) (code int, answer Object) {
	about, name := parse(path).resource, parse(path).name
	if kind, is := old["kind"].(string); is && method == http.MethodDelete {
		about = kind // as the real server has it in the details of this conflict only
	}
	conflict := func(message string) (int, Object) {
		return http.StatusConflict, Status(http.StatusConflict, "Conflict", message, about, name)
	}
	switch {
	case method == http.MethodPost && old == nil:
	case method == http.MethodPost:
		return http.StatusConflict, Status(http.StatusConflict, "AlreadyExists", "already exists", about, name)
	case method == http.MethodPut && old == nil:
		// The real server gives the same answer to a PUT with a UID: the UID is a
		// precondition.
		return conflict("Precondition failed: UID in precondition")
	case old == nil:
		return http.StatusNotFound, NotFound(path)
	case !meets(old, o, method):
		return conflict("the object has been modified")
	}
	return 0, nil
}

// store stores what write has found to be valid, unless it is a trial.
func (a *Server) store(r *http.Request, path string, o Object) (int, any) {
	if r.URL.Query().Get("dryRun") == "All" {
		return http.StatusOK, o
	}
	switch r.Method {
	case http.MethodDelete:
		if a.Lingers != nil && a.Lingers(path) {
			o = Clone(a.Objects[path])
			o["metadata"].(Object)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
			return http.StatusOK, a.put(r, "MODIFIED", path, o)
		}
		a.put(r, "DELETED", path, Clone(a.Objects[path]))
		return http.StatusOK, Object{"kind": "Status", "apiVersion": "v1", "status": "Success"}
	case http.MethodPost:
		meta := o["metadata"].(Object)
		meta["uid"] = fmt.Sprintf("uid-%d", a.at)
		if namespace := parse(path).namespace; namespace != "" {
			meta["namespace"] = namespace
		}
		return http.StatusCreated, a.put(r, "ADDED", path, o)
	default:
		return http.StatusOK, a.put(r, "MODIFIED", path, o)
	}
}

// meets reports whether old has the UID and the resourceVersion that an update or the
// preconditions of a deletion require.
func meets(old, sent Object, method string) bool {
	wants, _ := sent["metadata"].(Object)
	if method == http.MethodDelete {
		wants, _ = sent["preconditions"].(Object)
	}
	for _, key := range []string{"uid", "resourceVersion"} {
		want, given := wants[key]
		if (given || method == http.MethodPut) && want != old["metadata"].(Object)[key] {
			return false
		}
	}
	return true
}

// put stores o under the next resourceVersion, and returns it as JSON. The caller holds Mu.
func (a *Server) put(r *http.Request, kind, path string, o Object) json.RawMessage {
	o["metadata"].(Object)["resourceVersion"] = strconv.Itoa(a.at + 1)
	before, after := a.Objects[path], o
	c := change{kind: kind, path: path, place: parse(path), number: a.at + 1, is: labelsOf(o)}
	if before != nil {
		c.was = labelsOf(before)
	}
	c.raw = Marshal(o)
	if kind == "DELETED" {
		delete(a.Objects, path)
		after, c.is = nil, nil
	} else {
		a.Objects[path] = o
	}
	a.history = append(a.history, c)
	a.apply(c)
	if a.Stored != nil {
		a.Stored(r, path, before, after)
	}
	renew(&a.changed)
	for _, f := range a.fronts {
		f.follow()
	}
	return c.raw
}

// Change changes an object behind the lock's back.
func (a *Server) Change(path string, do func(o Object)) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	o := Clone(a.Objects[path])
	do(o)
	a.put(nil, "MODIFIED", path, o)
}

// StoreNothing makes the server acknowledge each update and show what was there before under a new
// version, as it does if admission undoes each change and notes that. It replaces Before.
func (a *Server) StoreNothing() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.Before = func(verb, path string) (int, Object) {
		if a.Objects[path] == nil || verb != "update" {
			return 0, nil
		}
		a.put(nil, "MODIFIED", path, Clone(a.Objects[path]))
		return http.StatusOK, a.Objects[path]
	}
}

// Delete removes an object behind the lock's back.
func (a *Server) Delete(path string) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if o, ok := a.Objects[path]; ok {
		a.put(nil, "DELETED", path, Clone(o))
	}
}

// Reply answers a request with body as JSON.
func Reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(Marshal(body))
}

// Status is an error as the API server words it.
func Status(code int, reason, message, kind, name string, causes ...string) Object {
	o := Object{"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure"}
	o["message"], o["reason"], o["code"] = message, reason, code
	if kind != "" || len(causes) > 0 {
		list := []any{}
		for _, c := range causes {
			list = append(list, Object{"reason": c})
		}
		o["details"] = Object{"kind": kind, "name": name, "causes": list}
	}
	return o
}

// NotFound is the error for an object that does not exist.
func NotFound(path string) Object {
	p := parse(path)
	return Status(404, "NotFound", fmt.Sprintf("%s %q not found", p.resource, p.name), p.resource, p.name)
}

// Clone returns a deep copy, or the JSON form of a typed object.
func Clone(o any) Object {
	var c Object
	if err := json.Unmarshal(Marshal(o), &c); err != nil {
		panic(err) // it was JSON
	}
	return c
}

// Marshal returns v as JSON. It panics if v has none.
func Marshal(v any) []byte {
	if raw, is := v.(json.RawMessage); is {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
