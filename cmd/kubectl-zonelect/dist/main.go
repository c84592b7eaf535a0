// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dist makes the files of a release of kubectl-zonelect: an archive for each platform
// with the program, its license and its man pages, a list of what is in each program
// (CycloneDX), a manifest for krew, and the checksums of all of them.
//
// The same commit gives the same files, whoever builds it and wherever: times are that of the
// commit or SOURCE_DATE_EPOCH, and no paths, names of users or numbers of builds are in them.
// "make packaging DIST=1" holds it to that.
//
// It takes the modules that go.work takes, as everything in the repository does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/command"
	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/reference"
)

// all are the platforms of a release.
const all = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		stop()
		os.Exit(1)
	}
}

// run makes a release as the flags say.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	into := flags.String("into", "build/dist", "the directory for the files, below the top of the repository")
	version := flags.String("version", "", "the version, as in v0.1.0; by default what git describe says")
	platforms := flags.String("platforms", all, "for which systems and processors")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	top, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r, err := newRelease(ctx, top, *version)
	if err != nil {
		return err
	}
	r.dir = filepath.Join(top, *into)
	for p := range strings.SplitSeq(*platforms, ",") {
		system, arch, ok := strings.Cut(p, "/")
		if !ok {
			return fmt.Errorf("%q is not a platform: write system/processor, as in linux/amd64", p)
		}
		r.platforms = append(r.platforms, platform{System: system, Arch: arch})
	}
	return r.make(ctx)
}

// release is what is made: of a commit, under a version.
type release struct {
	top, dir        string // of the repository, and where the files go
	version, commit string
	date            time.Time
	platforms       []platform
}

// platform is a system and a processor, in Go's words, and the archive for it.
type platform struct {
	System, Arch    string
	Archive, SHA256 string
	Program         string // in the archive
}

// make replaces the release's directory.
func (r *release) make(ctx context.Context) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "zonelect-dist-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // what is left there harms nobody
	manual, err := r.manual(temp)
	if err != nil {
		return err
	}
	tool, err := r.buildTool(ctx, temp, "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod")
	if err != nil {
		return err
	}
	for i := range r.platforms {
		if err := r.pack(ctx, temp, tool, manual, &r.platforms[i]); err != nil {
			return fmt.Errorf("%s/%s: %w", r.platforms[i].System, r.platforms[i].Arch, err)
		}
	}
	if err := r.manifest(); err != nil {
		return err
	}
	return sum(r.dir)
}

// manual returns the man pages.
func (r *release) manual(temp string) ([]entry, error) {
	dir := filepath.Join(temp, "man1")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := reference.Man(dir, r.version, r.date); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(dir, page.Name()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{"man/man1/" + page.Name(), 0o644, text})
	}
	return entries, nil
}

// pack makes the archive and the list of contents for a platform.
func (r *release) pack(ctx context.Context, temp, tool string, manual []entry, p *platform) error {
	name := strings.Join([]string{"kubectl-zonelect", r.version, p.System, p.Arch}, "_")
	p.Program, p.Archive = "kubectl-zonelect", name+".tar.gz"
	if p.System == "windows" {
		p.Program, p.Archive = "kubectl-zonelect.exe", name+".zip"
	}
	built := filepath.Join(temp, p.System, p.Arch, p.Program)
	if err := r.build(ctx, *p, built); err != nil {
		return err
	}
	if err := r.list(ctx, tool, built, filepath.Join(r.dir, name+".cdx.json")); err != nil {
		return err
	}
	program, err := os.ReadFile(built)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.top, "LICENSE"))
	if err != nil {
		return err
	}
	entries := []entry{{p.Program, 0o755, program}, {"LICENSE", 0o644, license}}
	if p.System != "windows" { // it runs no script, and has no man
		entries = append(entries, entry{"kubectl_complete-zonelect", 0o755, command.KubectlComplete})
		entries = append(entries, manual...)
	}
	file := filepath.Join(r.dir, p.Archive)
	if err := archive(file, entries, r.date); err != nil {
		return err
	}
	if p.SHA256, err = digest(file); err != nil {
		return err
	}
	fmt.Printf("%s  %s (%.1f MB, of which the program unpacked has %.1f)\n", p.SHA256, p.Archive, size(file), float64(len(program))/1e6)
	return nil
}

func size(file string) float64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return float64(info.Size()) / 1e6
}
