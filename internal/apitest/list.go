// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// isList reports whether a path is that of all objects of a resource.
func isList(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	rest := parts[min(2, len(parts)):] // after api/v1
	if parts[0] == "apis" {
		rest = parts[min(3, len(parts)):] // after apis/group/v1
	}
	if len(rest) > 2 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	return len(rest) == 1
}

// list answers with the objects below path that have the labels of selector, by name and one
// in a line. A list with a limit is one page of it, unless it may come from a cache, as with the
// real server; its other pages show the same moment until Compact.
func (a *Server) list(path string, q url.Values, from *view) (int, any) {
	limit, _ := strconv.Atoi(q.Get("limit"))
	if q.Has("resourceVersion") {
		limit = 0
	}
	rest := page{number: from.at}
	if token := q.Get("continue"); token != "" {
		var known bool
		if rest, known = a.pages[token]; !known {
			return http.StatusGone, Status(http.StatusGone, "Expired", "The provided continue parameter is too old", "", "")
		}
	} else {
		wanted, err := labels.Parse(q.Get("labelSelector"))
		if err != nil {
			return http.StatusBadRequest, Status(http.StatusBadRequest, "BadRequest", err.Error(), "", "")
		}
		for _, name := range from.paths() {
			if o := from.objects[name]; below(name, path) && wanted.Matches(o.is) {
				rest.items = append(rest.items, o.raw)
			}
		}
	}
	items, more := rest.items, ""
	if limit > 0 && limit < len(items) {
		more = fmt.Sprintf("%d-%d-%s", rest.number, len(items)-limit, path)
		a.pages[more] = page{rest.number, items[limit:]}
		items = items[:limit]
	}
	return http.StatusOK, json.RawMessage(fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d","continue":%q},"items":[%s%s%s]}`, rest.number, more, "\n", bytes.Join(items, []byte(",\n")), "\n"))
}

// page is what is left of a list.
type page struct {
	number int
	items  [][]byte
}

// below reports whether name is that of an object of the resource at path,
// which may be that of all namespaces.
func below(name, path string) bool {
	if rest, ok := strings.CutPrefix(name, path+"/"); ok && !strings.Contains(rest, "/") {
		return true
	}
	dir, resource := path[:strings.LastIndex(path, "/")], last(path)
	rest, ok := strings.CutPrefix(name, dir+"/namespaces/")
	if !ok || strings.Contains(dir, "/namespaces/") {
		return false
	}
	parts := strings.Split(rest, "/")
	return len(parts) == 3 && parts[1] == resource
}

func labelsOf(o Object) labels.Set {
	set := labels.Set{}
	all, _ := o["metadata"].(Object)["labels"].(Object)
	for key, value := range all {
		set[key], _ = value.(string)
	}
	return set
}

// verbOf returns what RBAC calls a request.
func verbOf(r *http.Request) string {
	switch {
	case r.URL.Query().Get("watch") == "true":
		return "watch"
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	case r.Method == http.MethodPatch:
		return "patch"
	case r.Method == http.MethodDelete:
		return "delete"
	case isList(r.URL.Path):
		return "list"
	default:
		return "get"
	}
}

// Forbidden is the answer to a request that RBAC does not allow.
func Forbidden(verb, path string) (int, Object) {
	resource := last(path)
	if !isList(path) {
		resource = resourceOf(path)
	}
	return http.StatusForbidden, Status(http.StatusForbidden, "Forbidden", resource+` is forbidden: User "jane" cannot `+verb+" resource", resource, "")
}

// Put creates or replaces an object behind the client's back, exactly as given except for its
// resourceVersion, and its name and namespace, which are those of its path.
func (a *Server) Put(path string, o any) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	kind := "ADDED"
	if _, exists := a.Objects[path]; exists {
		kind = "MODIFIED"
	}
	object := Clone(o)
	meta, _ := object["metadata"].(Object)
	if meta == nil {
		meta = Object{}
		object["metadata"] = meta
	}
	meta["name"] = last(path)
	if namespace := namespaceOf(path); namespace != "" {
		meta["namespace"] = namespace
	}
	a.put(nil, kind, path, object)
}
