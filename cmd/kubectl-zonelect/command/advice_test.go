// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

const repository = "../../.."

var (
	// quoted is a command in a text, and displayed one in a document or at the end of an error.
	quoted    = regexp.MustCompile(`'(kubectl [^'\n]+)'`)
	displayed = regexp.MustCompile("(?m)`(kubectl zonelect [^`]*)`|^    +(kubectl zonelect .*)$")
	// clone is a path that only a clone of the repository has, and page the address of a document.
	clone = regexp.MustCompile(`(?:^|[^\w/-])(?:config|docs)/[\w-]+`)
	page  = regexp.MustCompile(`https://github\.com/zonelect/zonelect/blob/main/([\w/.-]+\w)`)
	// asItIs tells people to apply what binds another account than theirs.
	asItIs = regexp.MustCompile(`(?i)apply \W*config/operator/(lease|events|zone|pod|annotation|leader-for-life|dead-nodes|mode-auto)`)
	// everywhere are the commands about what belongs to no namespace, or to all.
	everywhere = regexp.MustCompile(`^kubectl (get apiservices|get --raw|get nodes |create namespace |describe node |apply -k |zonelect (status -A))`)
)

// fault says why a command of a text cannot be run as it is; empty if it can.
func fault(t *testing.T, text string) string {
	t.Helper()
	text, _, _ = strings.Cut(text, "  ")
	text = regexp.MustCompile(` [|>#].*`).ReplaceAllString(text, "")
	text = strings.NewReplacer("%s", "1s", "%v", "1s", "%d", "1", "...", "x", "[", "", "]", "", `"`, "", "\\", "").Replace(text)
	args := strings.Fields(strings.TrimPrefix(text, "kubectl zonelect"))
	root := Root()
	c, rest, err := root.Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil && c != root && len(c.Flags().Args()) > 0 {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) && !strings.HasPrefix(err.Error(), "flag needs an argument") { // a document may name the flag alone
		return err.Error()
	}
	return ""
}

// hintsOf returns what the golden files say that people should do.
func hintsOf(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, mark := range []string{" -> ", ": to do: ", " grants that: "} {
				if _, hint, is := strings.Cut(line, mark); is {
					all = append(all, strings.TrimSuffix(hint, "\n"))
				}
			}
		}
	}
	return all
}

