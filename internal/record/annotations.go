// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// The annotations that hold locks.Details.
const (
	AnnotationHolder   = "zonelect.dev/holder"
	AnnotationReleased = "zonelect.dev/released"
	AnnotationZone     = "zonelect.dev/zone"
	AnnotationNode     = "zonelect.dev/node"
	AnnotationPod      = "zonelect.dev/pod"
	// AnnotationProcessLock proves the death of a holder.
	AnnotationProcessLock = "zonelect.dev/process-lock"
	// AnnotationToken is the fencing token of the holder's term. For its promises see
	// locks.Details.Token, and S8 and S11 in docs/design.md. The first renewal of a term
	// writes it.
	AnnotationToken = "zonelect.dev/token" //nolint:gosec // G101: a fencing token is a number that all may read, no credential
	// AnnotationNonce tells processes of one identity apart.
	AnnotationNonce = "zonelect.dev/nonce"
	AnnotationTrace = "zonelect.dev/trace"
	// AnnotationHandover is JSON: to, an identity, and precedenceMs.
	AnnotationHandover = "zonelect.dev/handover"
	AnnotationRequest  = "zonelect.dev/handover-request"
	AnnotationRefused  = "zonelect.dev/handover-refused"
	AnnotationWaits    = "zonelect.dev/waiting-for"
)

// The annotations of a shield, besides those of its stage. Each of them marks a ConfigMap as
// zonelect's.
const (
	// AnnotationShieldArmed is the UID of the ConfigMap once it is armed, so that a copy that
	// somebody restores is not armed.
	AnnotationShieldArmed = "zonelect.dev/shield-armed"
	// AnnotationLegacyPods lists the legacy pods that candidates have seen lead, as JSON: an
	// array of objects with a name and a uid.
	AnnotationLegacyPods = "zonelect.dev/legacy-pods"
	// AnnotationPresumedGone lists those that count as gone without proof, in the same form.
	AnnotationPresumedGone = "zonelect.dev/presumed-gone"
)

// MaxLegacyPods bounds each list of legacy pods on a shield. The oldest are dropped.
const MaxLegacyPods = 100

// AnnotationShared is on a lock's Lease whose candidates announce themselves under another
// name than the lock's: that of their operator.Group.
const AnnotationShared = "zonelect.dev/shared"

// Shared returns a function that notes in the annotations of a lock's Lease under which name its
// candidates announce themselves.
func Shared(group, lock string) func(annotations map[string]string) map[string]string {
	if group == lock {
		group = ""
	}
	return func(annotations map[string]string) map[string]string {
		if annotations == nil {
			annotations = map[string]string{}
		}
		set(annotations, AnnotationShared, group)
		return annotations
	}
}

// AnnotationEvacuated holds locks.Record.Evacuated.
const AnnotationEvacuated = "zonelect.dev/evacuated-zones"

// MaxText is the longest text in the details, in bytes. A longer one counts as garbage: it
// reads as absent, and [Check] refuses to write it.
const MaxText = 1024

// field ties one annotation to one field of the details. Exactly one of the
// pointers is set.
type field struct {
	key      string
	text     *string
	number   *uint64
	handover *locks.Handover
	pod      *locks.Pod
}

// fields lists every annotation of d. Reading and writing both walk this list,
// so that neither can forget one.
func fields(d *locks.Details) []field {
	return []field{
		{key: AnnotationHolder, text: &d.Holder},
		{key: AnnotationReleased, number: &d.Released},
		{key: AnnotationZone, text: &d.Zone},
		{key: AnnotationNode, text: &d.Node},
		{key: AnnotationPod, pod: &d.Pod},
		{key: AnnotationProcessLock, text: &d.ProcessLock},
		{key: AnnotationToken, number: &d.Token},
		{key: AnnotationNonce, text: &d.Nonce},
		{key: AnnotationTrace, text: &d.Trace},
		{key: AnnotationHandover, handover: &d.Handover},
		{key: AnnotationRequest, text: &d.Request},
		{key: AnnotationRefused, text: &d.Refused},
		{key: AnnotationWaits, text: &d.Waits},
	}
}

// decode sets the field from an annotation's value; garbage leaves it zero.
func (f field) decode(value string) {
	switch {
	case f.number != nil:
		*f.number = parseNumber(value)
	case f.handover != nil:
		*f.handover = parseHandover(value)
	case f.pod != nil:
		*f.pod = parsePod(value)
	default:
		*f.text = readText(value)
	}
}

// readText returns value, or nothing if it counts as garbage.
func readText(value string) string {
	if len(value) > MaxText {
		return ""
	}
	return value
}

// encode returns the annotation's value, empty for a zero field.
func (f field) encode() string {
	switch {
	case f.text != nil:
		return *f.text
	case f.handover != nil:
		return formatHandover(*f.handover)
	case f.pod != nil:
		return f.pod.String()
	case *f.number == 0:
		return ""
	default:
		return strconv.FormatUint(*f.number, 10)
	}
}

// handover is the JSON of a locks.Handover.
type handover struct {
	To           string `json:"to"`
	PrecedenceMs int64  `json:"precedenceMs"`
}

// formatHandover returns nothing if nobody is named.
func formatHandover(h locks.Handover) string {
	if h.To == "" {
		return ""
	}
	text, _ := json.Marshal(handover{h.To, max(0, h.Precedence.Milliseconds())}) // text and a number are always JSON
	return string(text)
}

// parseHandover reverses formatHandover.
func parseHandover(s string) locks.Handover {
	var h handover
	const most, escaped = math.MaxInt64 / int64(time.Millisecond), 6 // bytes for one
	if len(s) > escaped*MaxText+64 || json.Unmarshal([]byte(s), &h) != nil ||
		h.To == "" || len(h.To) > MaxText || h.PrecedenceMs <= 0 || h.PrecedenceMs > most {
		return locks.Handover{}
	}
	return locks.Handover{To: h.To, Precedence: time.Duration(h.PrecedenceMs) * time.Millisecond}
}

// parsePod returns the pod whose String is value.
func parsePod(value string) locks.Pod {
	name, uid, _ := strings.Cut(readText(value), "/")
	if name == "" || uid == "" {
		return locks.Pod{}
	}
	return locks.Pod{Name: name, UID: uid}
}

// parseNumber returns zero for anything but the canonical decimal form, so
// that one number has one spelling.
func parseNumber(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0
	}
	return n
}

// ReadDetails returns the details in an object's annotations. It never fails: values that
// make no sense read as absent.
func ReadDetails(annotations map[string]string) locks.Details {
	var d locks.Details
	for _, f := range fields(&d) {
		f.decode(annotations[f.key])
	}
	return d
}

// WriteDetails sets or deletes our annotations in place and returns the map,
// which it makes if there is none and one is needed.
func WriteDetails(annotations map[string]string, d locks.Details) map[string]string {
	for _, f := range fields(&d) {
		value := f.encode()
		if annotations == nil && value != "" {
			annotations = make(map[string]string)
		}
		set(annotations, f.key, value)
	}
	return annotations
}
