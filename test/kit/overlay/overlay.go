// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overlay has programs built with an edited standard library, for what no
// program can do from outside: choosing what is random.
package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Edit is one change of a file of the standard library.
type Edit struct {
	File string         // below GOROOT/src, such as time/time.go
	Find *regexp.Regexp // matches at exactly one place
	By   string         // replaces it, as in Regexp.Expand
}

// Write puts edited copies of the standard library's files, and the added
// files, into dir, each under its own path. It returns the file for go build's
// flag -overlay. It does not rewrite files that are already right, so go build
// does not rebuild what uses them. An error names the file of this Go that
// differs from the one the edits were made for.
//
// dir should not be one that ./... finds: begin its name with an underscore.
func Write(ctx context.Context, dir string, edits []Edit, added map[string][]byte) (file string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src")
	files := map[string][]byte{}
	maps.Copy(files, added)
	for _, e := range edits {
		if files[e.File] == nil {
			if files[e.File], err = os.ReadFile(filepath.Join(source, e.File)); err != nil {
				return "", fmt.Errorf("read the standard library: %w", err)
			}
		}
		if files[e.File], err = e.Apply(files[e.File]); err != nil {
			return "", err
		}
	}
	replace := map[string]string{}
	for name, data := range files {
		copied := filepath.Join(dir, name)
		replace[filepath.Join(source, name)] = copied
		if err := write(copied, data); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("say what replaces the standard library: %w", err)
	}
	file = filepath.Join(dir, "overlay.json")
	return file, write(file, text)
}

// Apply returns source with the edit made.
func (e Edit) Apply(source []byte) ([]byte, error) {
	places := e.Find.FindAllSubmatchIndex(source, -1)
	if len(places) != 1 {
		return nil, fmt.Errorf("%s of this Go has %d places that match %q, where one is to be edited: adapt the edit to it", e.File, len(places), e.Find)
	}
	at := places[0]
	by := e.Find.Expand(nil, []byte(e.By), source, at)
	return bytes.Join([][]byte{source[:at[0]], by, source[at[1]:]}, nil), nil
}

// write writes a file unless it has this content.
func write(file string, data []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make a directory for the edited standard library: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("write the edited standard library: %w", err)
	}
	return nil
}
