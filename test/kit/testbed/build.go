// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Build makes the control plane's program of a version of Kubernetes (see
// Config.Kubernetes), unless the user's cache has it, and returns its path. The
// first build of a version takes minutes, which progress, unless nil, is told.
func Build(ctx context.Context, version string, progress io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "test", "programs", "controlplane")
	modules := cmp.Or(version, "go") + ".mod"
	target, err := cached(source, modules)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	version, err = stamp(filepath.Join(source, modules))
	if err != nil {
		return "", err
	}
	b := builder{dir: source, pkg: ".", env: []string{"GOWORK=off"}, target: target, progress: progress,
		flags: []string{"-modfile=" + modules, "-ldflags", "-s -w " + version}}
	return target, b.build(ctx)
}

// cached returns where the user's cache keeps the program that a file of modules in source gives.
// All clones share it. Its name changes with whatever it is compiled from.
func cached(source, modules string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the control plane's program: %w", err)
	}
	key := sha256.New()
	_, _ = io.WriteString(key, runtime.Version()) // a hash never fails
	for _, file := range []string{"main.go", modules, strings.TrimSuffix(modules, ".mod") + ".sum"} {
		text, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return "", fmt.Errorf("read what the control plane's program is made of: %w", err)
		}
		_, _ = key.Write(text)
	}
	return filepath.Join(cache, "zonelect", fmt.Sprintf("controlplane-%.8x", key.Sum(nil)), "controlplane"), nil
}

// BuildProgram builds a main package of the repository, named relative to its root
// (./test/programs/candidate), into build/bin, and returns the program's path. It
// does not rebuild what has not changed.
func BuildProgram(ctx context.Context, pkg string) (string, error) {
	return buildBin(ctx, filepath.Base(pkg), builder{pkg: pkg})
}

// BuildTool is BuildProgram for a main package of a module outside the workspace, or a tool that its go.mod names,
// under a name of its own. Its first build may take minutes.
func BuildTool(ctx context.Context, module, tool, name string) (string, error) {
	return buildBin(ctx, name, builder{dir: module, pkg: tool, env: []string{"GOWORK=off"}})
}

// buildBin builds into build/bin what is in a directory below the repository's root.
func buildBin(ctx context.Context, name string, b builder) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	b.dir, b.target = filepath.Join(root, b.dir), filepath.Join(root, "build", "bin", name)
	return b.target, b.build(ctx)
}

// required finds the version of Kubernetes in a file of modules.
var required = regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$`)

// stamp returns the linker flags that make an apiserver report its true
// version.
func stamp(modules string) (string, error) {
	text, err := os.ReadFile(modules)
	if err != nil {
		return "", fmt.Errorf("find the version of Kubernetes: %w", err)
	}
	version := required.FindSubmatch(text)
	if version == nil {
		return "", fmt.Errorf("find the version of Kubernetes: %s requires none", modules)
	}
	const pkg = "-X k8s.io/component-base/version."
	return fmt.Sprintf("%sgitVersion=%s %[1]sgitMajor=%[3]s %[1]sgitMinor=%[4]s", pkg, version[1], version[2], version[3]), nil
}

// builder is one go build.
type builder struct {
	dir, pkg, target string
	env, flags       []string
	progress         io.Writer
}

// build runs go build and puts the result in its place in one step.
func (b builder) build(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(b.target), 0o755); err != nil {
		return fmt.Errorf("make the directory for programs: %w", err)
	}
	// A name of its own for each build: several may run at the same time.
	file, err := os.CreateTemp(filepath.Dir(b.target), ".build-*")
	if err != nil {
		return fmt.Errorf("make a file for the new program: %w", err)
	}
	fresh := file.Name()
	defer func() { _ = os.Remove(fresh) }() // after a successful build it is gone
	if err := errors.Join(b.old(file), file.Chmod(0o755), file.Close()); err != nil {
		return fmt.Errorf("make a file for the new program: %w", err)
	}
	if err := b.run(ctx, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, b.target); err != nil {
		return fmt.Errorf("put the new program in its place: %w", err)
	}
	return nil
}

// old copies the program that is there, if there is one: go build links nothing into what is up to date.
func (b builder) old(into io.Writer) error {
	file, err := os.Open(b.target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(into, file)
	return err
}

// run runs go build.
func (b builder) run(ctx context.Context, into string) error {
	if b.progress != nil {
		// That is a courtesy: a writer that fails does not stop a build.
		_, _ = fmt.Fprintf(b.progress, "building %s: the first time takes minutes\n", filepath.Base(b.target))
	}
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", into}, b.flags...), b.pkg)...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), b.env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", b.pkg, b.dir, err, said)
	}
	return nil
}
