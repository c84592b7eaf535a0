// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

var date = time.Unix(1763949486, 0).UTC()

// TestAnArchiveDependsOnItsContentsAlone, in whatever order they come.
func TestAnArchiveDependsOnItsContentsAlone(t *testing.T) {
	a, b := entry{"LICENSE", 0o644, []byte("free")}, entry{"program", 0o755, []byte("runs")}
	for _, kind := range []string{".tar.gz", ".zip"} {
		file := filepath.Join(t.TempDir(), "x"+kind)
		seen := map[string]bool{}
		for _, entries := range [][]entry{{a, b}, {b, a}} {
			if err := archive(file, entries, date); err != nil {
				t.Fatal(err)
			}
			d, err := digest(file)
			if err != nil {
				t.Fatal(err)
			}
			seen[d] = true
		}
		if len(seen) != 1 {
			t.Errorf("%s: the same entries gave %d archives", kind, len(seen))
		}
	}
}

func TestAnArchiveHasTheTimeOfTheCommitAndNoUser(t *testing.T) {
	dir := t.TempDir()
	entries := []entry{{"program", 0o755, []byte("runs")}, {"LICENSE", 0o644, []byte("free")}}
	for _, name := range []string{"x.tar.gz", "x.zip"} {
		if err := archive(filepath.Join(dir, name), entries, date); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := os.Open(filepath.Join(dir, "x.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if !plain.ModTime.IsZero() || plain.Name != "" {
		t.Errorf("gzip has %v and %q", plain.ModTime, plain.Name)
	}
	found := 0
	for r := tar.NewReader(plain); ; found++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(date) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || (h.Mode == 0o755) != (h.Name == "program") {
			t.Errorf("%+v", h)
		}
	}
	z, err := zip.OpenReader(filepath.Join(dir, "x.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	for _, f := range z.File {
		if !f.Modified.Equal(date) || (f.Mode() == 0o755) != (f.Name == "program") {
			t.Errorf("%+v", f)
		}
		found++
	}
	if found != 4 {
		t.Errorf("found %d files in two archives of two", found)
	}
}

func TestTheChecksumsAreThoseOfSha256sum(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sum(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, sums))
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTheManifestOfKrewHasTheSumOfEachArchive; "make packaging DIST=1" asks krew itself.
func TestTheManifestOfKrewHasTheSumOfEachArchive(t *testing.T) {
	r := release{dir: t.TempDir(), version: "v0.1.0", platforms: []platform{
		{System: "linux", Arch: "arm64", Archive: "a_linux_arm64.tar.gz", SHA256: strings.Repeat("0a", 32), Program: "kubectl-zonelect"},
		{System: "windows", Arch: "amd64", Archive: "a_windows_amd64.zip", SHA256: strings.Repeat("1b", 32), Program: "kubectl-zonelect.exe"},
	}}
	if err := r.manifest(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "zonelect.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spec struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(text, &got); err != nil || got.Spec.Version != "v0.1.0" || len(got.Spec.Platforms) != 2 {
		t.Fatalf("%v\n%s", err, text)
	}
	for i, p := range got.Spec.Platforms {
		want := r.platforms[i]
		if p.Selector.MatchLabels["os"] != want.System || p.Selector.MatchLabels["arch"] != want.Arch || p.SHA256 != want.SHA256 || p.Bin != want.Program ||
			!strings.HasSuffix(p.URI, "/v0.1.0/"+want.Archive) {
			t.Errorf("%+v of %+v", p, want)
		}
	}
}

func TestTheVersionIsThatOfTheTagOrElseAPseudoVersion(t *testing.T) {
	top := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1763949486")
	do := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", top, "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	is := func(pattern string) {
		t.Helper()
		r, err := newRelease(t.Context(), top, "")
		if err != nil || !regexp.MustCompile("^"+pattern+"$").MatchString(r.version) || len(r.commit) != 40 || !r.date.Equal(time.Unix(1763949486, 0)) {
			t.Errorf("%+v, %v; want %s", r, err, pattern)
		}
	}
	do("init", "-q")
	file := filepath.Join(top, "a")
	if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	do("add", "a")
	do("commit", "-qm", "first")
	is(`v0\.0\.0-20251124015806-[0-9a-f]{12}`)
	do("tag", "v0.1.0")
	do("tag", "cmd/kubectl-zonelect/v0.2.0")
	is(`v0\.1\.0`)
	do("commit", "-qm", "second", "--allow-empty")
	is(`v0\.1\.0-1-g[0-9a-f]+`)
	if err := os.WriteFile(file, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	is(`v0\.1\.0-1-g[0-9a-f]+-dirty`)
	if r, err := newRelease(t.Context(), top, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "changes that no commit has") {
		t.Errorf("%+v, %v of a checkout with changes", r, err)
	}
}

func TestAPlatformHasASystemAndAProcessor(t *testing.T) {
	if err := run(t.Context(), []string{"-platforms", "linux"}); err == nil || !strings.Contains(err.Error(), `"linux" is not a platform`) {
		t.Error(err)
	}
}
