// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/internal/doctest"
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
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range installing(t, readme) {
		u.must(step...)
	}
	u.must("go", "list", "-m", library+"@"+version) // what an unversioned go get has chosen

	t.Run("the README's program", func(t *testing.T) {
		u.write("readme/main.go", doctest.ReadmesProgram(t, readme))
		u.must("go", "build", "-o", u.bin("readme"), "./readme")
		if said := u.fails(u.bin("readme")); !strings.Contains(said, "KUBECONFIG") && !strings.Contains(said, "kubeconfig") {
			t.Errorf("without a cluster it said:\n%s", said)
		}
	})
	t.Run("an operator as kubebuilder generates it", func(t *testing.T) {
		source, err := os.ReadFile(filepath.Join(c.dir, "examples/kubebuilder/after/main.go"))
		if err != nil {
			t.Fatal(err)
		}
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
		if says := u.must(u.bin("zonelect-sidecar"), "--version"); !strings.HasPrefix(says, "zonelect-sidecar "+version+" ") {
			t.Errorf("it says %s", says)
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

func TestNoPublishedModuleHasAReplaceDirective(t *testing.T) {
	root, err := testbed.Root()
	if err != nil {
		t.Fatal(err)
	}
	top := place{t: t, dir: root}
	for _, module := range strings.Fields(top.must(".ci/published")) {
		if text := top.must("go", "mod", "edit", "-json", filepath.Join(module, "go.mod")); !strings.Contains(text, `"Replace": null`) {
			t.Errorf("%s has a replace directive: go install would refuse it", module)
		}
	}
}

func TestAReplaceDirectiveIsNotReleased(t *testing.T) {
	c := clone(t)
	for _, module := range strings.Fields(c.must(".ci/published")) {
		file := filepath.Join(module, "go.mod")
		c.must("go", "mod", "edit", "-replace="+library+"=../..", file)
		c.must("git", "commit", "-qam", "replace again")
		if said := c.fails(".ci/tag", version); !strings.Contains(said, file+" has a replace") {
			t.Errorf("%s: .ci/tag said:\n%s", module, said)
		}
		c.must("git", "reset", "-q", "--hard", "HEAD~")
	}
	if tags := c.must("git", "tag"); tags != "" {
		t.Errorf("there are tags:\n%s", tags)
	}
}

// TestGoInstallRefusesAReplaceDirective is why: tags that were made by hand would not do.
func TestGoInstallRefusesAReplaceDirective(t *testing.T) {
	c := clone(t)
	c.must("go", "mod", "edit", "-replace="+library+"=../..", "cmd/kubectl-zonelect/go.mod")
	c.must("git", "commit", "-qam", "replace again")
	c.must("git", "tag", "cmd/kubectl-zonelect/"+version)
	u := outside(t).fromTags(c)
	u.env = append(u.env, "GOPROXY=off") // it gets no further than that
	if said := u.fails("go", "install", library+"/cmd/kubectl-zonelect@"+version); !strings.Contains(said, "replace directives") {
		t.Errorf("go install said:\n%s", said)
	}
}

func TestTheSameVersionIsNotReleasedTwiceNorOneThatIsNone(t *testing.T) {
	c := clone(t)
	c.must(".ci/tag", version)
	for given, want := range map[string]string{version: "exists", "1.0": "no version", "": "no version"} {
		if said := c.fails(".ci/tag", given); !strings.Contains(said, want) {
			t.Errorf(".ci/tag %q said:\n%s", given, said)
		}
	}
	c.must("git", "commit", "-q", "--allow-empty", "-m", "later")
	c.must(".ci/tag", "v0.2.0")
	for _, module := range strings.Fields(c.must(".ci/published")) {
		raw, err := os.ReadFile(filepath.Join(c.dir, module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(library + `\S* ` + version).Match(raw) {
			t.Errorf("%s still requires %s:\n%s", module, version, raw)
		}
	}
	if dirty := c.must("git", "status", "--porcelain"); dirty != "" {
		t.Errorf("not committed:\n%s", dirty)
	}
}

// TestIfATagCannotBeMadeNoneIs: otherwise the next attempt would find the version released.
func TestIfATagCannotBeMadeNoneIs(t *testing.T) {
	c := clone(t)
	c.must("git", "tag", "operator") // git then refuses operator/ctrlruntime/v0.1.0
	if said := c.fails(".ci/tag", version); !strings.Contains(said, "operator/ctrlruntime/"+version) {
		t.Errorf("it said:\n%s", said)
	}
	if tags := strings.Fields(c.must("git", "tag")); len(tags) != 1 {
		t.Errorf("there are the tags %q", tags)
	}
}

// TestTheRecipeOfTheSidecarsImageBuildsAStaticProgram, for an image that has nothing else but the
// list of its modules. It knows its version. The test runs the recipe's commands; the image itself
// wants a container engine.
func TestTheRecipeOfTheSidecarsImageBuildsAStaticProgram(t *testing.T) {
	c := clone(t)
	recipe, err := os.ReadFile(filepath.Join(c.dir, "cmd/zonelect-sidecar/Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile(`(?m)^ENV (.+)$`).FindStringSubmatch(string(recipe))
	steps := regexp.MustCompile(`(?m)^RUN (.+)$`).FindAllStringSubmatch(string(recipe), -1)
	if settings == nil || steps == nil || !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).Match(recipe) {
		t.Fatalf("the recipe sets nothing, builds nothing, or names no user:\n%s", recipe)
	}
	image := t.TempDir() // stands in for the image's root
	root := strings.NewReplacer("=/", "="+image+"/", " /", " "+image+"/", ">/", ">"+image+"/")
	c.env = append(c.env, strings.Fields(root.Replace(settings[1]))...)
	c.env = append(c.env, "VERSION=v9.8.7", "GOTOOLCHAIN=local") // its compiler would be another download and build
	for _, step := range steps {
		c.must("sh", "-c", root.Replace(" "+step[1]))
	}
	program := filepath.Join(image, "zonelect-sidecar")
	if runtime.GOOS == "linux" {
		if said := c.must(program, "--version"); !strings.HasPrefix(said, "zonelect-sidecar v9.8.7 (go1.") {
			t.Errorf("it says %q", said)
		}
	}
	list, err := os.ReadFile(program + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"CycloneDX"`, `"k8s.io/client-go"`, `"name": "` + library + `/cmd/zonelect-sidecar",
      "version": "v9.8.7"`} {
		if !strings.Contains(string(list), want) || strings.Contains(string(list), "(devel)") {
			t.Errorf("the list of its modules has no %s, or does not know a version", want)
		}
	}
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it needs a %v, which the image does not have", p.Type)
		}
	}
}

// TestWhatRunsForUsIsPinned: a tag of an action or of an image may be moved, a commit and a digest
// may not.
func TestWhatRunsForUsIsPinned(t *testing.T) {
	c := clone(t)
	action := regexp.MustCompile(`uses: (\S+)(.*)`)
	image := regexp.MustCompile(`(?m)(?:image: "?|^FROM )([^\s"]+)`)
	found := 0
	for _, file := range strings.Fields(c.must("git", "ls-files", ".github/workflows", "*Containerfile", "*Dockerfile")) {
		text, err := os.ReadFile(filepath.Join(c.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range action.FindAllStringSubmatch(string(text), -1) {
			if found++; !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(use[1]) || !strings.HasPrefix(use[2], " # v") {
				t.Errorf("%s: %s is not the commit of a version that is noted", file, use[0])
			}
		}
		for _, from := range image.FindAllStringSubmatch(string(text), -1) {
			if found++; from[1] != "scratch" && !regexp.MustCompile(`@sha256:[0-9a-f]{64}$`).MatchString(from[1]) {
				t.Errorf("%s: %s has no digest", file, from[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d actions and images were found", found)
	}
}

// TestOneGoCompilesARelease: the one that make vuln asks about.
func TestOneGoCompilesARelease(t *testing.T) {
	c := clone(t)
	var all []string
	for _, file := range []string{"Makefile", "cmd/kubectl-zonelect/dist/build.go", "cmd/zonelect-sidecar/Containerfile"} {
		text, err := os.ReadFile(filepath.Join(c.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?:RELEASE_GO := |GOTOOLCHAIN=)(go1\S+?)["\s]`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s names no Go", file)
		}
		all = append(all, string(found[1]))
	}
	if all[0] != all[1] || all[0] != all[2] {
		t.Errorf("a release is compiled with %q", all)
	}
}

// TestAReleaseBreaksOnlyWhatItsVersionAllows compares the exported API with that of a tag.
func TestAReleaseBreaksOnlyWhatItsVersionAllows(t *testing.T) {
	c := clone(t)
	c.must(".ci/tag", version)
	c.write("zone/added.go", "package zone\n\n// Added is new.\nfunc Added() {}\n")
	c.must("git", "add", "-A")
	c.must("git", "commit", "-qm", "an addition")
	if said := c.must(".ci/api", "v0.1.1"); !strings.Contains(said, "Added: added") {
		t.Errorf("of an addition it said:\n%s", said)
	}
	c.must("git", "rm", "-q", "operator/ctrlruntime/*.go")
	c.write("operator/ctrlruntime/manager.go", "package ctrlruntime\n")
	c.must("git", "add", "-A")
	c.must("git", "commit", "-qm", "a break in a nested module")
	if said := c.fails(".ci/api", "v0.1.1"); !strings.Contains(said, "v0.1.1 may not break what used v0.1.0, and it does in: operator/ctrlruntime") {
		t.Errorf("of a break in a patch it said:\n%s", said)
	}
	if said := c.must(".ci/api", "v0.2.0"); !strings.Contains(said, "removed") {
		t.Errorf("of a break in a minor version it said:\n%s", said)
	}
}

// TestWhatIsNotReadyIsNotReleased runs .ci/release with a make that only notes what it should check.
func TestWhatIsNotReadyIsNotReleased(t *testing.T) {
	original := clone(t)
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "make"), []byte(fakeMake), 0o700); err != nil {
		t.Fatal(err)
	}
	original.env = append(original.env, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	newest := strings.TrimSpace(original.must("git", "rev-parse", "HEAD"))
	noted := func(c *place) {
		c.write("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- All of it.\n")
		c.write("README.md", "# zonelect\n")
		c.must("sed", "-i", "/Nothing is released yet/d", "docs/adopt-kubebuilder.md", "docs/install.md", "docs/sidecar.md")
	}
	for name, tc := range map[string]struct {
		version string
		change  func(*place)
		want    string // what it says; "" if it releases
	}{
		"no version":             {"", noted, "needs a version"},
		"no stable version":      {"v0.1.0-rc.1", noted, "needs a version"},
		"nothing in CHANGELOG":   {version, func(c *place) { noted(c); c.write("CHANGELOG.md", "## [Unreleased]\n") }, "CHANGELOG.md has no section"},
		"a change left over":     {version, func(c *place) { noted(c); c.write("CHANGELOG.md", leftOver) }, "below \"Unreleased\""},
		"a README from before":   {version, func(c *place) { noted(c); c.write("README.md", "Nothing is released yet.\n") }, "README.md:1:Nothing is released yet"},
		"another branch":         {version, func(c *place) { c.must("git", "checkout", "-qb", "topic"); noted(c) }, "neither main nor release-0.1"},
		"another release branch": {version, func(c *place) { c.must("git", "checkout", "-qB", "release-0.2"); noted(c) }, "neither main nor release-0.1"},
		"an older version":       {version, func(c *place) { noted(c); c.must("git", "tag", "v0.2.0") }, "v0.2.0 is released already"},
		"the same version":       {version, func(c *place) { noted(c); c.must("git", "tag", version) }, "v0.1.0 is released already"},
		"a test that fails":      {version, func(c *place) { noted(c); c.env = append(c.env, "MAKE_FAILS=1") }, "make failed"},
		"all is as it should be": {version, noted, ""},
		"a fix for a minor release before": {"v0.1.1", func(c *place) {
			c.must("git", "tag", version)
			c.must("git", "commit", "-q", "--allow-empty", "-m", "the next minor release")
			c.must("git", "tag", "v0.2.0")
			c.must("git", "checkout", "-qB", "release-0.1", version)
			noted(c)
			c.write("CHANGELOG.md", "## [0.1.1] - 2026-12-02\n")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := original
			c.must("git", "checkout", "-qB", "main", newest)
			c.must("sh", "-c", "git tag | xargs -r git tag -d")
			tc.change(&c)
			c.must("git", "add", "-A")
			c.must("git", "commit", "-q", "--allow-empty", "-m", "changed")
			before := c.must("git", "tag")
			if tc.want != "" {
				if said := c.fails(".ci/release", tc.version); !strings.Contains(said, tc.want) {
					t.Errorf("it said:\n%s", said)
				}
				if after := c.must("git", "tag"); after != before {
					t.Errorf("there are tags:\n%s", after)
				}
				return
			}
			there := c.must("git", "ls-remote", "origin")
			said := c.must(".ci/release", tc.version)
			branch := strings.TrimSpace(c.must("git", "branch", "--show-current"))
			for _, want := range []string{"checked: check test packaging floor", "git push --atomic origin " + branch + " " + tc.version + " cmd/kubectl-zonelect/" + tc.version + " "} {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in what it said:\n%s", want, said)
				}
			}
			if now := c.must("git", "ls-remote", "origin"); now != there {
				t.Errorf("it has pushed:\n%s", now)
			}
		})
	}
}

const leftOver = "## [Unreleased]\n\n- A change.\n\n## [0.1.0] - 2026-12-01\n"

const fakeMake = `#!/bin/sh
[ -z "$MAKE_FAILS" ] || { echo make failed; exit 2; }
echo "checked: $*"
`

func TestATreeWithChangesIsNotReleased(t *testing.T) {
	c := clone(t)
	c.must("git", "checkout", "-qB", "main") // CI may test another branch
	c.write("left.txt", "not committed\n")
	for _, script := range []string{".ci/release", ".ci/tag"} {
		if said := c.fails(script, version); !strings.Contains(said, "not committed") {
			t.Errorf("%s said:\n%s", script, said)
		}
	}
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

// fails runs a command that has to fail, and returns what it said.
func (p place) fails(command ...string) string {
	p.t.Helper()
	stdout, stderr, err := p.run(command)
	if err == nil {
		p.t.Fatalf("%s: it did not fail", strings.Join(command, " "))
	}
	return stdout + stderr
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
	if err != nil {
		t.Fatal(err)
	}
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
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_VALUE_0=https://"+library, fmt.Sprintf("GIT_CONFIG_KEY_0=url.file://%s.insteadOf", filepath.ToSlash(c.dir)))
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
