// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// TestKubectlFindsThePluginAndCompletesItsCommands: a real kubectl runs the plugin from the PATH,
// and asks kubectl_complete-zonelect, as the plugin itself prints it.
func TestKubectlFindsThePluginAndCompletesItsCommands(t *testing.T) {
	s := newShift(t, "op", 8*time.Minute)
	kubectl, err := testbed.BuildModule(s.ctx, "test/programs/kubectl", t.Output())
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(s.plugin.path, filepath.Join(dir, "kubectl-zonelect")))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", s.plugin.kubeconfig)
	k := kubectlBinary(kubectl)

	if said := k.run(t, s.ctx, "plugin", "list"); !strings.Contains(said, filepath.Join(dir, "kubectl-zonelect")) {
		t.Errorf("kubectl finds the plugins %s", said)
	}
	if words := k.complete(t, s.ctx, "zonelect", ""); slices.Contains(words, "status") {
		t.Errorf("kubectl completes with %q without kubectl_complete-zonelect", words)
	}
	program := k.run(t, s.ctx, "zonelect", "completion", "kubectl")
	must(t, os.WriteFile(filepath.Join(dir, "kubectl_complete-zonelect"), []byte(program), 0o700))

	verbs := k.complete(t, s.ctx, "zonelect", "")
	for _, verb := range []string{"status", "history", "doctor", "handover", "evacuate", "restore", "migrate", "version", "completion"} {
		if !slices.Contains(verbs, verb) {
			t.Errorf("kubectl zonelect TAB gives %q, without %s", verbs, verb)
		}
	}
	s.start(t, "za")
	s.leads(t, "op", time.Time{})
	if words := k.complete(t, s.ctx, "zonelect", "status", ""); !slices.Equal(words, []string{"op"}) {
		t.Errorf("kubectl zonelect status TAB gives %q", words)
	}
	if said := k.run(t, s.ctx, "zonelect", "status"); !strings.Contains(said, "op-za-1") {
		t.Errorf("kubectl zonelect status shows %s", said)
	}
}

// kubectlBinary is the path of a kubectl.
type kubectlBinary string

func (k kubectlBinary) run(t *testing.T, ctx context.Context, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, string(k), args...)
	out, err := cmd.Output()
	t.Logf("$ kubectl %q\n%s", args, out)
	if err != nil {
		t.Fatalf("kubectl %q: %v", args, err)
	}
	return string(out)
}

// complete returns the words that may come last in a command line.
func (k kubectlBinary) complete(t *testing.T, ctx context.Context, args ...string) (words []string) {
	t.Helper()
	for line := range strings.Lines(k.run(t, ctx, append([]string{"__complete"}, args...)...)) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if word != "" && !strings.HasPrefix(word, ":") { // a directive for the shell
			words = append(words, word)
		}
	}
	return words
}
