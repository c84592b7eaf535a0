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

// AnnotationShared is on the Lease of a lock whose candidates are in an operator.Group, and has the
// Group's name, under which they announce themselves.
const AnnotationShared = "zonelect.dev/shared"

// AnnotationEvacuated holds locks.Record.Evacuated.
const AnnotationEvacuated = "zonelect.dev/evacuated-zones"

// MaxText is the longest text in the details, in bytes. A longer one counts as garbage: it
// reads as absent, and [Check] refuses to write it.
const MaxText = 1024

// readText returns value, or nothing if it counts as garbage.
func readText(value string) string {
	if len(value) > MaxText {
		return ""
	}
	return value
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
	name, uid, _ := strings.Cut(value, "/")
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

// formatNumber returns nothing for zero.
func formatNumber(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// ReadDetails returns the details in an object's annotations. It never fails: values that
// make no sense read as absent.
func ReadDetails(annotations map[string]string) locks.Details {
	text := func(key string) string { return readText(annotations[key]) }
	return locks.Details{
		Holder:      text(AnnotationHolder),
		Released:    parseNumber(annotations[AnnotationReleased]),
		Zone:        text(AnnotationZone),
		Node:        text(AnnotationNode),
		Pod:         parsePod(text(AnnotationPod)),
		ProcessLock: text(AnnotationProcessLock),
		Token:       parseNumber(annotations[AnnotationToken]),
		Nonce:       text(AnnotationNonce),
		Trace:       text(AnnotationTrace),
		Handover:    parseHandover(annotations[AnnotationHandover]),
		Request:     text(AnnotationRequest),
		Refused:     text(AnnotationRefused),
		Waits:       text(AnnotationWaits),
	}
}

// written returns the annotations that hold d; those of zero fields are empty.
func written(d locks.Details) map[string]string {
	return map[string]string{
		AnnotationHolder:      d.Holder,
		AnnotationReleased:    formatNumber(d.Released),
		AnnotationZone:        d.Zone,
		AnnotationNode:        d.Node,
		AnnotationPod:         d.Pod.String(),
		AnnotationProcessLock: d.ProcessLock,
		AnnotationToken:       formatNumber(d.Token),
		AnnotationNonce:       d.Nonce,
		AnnotationTrace:       d.Trace,
		AnnotationHandover:    formatHandover(d.Handover),
		AnnotationRequest:     d.Request,
		AnnotationRefused:     d.Refused,
		AnnotationWaits:       d.Waits,
	}
}

// WriteDetails sets or deletes our annotations in place and returns the map,
// which it makes if there is none.
func WriteDetails(annotations map[string]string, d locks.Details) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range written(d) {
		set(annotations, key, value)
	}
	return annotations
}
