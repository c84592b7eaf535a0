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

// place is what a path names: one object, or all of a resource.
type place struct{ api, namespace, resource, name string }

func parse(path string) (p place) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	in := min(2, len(parts)) // api/v1
	if parts[0] == "apis" {
		in = min(3, len(parts)) // apis/group/v1
	}
	p.api = strings.Join(parts[:in], "/")
	rest := append(parts[in:], "", "", "", "")
	if rest[0] == "namespaces" && rest[2] != "" {
		p.namespace, rest = rest[1], rest[2:]
	}
	p.resource, p.name = rest[0], rest[1]
	return p
}

// has reports whether p, which may be all of a resource, in one namespace or in all, has an object.
func (p place) has(o place) bool {
	return p.api == o.api && p.resource == o.resource &&
		(p.namespace == "" || p.namespace == o.namespace) && (p.name == "" || p.name == o.name)
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
			if o := from.objects[name]; parse(path).has(o.place) && wanted.Matches(o.is) {
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
	all := bytes.Join(items, []byte(",\n"))
	return http.StatusOK, json.RawMessage(fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d","continue":%q},"items":[
%s
]}`, rest.number, more, all))
}

// page is what is left of a list.
type page struct {
	number int
	items  [][]byte
}

func labelsOf(o Object) labels.Set {
	set := labels.Set{}
	all, _ := o["metadata"].(Object)["labels"].(Object)
	for key, value := range all {
		set[key], _ = value.(string)
	}
	return set
}

var writes = map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

// verbOf returns what RBAC calls a request.
func verbOf(r *http.Request) string {
	switch {
	case r.URL.Query().Get("watch") == "true":
		return "watch"
	case writes[r.Method] != "":
		return writes[r.Method]
	case parse(r.URL.Path).name == "":
		return "list"
	default:
		return "get"
	}
}

// Forbidden is the answer to a request that RBAC does not allow.
func Forbidden(verb, path string) (int, Object) {
	resource := parse(path).resource
	message := fmt.Sprintf(`%s is forbidden: User "jane" cannot %s resource`, resource, verb)
	return http.StatusForbidden, Status(http.StatusForbidden, "Forbidden", message, resource, "")
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
	meta["name"] = parse(path).name
	if namespace := parse(path).namespace; namespace != "" {
		meta["namespace"] = namespace
	}
	a.put(nil, kind, path, object)
}
