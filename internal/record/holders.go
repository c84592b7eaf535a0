// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"slices"

	"github.com/zonelect/zonelect/locks"
)

// AnnotationLegacyHolders lists the programs that were seen to hold the legacy lock, as JSON: an
// array of [LegacyHolder]. It is on the Lease, and outlives them.
const AnnotationLegacyHolders = "zonelect.dev/legacy-holders"

// mostHolders bounds the list. More are one holder whose labels nobody knows.
const mostHolders = 30

// LegacyHolder is a program that was seen to hold the legacy lock.
type LegacyHolder struct {
	// Name is "name/uid" of a pod, or the host in an elector's identity.
	Name string `json:"name"`
	// Labels are those of its pod; none if that was gone before anybody looked.
	Labels map[string]string `json:"labels,omitempty"`
}

// WithHolder returns the list with h. What is known of labels stays known.
func WithHolder(all []LegacyHolder, h LegacyHolder) []LegacyHolder {
	i := slices.IndexFunc(all, func(o LegacyHolder) bool { return o.Name == h.Name })
	switch {
	case i < 0 && len(all) == mostHolders:
		i, h = mostHolders-1, LegacyHolder{Name: "others"}
	case i < 0:
		return append(slices.Clip(all), h)
	case len(h.Labels) == 0 || len(all[i].Labels) > 0:
		return all
	}
	all = slices.Clone(all)
	all[i] = h
	return all
}

// ReadLegacyHolders returns the list in an object's annotations. Garbage lists nothing.
func ReadLegacyHolders(annotations map[string]string) (all []LegacyHolder) {
	_ = json.Unmarshal([]byte(annotations[AnnotationLegacyHolders]), &all)
	return all
}

// WriteLegacyHolders adds holders to the list in annotations, in place, and returns the map.
func WriteLegacyHolders(annotations map[string]string, holders []LegacyHolder) map[string]string {
	all := ReadLegacyHolders(annotations)
	for _, h := range holders {
		all = WithHolder(all, h)
	}
	text, _ := json.Marshal(all) // strings alone
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationLegacyHolders] = string(text)
	return annotations
}

// LegacyHoldersOf returns the list on the Lease of a version.
func LegacyHoldersOf(v locks.Version) []LegacyHolder {
	return ReadLegacyHolders(leaseOf(v).Annotations)
}
