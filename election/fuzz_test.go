// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"testing"

	"github.com/zonelect/zonelect/locks"
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
		q, err := locks.Request(text).Parse()
		if (err == nil) != (q.Holder != "") {
			t.Fatalf("%q is read as %+v, %v", text, q, err)
		}
		if err != nil {
			return
		}
		if again, err := q.Request().Parse(); err != nil || again != q {
			t.Fatalf("read %+v\nthen %+v, %v", q, again, err)
		}
	})
}
