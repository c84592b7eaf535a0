// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"testing"

	"github.com/zonelect/zonelect/internal/requests"
)

// FuzzHandoverRequest reads any text. A request names its holder, and it reads the same
// again after it was written.
func FuzzHandoverRequest(f *testing.F) {
	for _, seed := range []string{
		`{"holder":"a"}`, `{"holder":"a","identity":"b","zone":"za"}`, `{"holder":""}`, `{}`, `null`, `[]`, `"a"`, `{"holder":"a"}{}`,
		`{"HOLDER":"a","holder":null}`, `{"holder":"\ud800"}`, `{"holder":1}`, "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := requests.ParseHandover(text)
		if (err == nil) != (r.Holder != "") {
			t.Fatalf("%q is read as %+v, %v", text, r, err)
		}
		if err != nil {
			return
		}
		if again, err := requests.ParseHandover(requests.FormatHandover(r)); err != nil || again != r {
			t.Fatalf("read %+v\nthen %+v, %v", r, again, err)
		}
	})
}
