// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const commands = "github.com/zonelect/zonelect/cmd/kubectl-zonelect/command"

// stable are the variables under which compilers give the same output for the same source. The Go
// is one without known faults (make vuln), which may be newer than that of the tests. GOFLAGS is not empty, because an empty variable gives way to that of "go env -w".
var stable = []string{"GOTOOLCHAIN=go1.27.3", "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOAMD64=v1", "GOARM64=v8.0"}

// newRelease asks git what is not given.
func newRelease(ctx context.Context, top, version string) (*release, error) {
	commit, err := git(ctx, top, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = git(ctx, top, "log", "-1", "--format=%ct"); err != nil {
			return nil, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH is in seconds: %w", err)
	}
	changes, err := git(ctx, top, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if version != "" && changes != "" {
		return nil, fmt.Errorf("%s would have changes that no commit has:\n%s", version, changes)
	}
	r := &release{top: top, version: version, commit: commit, date: time.Unix(seconds, 0).UTC()}
	if version == "" {
		r.version = describe(ctx, top, commit, r.date)
	}
	if changes != "" {
		r.version += "-dirty"
	}
	return r, nil
}

// describe is the version of a commit: that of its tag, with the commits since then. Without a
// tag it is a pseudo-version of Go.
func describe(ctx context.Context, top, commit string, date time.Time) string {
	if version, err := git(ctx, top, "describe", "--tags", "--match", "v[0-9]*"); err == nil {
		return version
	}
	return "v0.0.0-" + date.Format("20060102150405") + "-" + commit[:12]
}

// build compiles the plugin for a platform.
func (r *release) build(ctx context.Context, p platform, into string) error {
	flags := "-s -w -buildid= -X " + commands + ".release=" + r.version + " -X " + commands + ".releaseCommit=" + r.commit
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", flags, "-o", into, ".")
	cmd.Dir = filepath.Join(r.top, "cmd", "kubectl-zonelect")
	cmd.Env = append(append(os.Environ(), stable...), "GOOS="+p.System, "GOARCH="+p.Arch)
	_, err := output(cmd)
	return err
}

// buildTool compiles a program of the module dist/tools, and returns its path.
func (r *release) buildTool(ctx context.Context, temp, pkg string) (string, error) {
	into := filepath.Join(temp, path.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", into, pkg)
	cmd.Dir = filepath.Join(r.top, "cmd", "kubectl-zonelect", "dist", "tools")
	cmd.Env = append(append(os.Environ(), stable...), "GOWORK=off")
	_, err := output(cmd)
	return into, err
}

// list writes which modules a program has, of which versions. It does not look for licenses: what
// is found would depend on whether the release is published already.
func (r *release) list(ctx context.Context, tool, program, into string) error {
	text, err := output(exec.CommandContext(ctx, tool, "bin", "-json", "-noserial", "-notimestamp", "-version", r.version, program))
	if err != nil {
		return err
	}
	// The compiler does not know the version of the library, which is that of the same commit.
	text = strings.ReplaceAll(text, "(devel)", r.version) + "\n"
	return os.WriteFile(into, []byte(text), 0o644)
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	return output(cmd)
}

// output runs a command and returns what it printed, without blanks around it.
func output(cmd *exec.Cmd) (string, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}
