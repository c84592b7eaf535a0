// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetLabels sets labels on an object and keeps its others. The map that the object had is not
// changed: it may be shared.
func SetLabels(object metav1.Object, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	all := make(map[string]string, len(object.GetLabels())+len(labels))
	maps.Copy(all, object.GetLabels())
	maps.Copy(all, labels)
	object.SetLabels(all)
}

// CheckLabels returns an error if labels that a user chose have a meaning here: by these a Lease
// is a candidate's presence, and no lock.
func CheckLabels(labels map[string]string) error {
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(key string) bool {
		return !strings.HasPrefix(key, "zonelect.dev/")
	})
	if len(own) > 0 {
		return fmt.Errorf("labels %s: labels that begin with zonelect.dev/ mark what zonelect itself keeps: use another prefix", strings.Join(own, ", "))
	}
	return nil
}
