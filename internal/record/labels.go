// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// SetLabels sets labels on an object and keeps its others. The map that the object had is not
// changed: it may be shared.
func SetLabels(object metav1.Object, own map[string]string) {
	if len(own) > 0 {
		object.SetLabels(labels.Merge(object.GetLabels(), own))
	}
}

// CheckLabels returns an error if labels that a user chose have a meaning here: by these a Lease
// is a candidate's presence, and no lock.
func CheckLabels(chosen map[string]string) error {
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(chosen)), func(key string) bool {
		return !strings.HasPrefix(key, "zonelect.dev/")
	})
	if len(own) > 0 {
		return fmt.Errorf("labels %s: zonelect.dev/ marks what zonelect itself keeps: use another prefix", strings.Join(own, ", "))
	}
	return nil
}
