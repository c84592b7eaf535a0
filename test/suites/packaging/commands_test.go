// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

var (
	// elsewhere are the commands that other tests hold: those of the plugin, and those of package docs.
	elsewhere = regexp.MustCompile(`^(kubectl zonelect|go work (init|edit)|read|echo|date|break)\b`)
	// here are the others, and rare is what needs a program that is not on every machine.
	here = regexp.MustCompile(`^(kubectl|make|go (doc|get|install|mod|run|test|version|work)|git (checkout|config)|zonelect-sidecar|jq|sed|` +
		`printf|export|cd|sha256sum|tar|sudo install|exec kubectl-zonelect|python3|docker run|cosign (sign|verify)-blob|goreleaser release)\b`)
	rare = regexp.MustCompile(`^(jq|docker|cosign|goreleaser)\b`)

	// shown is a block between fences, an indented one, or a command within a sentence.
	shown = regexp.MustCompile("(?sm)^ *```(\\w*)\n(.*?)```|^\n((?: {4,}\\S[^\n]*\n)+)|`((?:[A-Z_]+=\\S+ )?" +
		"(?:kubectl|make|go|git|docker|cosign|goreleaser|curl|helm|jq|python3|export|cd|zonelect-sidecar) [^`]+)`")
	prompted = regexp.MustCompile(`(?m)^\$ .*\n`)
	shells   = []string{"", "console", "sh", "bash", "shell", "none"}
	noise    = regexp.MustCompile(`(?m)^ +|(?: +|^)#[^!].*$|^\$ |\\\n`)
	// data is how a block begins that no shell reads: a field or a call, a formula or SQL, an assignment of Go.
	data = regexp.MustCompile(`^[\w.]+[:(]|^[A-Z]\w* |^.* := `)
	// around are the words of a shell before and behind a command, and what is in quotes.
	around = regexp.MustCompile(`[A-Z_]+=\w*'[^']*'|'[^']*'|"[^"]*"|^#!.*|\bfor .* in [^;]*|\b(?:while|do|done|then|fi)\b|\bif ! |` +
		`\b[A-Z_]+=\S+|< ?\S+`)
	command = regexp.MustCompile(`[^|;&(){}\s][^|;&(){}\n]*`)
)

// scripts returns what a page shows for a shell.
func scripts(page string) (all []string) {
	for _, m := range shown.FindAllStringSubmatch(page, -1) {
		if m[1] == "console" {
			m[2] = strings.Join(prompted.FindAllString(m[2], -1), "")
		}
		text := noise.ReplaceAllString(m[2]+m[3], "") + strings.ReplaceAll(m[4], "\n", " ")
		if slices.Contains(shells, m[1]) && !data.MatchString(text) {
			all = append(all, text)
		}
	}
	return all
}

// trials say how a command is tried that would not end, change too much, or need what is not there.
var trials = [][2]string{
	{`https://github\.com/zonelect/zonelect//([\w/$-]+)\?ref=v[\d.]+`, "$1"},
	{`\b(LOCK|NODE)\b`, "op"},
	{`\bNS\b`, "default"},
	{`-k( DIRECTORY)?$`, "-k config/people/status"},
	{`--watch\b`, "--watch=false"},
	{` && `, "; "}, // set -e ends a script at the last of a list alone
	{`\bmake ([a-z ]+)([A-Z]+)=`, "grep -F '($2)' Makefile; make $1$2="},
	{`\bmake `, "make -n "},
	{`go test (.*)`, "go test $1 -list ."},
	{`go run (\S+/ordered) (.*)`, "go run '$1' $2 -list ."},
	{`go run (\./\S+) \S+ go run (\./\S+)`, "go build -o /dev/null $1 $2"},
	{`(?m)go run (\./\S+)$`, "go build -o /dev/null $1"},
	{`(?m)^(go run .* -- sh (\S+))$`, "sh -n $2\n$1"},
	{`(?m)go run (\./\S+ -.*?)( -- .*)?$`, "go run $1 --help"},
	{`go (?:get|install) (\.[\w/-]*|github\.com/zonelect/zonelect[\w/-]*)(@latest)?`, "go list $1"},
	{`go get (\S+@\S+)`, "go list -m $1"},
	{`^go (get|install|mod tidy|work (?:sync|vendor)|version)( -m)?$`, "go help $1 | grep -e '$2'"},
	{`git checkout `, `cd "$$(mktemp -d)"; git clone -qs "$$TOP" .; git checkout -q `},
	{`git config (\S+) .*`, "git help -c | grep -x $1"},
	{`docker run `, "docker run --help "},
	{`((?:cosign|goreleaser) .*)`, "$1 --help"},
	{`sha256sum `, `cd "$$RELEASE"; sha256sum `},
	{`sudo install (\S+) /usr/local/bin/`, `install -Dt "$$RELEASE/bin" $1`},
	{`^zonelect-sidecar (--\w+-[a-z-]+)$`, "go run ./cmd/zonelect-sidecar --help | grep -e '$1 '"},
	{`(?m)^zonelect-sidecar (?:\[flags\] )?(.*?)(-- .*)?$`, "go run ./cmd/zonelect-sidecar $1 --help"},
	{`python3 (\S+)`, `python3 -c "compile(open('$1').read(), '$1', 'exec')"`},
	{`^(kubectl (?:[a-z-]+ )*?([a-z-]+)(?: --[a-z]+)?)$`, "$1 --help | grep -w $2"}, // within a sentence, about nothing
}

