// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"strings"

	"github.com/zonelect/zonelect/locks"
)

// AnnotationLegacy names the legacy lock that is moved to a Lease, as
// [Legacy.String] writes it.
const AnnotationLegacy = "zonelect.dev/legacy"

// Legacy is a lock that is moved to a Lease. The zero value is none.
type Legacy struct {
	// Resource is what the lock stands on: ConfigMaps or Endpoints.
	Resource string
	Name     string
	// Elected says that it is client-go's election record on an annotation,
	// which ends by time. Else it is leader-for-life's.
	Elected bool
}

// What a legacy lock stands on.
const (
	ConfigMaps = "configmaps"
	Endpoints  = "endpoints"
)

const (
	ownedPrefix   = "configmap/" // leader-for-life
	electedPrefix = "annotation/"
)

// String returns configmap/NAME for leader-for-life, annotation/configmaps/NAME
// or annotation/endpoints/NAME for an election record, and "" for none.
func (l Legacy) String() string {
	switch {
	case l == Legacy{}:
		return ""
	case l.Elected:
		return electedPrefix + l.Resource + "/" + l.Name
	}
	return ownedPrefix + l.Name
}

// ReadLegacy returns the legacy lock that an object's annotations name.
func ReadLegacy(annotations map[string]string) Legacy {
	return ParseLegacy(annotations[AnnotationLegacy])
}

// ParseLegacy returns the lock that Legacy.String has written. What makes no
// sense is none.
func ParseLegacy(text string) Legacy {
	if name, is := strings.CutPrefix(text, ownedPrefix); is && name != "" {
		return Legacy{Resource: ConfigMaps, Name: name}
	}
	text, elected := strings.CutPrefix(text, electedPrefix)
	resource, name, _ := strings.Cut(text, "/")
	if !elected || name == "" || !slices.Contains([]string{ConfigMaps, Endpoints}, resource) {
		return Legacy{}
	}
	return Legacy{Resource: resource, Name: name, Elected: true}
}

// LegacyOf returns the legacy lock that the Lease of a version names.
func LegacyOf(v locks.Version) Legacy { return ReadLegacy(leaseOf(v).Annotations) }
