// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/locks"
)

// The annotations that hold a [Stage].
const (
	AnnotationPhase     = "zonelect.dev/phase"
	AnnotationPhaseStep = "zonelect.dev/phase-step"
)

// Phase is how far the move off a legacy lock has come. Empty means that none
// is on record.
type Phase string

// The phases, in the order in which a migration goes through them.
const (
	PhaseLegacy Phase = "legacy" // only the legacy lock counts
	PhaseDual   Phase = "dual"   // the Lease counts, and the legacy lock is held with it
	PhaseSealed Phase = "sealed" // the Lease alone counts, what is left of the legacy lock keeps legacy pods out
	PhaseClean  Phase = "clean"  // the legacy lock is gone permanently, and the Lease alone counts
)

// PhaseNames are the names of all phases, in the order of a migration. Nobody changes them.
var PhaseNames = []string{string(PhaseLegacy), string(PhaseDual), string(PhaseSealed), string(PhaseClean)}

// Stage is a phase with its place in the order of changes. The same stage is
// kept on several objects; where they disagree, [Stage.Later] counts.
type Stage struct {
	Phase Phase `json:"phase,omitempty"`
	// Step grows with each change of phase, in whichever direction.
	Step uint64 `json:"step,omitempty"`
}

// Seals reports whether a shield in that stage needs no owner.
func (s Stage) Seals() bool { return s.Phase == PhaseSealed || s.Phase == PhaseClean }

// ReadStage returns the stage in an object's annotations, or the zero Stage if there is none.
// A phase or a step that makes no sense reads as none at all; a phase without a step has step
// zero.
func ReadStage(annotations map[string]string) Stage {
	s := Stage{Phase: Phase(annotations[AnnotationPhase])}
	if !slices.Contains(PhaseNames, string(s.Phase)) {
		return Stage{}
	}
	if step, given := annotations[AnnotationPhaseStep]; given {
		if s.Step = parseNumber(step); s.Step == 0 {
			return Stage{}
		}
	}
	return s
}

// StageOf returns the stage on the Lease of a version, or the zero Stage if that does not
// exist.
func StageOf(v locks.Version) Stage { return ReadStage(leaseOf(v).Annotations) }

// HolderOf returns the holder of the Lease of a version; empty if nobody holds it, or if it
// does not exist.
func HolderOf(v locks.Version) string { return Identity(value(leaseOf(v).Spec.HolderIdentity)) }

// leaseOf returns the Lease of a version, or an empty one.
func leaseOf(v locks.Version) *coordinationv1.Lease {
	switch o := v.Opaque.(type) {
	case *coordinationv1.Lease:
		if o != nil {
			return o
		}
	case interface {
		LockLease() *coordinationv1.Lease
	}:
		return o.LockLease()
	}
	return &coordinationv1.Lease{}
}

// WriteStage sets the annotations of s in place, or deletes them for the zero Stage, and
// returns the map. It makes the map if there is none.
func WriteStage(annotations map[string]string, s Stage) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	set(annotations, AnnotationPhase, string(s.Phase))
	set(annotations, AnnotationPhaseStep, formatNumber(s.Step))
	return annotations
}

func set(annotations map[string]string, key, value string) {
	if value == "" {
		delete(annotations, key)
		return
	}
	annotations[key] = value
}

// Later returns the stage that was set last. Of two different stages with the same step,
// which no zonelect program writes, it returns the one that comes first in a migration: it
// requires more care.
func (s Stage) Later(other Stage) Stage {
	switch {
	case s.Phase == "":
		return other
	case other.Phase == "" || s.Step > other.Step:
		return s
	case s.Step == other.Step && slices.Index(PhaseNames, string(s.Phase)) < slices.Index(PhaseNames, string(other.Phase)):
		return s
	default:
		return other
	}
}

// Bars returns why a candidate that knows the Lease alone may not campaign in this stage (M12);
// empty if it may. An election record cannot be sealed: if somebody sets that phase by hand, it
// counts as dual.
func (s Stage) Bars(legacy Legacy) string {
	switch {
	case s.Phase == PhaseLegacy || s.Phase == PhaseDual:
	case s.Phase == PhaseSealed && legacy.Elected:
	default:
		return ""
	}
	return fmt.Sprintf("the phase on the Lease is %s, and this candidate knows the Lease alone: run it in mode auto", s.Phase)
}

// AnnotationLegacy names the legacy lock that is moved to a Lease, as
// [Legacy.String] writes it.
const AnnotationLegacy = "zonelect.dev/legacy-lock"

// Legacy is a lock that is moved to a Lease. The zero value is none.
type Legacy struct {
	// Resource is the kind of object that holds the lock: ConfigMaps or Endpoints.
	Resource string
	Name     string
	// Elected says that it is client-go's election record on an annotation, which expires.
	// Otherwise it is leader-for-life's.
	Elected bool
}

// The kinds of objects that hold a legacy lock.
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

// ParseLegacy reverses Legacy.String. Text that makes no sense is none.
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
