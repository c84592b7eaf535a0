// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// home is where releases are made.
var home string

func TestMain(m *testing.M) {
	var err error
	if home, err = os.MkdirTemp("", "zonelect-packaging-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(home) // it harms nobody
	os.Exit(code)
}

// makeIn makes a release from a clone of a repository's last commit below home, as a script
// that sees that environment, and returns the directory of its files. ZONELECT_PLATFORMS makes
// it for some platforms alone.
func makeIn(t *testing.T, repository, clone, script string, env ...string) string {
	t.Helper()
	clone = filepath.Join(home, clone)
	place{t: t, dir: home}.must("git", "clone", "-q", repository, clone)
	script += "go run ./dist"
	if p := os.Getenv("ZONELECT_PLATFORMS"); p != "" {
		script += " -platforms " + p
	}
	place{t, filepath.Join(clone, "cmd", "kubectl-zonelect"), env}.must("sh", "-c", script)
	return filepath.Join(clone, "build", "dist")
}

var first struct {
	sync.Once
	dir string
}

// made returns the directory of the files of a release, which all tests share. It skips the test
// unless ZONELECT_DIST is set.
func made(t *testing.T) string {
	t.Helper()
	if os.Getenv("ZONELECT_DIST") == "" {
		t.Skip("it builds for each platform: make packaging DIST=1")
	}
	first.Do(func() {
		top, err := testbed.Root()
		must(t, err)
		first.dir = makeIn(t, top, "a", "")
	})
	if first.dir == "" {
		t.Fatal("no release was made")
	}
	return first.dir
}

// sumsOf returns the checksums of a release's files by name, each of which is that of its file.
func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for line := range strings.Lines(read(t, filepath.Join(dir, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(dir, name))
		if got := sha256.Sum256(data); err != nil || hex.EncodeToString(got[:]) != sum {
			t.Fatalf("%s: %v, or its sum is not %s", name, err, sum)
		}
		sums[name] = sum
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(sums)+1 || len(sums) < 3 {
		t.Fatalf("%d files have %d sums: %v", len(files), len(sums), err)
	}
	return sums
}

// TestTheSameCommitGivesTheSameFiles, in another folder, for another user, at another place of
// the world. With ZONELECT_DIST=fresh the other does not have the first one's compiled packages.
func TestTheSameCommitGivesTheSameFiles(t *testing.T) {
	first := sumsOf(t, made(t))
	goEnv := strings.Split(place{t: t, dir: "."}.must("go", "env", "GOMODCACHE", "GOCACHE"), "\n")
	user := filepath.Join(home, "user")
	env := []string{"TZ=Asia/Kathmandu", "LC_ALL=C", "USER=somebody", "LOGNAME=somebody", "HOME=" + user, "GOMODCACHE=" + goEnv[0], "GOCACHE=" + goEnv[1]}
	if os.Getenv("ZONELECT_DIST") == "fresh" {
		env[len(env)-1] = "GOCACHE=" + filepath.Join(user, "cache")
	}
	second := sumsOf(t, makeIn(t, filepath.Join(home, "a"), "elsewhere/and/longer", "umask 077; ", env...))
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s has the sum %s, and built again %q", name, sum, second[name])
		}
		t.Logf("%s  %s", sum, name)
	}
	if len(second) != len(first) {
		t.Errorf("%d files, and built again %d", len(first), len(second))
	}
}

// TestKrewInstallsTheReleaseOnEachPlatform: krew's own check of manifests accepts it, and krew
// finds in each archive what the manifest names.
func TestKrewInstallsTheReleaseOnEachPlatform(t *testing.T) {
	dir := made(t)
	sums := sumsOf(t, dir)
	tools := filepath.Join(dir, "../../cmd/kubectl-zonelect/dist/tools")
	const krew = "sigs.k8s.io/krew/cmd/"
	place{t, tools, []string{"GOWORK=off"}}.must("go", "build", "-o", home, krew+"krew", krew+"validate-krew-manifest")
	manifest := filepath.Join(dir, "zonelect.yaml")
	place{t: t, dir: dir}.must(filepath.Join(home, "validate-krew-manifest"), "-skip-install", "-manifest", manifest)
	tried := 0
	for name := range sums {
		p := strings.Split(strings.TrimSuffix(strings.TrimSuffix(name, ".zip"), ".tar.gz"), "_")
		if len(p) != 4 || strings.HasSuffix(name, ".json") {
			continue
		}
		tried++
		root := t.TempDir()
		place{t, dir, []string{"KREW_ROOT=" + root, "KREW_OS=" + p[2], "KREW_ARCH=" + p[3]}}.must(filepath.Join(home, "krew"),
			"install", "--manifest", manifest, "--archive", filepath.Join(dir, name))
		if p[2] != runtime.GOOS || p[3] != runtime.GOARCH {
			continue
		}
		installed := filepath.Join(root, "bin", "kubectl-zonelect")
		if said := (place{t: t, dir: dir}).must(installed, "version", "--client"); !strings.HasPrefix(said, "Client Version: "+p[1]+" (commit ") || !strings.Contains(said, "\nclient-go Version: v0.") ||
			!strings.Contains(said, "\nModule: github.com/zonelect/zonelect/cmd/kubectl-zonelect\nLibrary Version: "+p[1]+"\n") {
			t.Errorf("%s says %s", name, said)
		}
		stored, err := filepath.Glob(filepath.Join(root, "store", "zonelect", "*", "man", "man1", "kubectl-zonelect-status.1"))
		if err != nil || len(stored) != 1 {
			t.Errorf("%s has the man pages %v, %v", name, stored, err)
		}
	}
	if want := strings.Count(read(t, manifest), "sha256: "); tried != want {
		t.Errorf("%d archives were installed of %d in the manifest", tried, want)
	}
}

// TestAProgramsContentsAreListed with the version of each module, and without what differs
// between two builds.
func TestAProgramsContentsAreListed(t *testing.T) {
	dir := made(t)
	sums := sumsOf(t, dir)
	listed := 0
	for name := range sums {
		if !strings.HasSuffix(name, ".cdx.json") {
			continue
		}
		listed++
		var list struct {
			BomFormat, SerialNumber string
			Metadata                struct {
				Timestamp string
				Component struct{ Name, Version string }
			}
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, name))), &list); err != nil {
			t.Fatal(err)
		}
		m := list.Metadata
		if list.BomFormat != "CycloneDX" || list.SerialNumber+m.Timestamp != "" || m.Component.Name != "github.com/zonelect/zonelect/cmd/kubectl-zonelect" ||
			!strings.Contains(name, "_"+m.Component.Version+"_") {
			t.Errorf("%s: %+v %q", name, m, list.SerialNumber)
		}
		versions := map[string]string{}
		for _, c := range list.Components {
			versions[c.Name] = c.Version
		}
		if versions["github.com/zonelect/zonelect"] != m.Component.Version || versions["k8s.io/client-go"] == "" || versions["github.com/spf13/cobra"] == "" {
			t.Errorf("%s lists %v", name, versions)
		}
	}
	if listed == 0 {
		t.Error("there are no lists")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