// given is what the commands find: objects of a control plane, and a release.
const given = `
kubectl apply -f - <<END
{apiVersion: v1, kind: Node, metadata: {name: op}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: op}, spec: {holderIdentity: op, leaseDurationSeconds: 3600,
  renewTime: "$(date -u +%FT%T.000000Z)"}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: prometheusrules.monitoring.coreos.com}, spec: {
  group: monitoring.coreos.com, scope: Namespaced, names: {kind: PrometheusRule, plural: prometheusrules}, versions: [
  {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
END
kubectl wait --for condition=established crd prometheusrules.monitoring.coreos.com
cd "$RELEASE"
tar -czf kubectl-zonelect_v0.1.0_linux_amd64.tar.gz -C "$TOP/build/bin" kubectl-zonelect
sha256sum *.tar.gz >SHA256SUMS`

// onCluster returns where commands run: on a control plane, with Kubernetes' own kubectl.
func onCluster(t *testing.T, top string) place {
	_, kubectl := testbed.BuildTool(t.Context(), "test/programs/kubectl", ".", "kubectl")
	_, plugin := testbed.BuildProgram(t.Context(), "./cmd/kubectl-zonelect")
	must(t, errors.Join(kubectl, plugin))
	bed, err := testbed.Start(t.Context(), testbed.Config{
		Zones: []string{"za"}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true, Progress: t.Output(),
	})
	must(t, err)
	t.Cleanup(func() { must(t, bed.Close()) })
	return place{t: t, dir: top, env: []string{
		"KUBECONFIG=" + bed.Cluster.Kubeconfig("za"), "TOP=" + top, "RELEASE=" + t.TempDir(), "TMPDIR=" + t.TempDir(),
		"NAMESPACES=default", "PATH=" + filepath.Join(top, "build", "bin") + ":" + os.Getenv("PATH"),
	}}
}

// try runs a script as trials say. The arguments are for a script of completion.
func (p place) try(page, script string) {
	for _, trial := range trials {
		script = regexp.MustCompile(trial[0]).ReplaceAllString(script, trial[1])
	}
	if out, said, err := p.run([]string{"bash", "-euo", "pipefail", "-c", script, "bash", "status", ""}); err != nil {
		p.t.Errorf("%s: %v\n%s\n%s%s", page, err, script, out, said)
	}
}

// TestEveryCommandOfAPageIsTried on a control plane, unless another test holds it. With -short, only whether it would be.
func TestEveryCommandOfAPageIsTried(t *testing.T) {
	top, err := testbed.Root()
	must(t, err)
	p := place{t: t, dir: top}
	if !testing.Short() {
		p = onCluster(t, top)
		p.must("bash", "-euc", given)
	}
	all, held := 0, 0
	for _, page := range strings.Fields(p.must("git", "ls-files", "*.md")) {
		text, err := os.ReadFile(filepath.Join(top, page))
		must(t, err)
		for _, script := range scripts(string(text)) {
			todo := command.FindAllString(around.ReplaceAllString(script, ""), -1)
			all, held = all+len(todo), held+len(todo)
			todo = slices.DeleteFunc(todo, elsewhere.MatchString)
			for _, c := range todo {
				if _, err := exec.LookPath(strings.Fields(c)[0]); !here.MatchString(c) {
					t.Errorf("%s: nothing tries %q", page, c)
				} else if err != nil && rare.MatchString(c) {
					t.Logf("%s: not tried without the program: %s", page, c)
				} else {
					continue
				}
				held, script = held-1, ""
			}
			if len(todo) > 0 && !testing.Short() {
				p.try(page, script)
			}
		}
	}
	t.Logf("%d of %d commands", held, all)
	if all < 150 {
		t.Errorf("only %d commands were found", all)
	}
}
