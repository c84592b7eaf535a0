// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import "testing"

// TestALegacyLockIsReadAsItIsWritten, and the two kinds are never confused.
func TestALegacyLockIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]Legacy{
		"configmap/op":             {Resource: ConfigMaps, Name: "op"},
		"annotation/configmaps/op": {Resource: ConfigMaps, Name: "op", Elected: true},
		"annotation/endpoints/op":  {Resource: Endpoints, Name: "op", Elected: true},
		"":                         {},
	} {
		if got := ReadLegacy(map[string]string{AnnotationLegacy: text}); got != want {
			t.Errorf("%q reads as %+v", text, got)
		}
		if got := want.String(); got != text {
			t.Errorf("%+v is written as %q, want %q", want, got, text)
		}
	}
}
