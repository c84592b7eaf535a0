// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"io"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// patch applies a JSON patch to the current object, whatever its version.
func (a *Server) patch(r *http.Request) (int, any) {
	path := r.URL.Path
	old, exists := a.Objects[path]
	if !exists {
		return http.StatusNotFound, NotFound(path)
	}
	refuse := func(code int, err error) (int, any) { return code, Status(code, "", err.Error(), "", "") }
	if r.Header.Get("Content-Type") != "application/json-patch+json" {
		return refuse(http.StatusUnsupportedMediaType, http.ErrNotSupported)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return refuse(http.StatusBadRequest, err)
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
	return http.StatusOK, a.put(r, "MODIFIED", path, o)
}