// literals are the texts in an expression. Those of calls are fit for fmt.
func literals(of ast.Node) (all []string) {
	ast.Inspect(of, func(n ast.Node) bool {
		if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// sources parses the Go files below a directory that are not tests.
func sources(t *testing.T, dir string, do func(name string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != dir && (entry.Name() == "test" || entry.Name() == "build" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err == nil {
			do(name, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// controls makes a pod, as kind/name, that of a controller. A ReplicaSet ends in its hash.
func controls(controller string, changes ...func(*corev1.Pod)) func(*corev1.Pod, *corev1.Node) {
	return func(pod *corev1.Pod, _ *corev1.Node) {
		kind, name, _ := strings.Cut(controller, "/")
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "uid", Controller: ptr.To(true)}}
		if i := strings.LastIndex(name, "-"); kind == "ReplicaSet" && i > 0 {
			pod.Labels = map[string]string{"pod-template-hash": name[i+1:]}
		}
		for _, change := range changes {
			change(pod)
		}
	}
}

// TestDoctorsRarerHints: each scene has several. TestDoctorFindsWhatIsWrong has the others.
func TestDoctorsRarerHints(t *testing.T) {
	phase := func(p record.Phase) func(*coordinationv1.Lease) { return phased(p, 2) }
	for name, breaks := range map[string]func(*world){
		"lonely": func(w *world) {
			w.deletePod("op-b")
			w.deletePod("op-c")
			w.putLease(led(func(l *coordinationv1.Lease) {
				l.Annotations[record.AnnotationPod] = ""
				l.DeletionTimestamp, l.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/hold"}
			}))
		},
		"new": func(w *world) {
			w.putLease(newLease("op", "", "za", func(l *coordinationv1.Lease) { l.Annotations, l.Spec.AcquireTime = nil, nil }))
		},
		"future": func(w *world) {
			w.putLease(led(renewed(-time.Hour)))
		},
		"condemned": func(w *world) {
			w.putLease(led(phase(record.PhaseDual)))
			w.putConfigMap("op", nil)
			w.server.Change(mapsPath+"op", func(o apitest.Object) {
				meta := o["metadata"].(apitest.Object)
				meta["deletionTimestamp"], meta["finalizers"] = time.Now().UTC().Format(time.RFC3339), []any{"example.com/hold"}
			})
		},
		"foreign": func(w *world) {
			w.putLease(led(phase(record.PhaseDual)))
			w.putConfigMap("op", nil, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"})
		},
		"beside": func(w *world) {
			w.putLease(led(phase(record.PhaseClean)))
			w.hosts("old-0", "za")
			w.putConfigMap("op", nil, byPod("old-0"))
		},
		"rolled-back": func(w *world) {
			w.putLease(newLease("op", "", "za", phase(record.PhaseLegacy), releasedBy(time.Minute)))
			w.hosts("old-0", "za")
			w.putConfigMap("op", nil, byPod("old-0"))
		},
		"record": func(w *world) {
			w.putLease(led(phase(record.PhaseDual), func(l *coordinationv1.Lease) { l.Annotations["zonelect.dev/legacy-lock"] = "annotation/endpoints/op" }))
			w.elects("old")
		},
		"scaffold": func(w *world) { // as kubebuilder makes it, scaled up
			for pod, zone := range map[string]string{"op-a": "za", "op-b": "zb", "op-c": "zc"} {
				w.announce("op", pod, zone, "", inModeLease, func(o *presence.Object) { o.Stop = "30s" })
				w.hosts(pod, zone, controls("ReplicaSet/op-6c5f8", func(pod *corev1.Pod) {
					pod.Labels["control-plane"] = "controller-manager"
					pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(10))
				}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.well()
				breaks(w)
				golden(t, "hint-"+name, w.run("doctor", "op"))
			})
		})
	}
}

// TestEveryHintCanBeFollowed by somebody who has the plugin alone, in whatever namespace he is: its
// commands are there, with the namespace that they are about, and it names no file of a clone.
func TestEveryHintCanBeFollowed(t *testing.T) {
	hints := hintsOf(t)
	for _, hint := range hints {
		for _, command := range quoted.FindAllStringSubmatch(hint, -1) {
			if !everywhere.MatchString(command[1]) && !strings.Contains(command[1], " -n ") {
				t.Errorf("%q names no namespace", command[1])
			}
			if strings.HasPrefix(command[1], "kubectl zonelect") {
				if fault := fault(t, command[1]); fault != "" {
					t.Errorf("%s: %s", command[1], fault)
				}
			}
		}
		for _, link := range page.FindAllStringSubmatch(hint, -1) {
			if _, err := os.Stat(filepath.Join(repository, link[1])); err != nil {
				t.Error(err)
			}
		}
		if path := clone.FindString(hint); path != "" {
			t.Errorf("%q names %q", hint, path)
		}
	}
}

// TestEveryTextNamesCommandsThatThereAre: in the code, its help, and the documents.
func TestEveryTextNamesCommandsThatThereAre(t *testing.T) {
	n := 0
	check := func(name, command string) {
		if n++; strings.HasPrefix(command, "kubectl zonelect") {
			if fault := fault(t, command); fault != "" {
				t.Errorf("%s: %s: %s", name, command, fault)
			}
		}
	}
	inText := func(name, text string) {
		for _, all := range [][][]string{quoted.FindAllStringSubmatch(text, -1), displayed.FindAllStringSubmatch(text, -1)} {
			for _, found := range all {
				check(name, strings.Join(found[1:], ""))
			}
		}
	}
	sources(t, repository, func(name string, file *ast.File) {
		for _, text := range literals(file) {
			inText(name, text)
			tool := strings.Contains(name, "pictures") || strings.Contains(name, "examples/")
			if path := clone.FindString(page.ReplaceAllString(text, "")); path != "" && !tool && strings.Contains(text, " ") {
				t.Errorf("%s: %q names %q, which only a clone has", name, text, path)
			}
		}
	})
	documents, err := filepath.Glob(repository + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(documents, repository+"/README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		inText(name, string(text))
		if applied := asItIs.FindString(string(text)); applied != "" {
			t.Errorf("%s: %q is for the service account my-operator alone", name, applied)
		}
	}
	if n < 50 {
		t.Errorf("only %d commands were found", n)
	}
}
