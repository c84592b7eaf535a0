// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// patched applies a JSON patch to the current object, whatever its version.
func (a *Server) patched(r *http.Request, body []byte) (Object, *refusal) {
	path := r.URL.Path
	old, exists := a.Objects[path]
	if !exists {
		return nil, &refusal{http.StatusNotFound, NotFound(path)}
	}
	refuse := func(code int, err error) (Object, *refusal) {
		return nil, &refusal{code, Status(code, "", err.Error(), "", "")}
	}
	if r.Header.Get("Content-Type") != "application/json-patch+json" {
		return refuse(http.StatusUnsupportedMediaType, http.ErrNotSupported)
	}
	steps, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err)
	}
	patched, err := steps.Apply(Marshal(old))
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, err)
	}
	var o Object
	if err := json.Unmarshal(patched, &o); err != nil {
		return refuse(http.StatusUnprocessableEntity, err)
	}
	return o, nil
}
