// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// linking is the part of a build's work that comes after the last package.
const linking = 0.05

// buildProgress says how far a go build -v is, by the sizes of the packages' sources. It is an
// io.Writer for the output of the build, from which it takes the names of the packages. Safe for
// concurrent use.
type buildProgress struct {
	sizes map[string]int64 // of what is to be compiled, by import path
	total int64

	mu      sync.Mutex
	partial []byte
	done    int64
	said    bytes.Buffer // all else
}

// newBuildProgress finds out what a build has to compile. That downloads modules, as the build
// would.
func newBuildProgress(ctx context.Context, b builder) (*buildProgress, error) {
	args := append([]string{"list", "-deps", "-f", `{{if .Stale}}{{.ImportPath}}{{"\t"}}{{.Dir}}{{range .GoFiles}}{{"\t"}}{{.}}{{end}}{{end}}`}, b.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, b.pkg)...)
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = b.dir, append(os.Environ(), b.env...), &said
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s in %s: %w\n%s", b.pkg, b.dir, err, said.String())
	}
	p := &buildProgress{sizes: map[string]int64{}}
	for line := range strings.Lines(string(list)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		for _, file := range fields[min(2, len(fields)):] {
			if info, err := os.Stat(filepath.Join(fields[1], file)); err == nil {
				p.sizes[fields[0]] += info.Size()
				p.total += info.Size()
			}
		}
	}
	return p, nil
}

// Write takes some output of the build. It never fails.
func (p *buildProgress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, data...)
	for {
		line, rest, found := bytes.Cut(p.partial, []byte("\n"))
		if !found {
			return len(data), nil
		}
		if size, is := p.sizes[string(line)]; is {
			p.done += size
		} else {
			p.said.Write(append(line, '\n'))
		}
		p.partial = rest
	}
}

// errors is what the build has said beside the names of packages.
func (p *buildProgress) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String() + string(p.partial)
}

// after says how far the build is after some time.
func (p *buildProgress) after(d time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return fmt.Sprintf("%v", d.Round(time.Second))
	}
	part := (1 - linking) * float64(p.done) / float64(p.total)
	if part < 0.02 {
		return fmt.Sprintf("%2.0f %% after %v", 100*part, d.Round(time.Second))
	}
	left := time.Duration(float64(d) * (1 - part) / part)
	return fmt.Sprintf("%2.0f %% after %v, about %v left", 100*part, d.Round(time.Second), left.Round(10*time.Second))
}
