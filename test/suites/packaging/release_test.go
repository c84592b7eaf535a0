// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

const (
	version = "v0.1.0"
	library = "github.com/zonelect/zonelect"
)

func TestANewcomerCanUseWhatAReleaseTags(t *testing.T) {
	c := clone(t)
	for _, tag := range strings.Fields(c.must(".ci/tag", version)) {
		t.Log(tag)
	}
	u := newcomer(t, proxy(t, c))
	readme, err := os.ReadFile(filepath.Join(c.dir, "README.md"))
	must(t, err)
	for _, step := range installing(t, readme) {
		u.must(step...)
	}
	u.must("go", "list", "-m", library+"@"+version) // what an unversioned go get has chosen

	t.Run("the smallest program", func(t *testing.T) {
		source, err := os.ReadFile(filepath.Join(c.dir, "examples/minimal/main.go"))
		must(t, err)
		u.write("minimal/main.go", string(source))
		u.must("go", "build", "-o", u.bin("minimal"), "./minimal")
		_, said, err := u.run([]string{u.bin("minimal")})
		if err == nil || !strings.Contains(strings.ToLower(said), "kubeconfig") {
			t.Errorf("without a cluster it ended with %v and said:\n%s", err, said)
		}
	})
	t.Run("an operator as kubebuilder generates it", func(t *testing.T) {
		source, err := os.ReadFile(filepath.Join(c.dir, "examples/kubebuilder/after/main.go"))
		must(t, err)
		u.write("manager/main.go", string(source))
		u.must("go", "get", "./manager")
		u.must("go", "build", "-o", u.bin("manager"), "./manager")
		if _, help, err := u.run([]string{u.bin("manager"), "--help"}); err != nil || !strings.Contains(help, "-leader-elect") {
			t.Errorf("--help: %v\n%s", err, help)
		}
	})
	t.Run("metrics for Prometheus, and client-go's names", func(t *testing.T) {
		for _, module := range []string{"/operator/prometheus", "/operator/leaderelection"} {
			u.must("go", "get", library+module+"@"+version)
			u.must("go", "build", library+module)
		}
	})
	t.Run("every module is required in the version of the release", func(t *testing.T) {
		modules := u.must("go", "list", "-m", "-f", "{{.Path}} {{.Version}} {{with .Replace}}replaced{{end}}", "all")
		own := regexp.MustCompile(`(?m)^`+library+`.*$`).FindAllString(modules, -1)
		if len(own) != 5 { // the plugin is installed, not required
			t.Errorf("the newcomer requires %q", own)
		}
		for _, module := range own {
			if !strings.HasSuffix(module, " "+version+" ") {
				t.Error(module)
			}
		}
	})
	t.Run("the sidecar", func(t *testing.T) {
		u.must("go", "install", library+"/cmd/zonelect-sidecar@"+version)
		if help := u.must(u.bin("zonelect-sidecar"), "--help"); !strings.Contains(help, "zonelect-sidecar [flags]") {
			t.Errorf("--help:\n%s", help)
		}
	})
	t.Run("the plugin", func(t *testing.T) {
		if help := u.must(u.bin("kubectl-zonelect"), "--help"); !strings.Contains(help, "kubectl zonelect") {
			t.Errorf("--help:\n%s", help)
		}
		if says := u.must("go", "version", "-m", u.bin("kubectl-zonelect")); !strings.Contains(says, "cmd/kubectl-zonelect\t"+version) {
			t.Errorf("it was built from:\n%s", says)
		}
	})
}

// place is a directory, and the environment in which commands run there.
type place struct {
	t   *testing.T
	dir string
	env []string
}

// must runs a command and returns what it printed on stdout. The test ends if it fails.
func (p place) must(command ...string) string {
	p.t.Helper()
	stdout, stderr, err := p.run(command)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, stdout, stderr)
	}
	return stdout
}

func (p place) run(command []string) (stdout, stderr string, err error) {
	var out, complaints strings.Builder
	c := exec.CommandContext(p.t.Context(), command[0], command[1:]...)
	if strings.HasPrefix(command[0], ".") {
		c.Path = filepath.Join(p.dir, command[0])
	}
	c.Dir, c.Env, c.Stdout, c.Stderr = p.dir, append(os.Environ(), p.env...), &out, &complaints
	err = c.Run()
	return out.String(), complaints.String(), err
}

func (p place) bin(name string) string { return filepath.Join(p.dir, "bin", name) }

func (p place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// clone returns a clone of the repository at its newest commit, without tags. It skips the test
// under -short, as make unit runs it.
func clone(t *testing.T) place {
	t.Helper()
	if testing.Short() {
		t.Skip("make packaging runs it")
	}
	root, err := testbed.Root()
	must(t, err)
	c := place{t: t, dir: filepath.Join(t.TempDir(), "zonelect"), env: []string{
		"GIT_AUTHOR_NAME=r", "GIT_AUTHOR_EMAIL=r@example.com", "GIT_COMMITTER_NAME=r", "GIT_COMMITTER_EMAIL=r@example.com",
	}}
	place{t: t, dir: root}.must("git", "clone", "-q", "--no-tags", root, c.dir)
	return c
}

// outside returns a directory outside of the repository, in which Go has an empty module cache.
func outside(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	return place{t: t, dir: dir, env: []string{
		"GOWORK=off", "GOMODCACHE=" + filepath.Join(dir, "modules"), "GOBIN=" + filepath.Join(dir, "bin"),
		// Without paths, the build cache knows dependencies from one run to the next.
		"GOFLAGS=-trimpath -modcacherw",
		"KUBECONFIG=" + filepath.Join(dir, "no-kubeconfig"), "KUBERNETES_SERVICE_HOST=",
	}}
}

// fromTags lets Go fetch the modules of zonelect from the tags of the clone, as from github.com.
func (p place) fromTags(c place) place {
	p.env = append(p.env,
		"GOPRIVATE="+library, // neither from a proxy nor past a checksum
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_VALUE_0=https://"+library,
		fmt.Sprintf("GIT_CONFIG_KEY_0=url.file://%s.insteadOf", filepath.ToSlash(c.dir)))
	return p
}

// proxy returns a directory that is a module proxy for the tags of the clone: Go's download cache
// has the layout of one.
func proxy(t *testing.T, c place) string {
	t.Helper()
	p := outside(t).fromTags(c)
	for _, module := range strings.Fields(c.must(".ci/published")) {
		p.must("go", "mod", "download", path.Join(library, module)+"@"+version)
	}
	return filepath.ToSlash(filepath.Join(p.dir, "modules", "cache", "download"))
}

// newcomer returns a new module outside of the repository, with an empty module cache and a proxy
// that has the release.
func newcomer(t *testing.T, proxy string) place {
	t.Helper()
	u := outside(t)
	u.env = append(u.env, "GOPROXY=file://"+proxy+","+strings.TrimSpace(u.must("go", "env", "GOPROXY")), "GONOSUMDB="+library)
	u.must("go", "mod", "init", "example.com/newcomer")
	return u
}

var step = regexp.MustCompile(`(?m)^    (go (?:get|install) ` + library + `\S*)`)

// installing returns the commands by which a README installs zonelect.
func installing(t *testing.T, readme []byte) (steps [][]string) {
	t.Helper()
	for _, s := range step.FindAllStringSubmatch(string(readme), -1) {
		steps = append(steps, strings.Fields(s[1]))
	}
	if len(steps) < 3 { // the library, its manager, the plugin
		t.Fatalf("the README says to run %q", steps)
	}
	return steps
}
