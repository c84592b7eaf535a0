// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
)

// collect is the garbage collector: it looks, and acts a while later.
func (m *migration) collect() {
	for m.nap(some(m.dice, 2*time.Second)) {
		m.server.Mu.Lock()
		doomed := map[string]apitest.Object{}
		for path, o := range m.server.Objects {
			if kept, dangling := m.owners(o); dangling > 0 && kept == 0 {
				doomed[path] = apitest.Clone(o)
			}
		}
		m.server.Mu.Unlock()
		if len(doomed) > 0 && !m.nap(some(m.dice, 3*time.Second)) {
			return
		}
		for path, seen := range doomed {
			m.discard(path, seen)
		}
		m.dropDangling()
	}
}

func (m *migration) nap(d time.Duration) bool {
	select {
	case <-time.After(d + time.Millisecond):
		return true
	case <-m.ctx.Done():
		return false
	}
}

// owners counts the owners of an object that exist, and those that do not.
func (m *migration) owners(o apitest.Object) (kept, dangling int) {
	refs, _ := o["metadata"].(apitest.Object)["ownerReferences"].([]any)
	for _, ref := range refs {
		if m.isThere(ref.(apitest.Object)) {
			kept++
		} else {
			dangling++
		}
	}
	return kept, dangling
}

// isThere reports whether an owner exists. The caller holds the server's Mu.
func (m *migration) isThere(ref apitest.Object) bool {
	path := podsPath + ref["name"].(string)
	if ref["kind"] == "Lease" {
		path = strings.TrimSuffix(leasePath, "lock") + ref["name"].(string)
	}
	o := m.server.Objects[path]
	return o != nil && o["metadata"].(apitest.Object)["uid"] == ref["uid"]
}

// discard deletes an object in the version that was seen.
func (m *migration) discard(path string, seen apitest.Object) {
	meta := seen["metadata"].(apitest.Object)
	preconditions := apitest.Object{"uid": meta["uid"]}
	if m.compares {
		preconditions["resourceVersion"] = meta["resourceVersion"]
	}
	body := bytes.NewReader(apitest.Marshal(apitest.Object{"preconditions": preconditions}))
	m.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodDelete, path, body))
}

// dropDangling removes owners that do not exist from the shield if it has
// others.
func (m *migration) dropDangling() {
	m.server.Mu.Lock()
	o := m.server.Objects[mapPath]
	kept, dangling := 0, 0
	if o != nil {
		kept, dangling = m.owners(o)
	}
	m.server.Mu.Unlock()
	if kept == 0 || dangling == 0 {
		return
	}
	m.change(mapPath, func(o apitest.Object) {
		meta := o["metadata"].(apitest.Object)
		refs := slices.Clone(meta["ownerReferences"].([]any))
		refs = slices.DeleteFunc(refs, func(ref any) bool { return !m.isThere(ref.(apitest.Object)) })
		if len(refs) > 0 {
			meta["ownerReferences"] = refs
		}
	})
}
