// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pictures_test draws the pictures of the docs, and holds that those in the
// repository are the ones that it draws.
//
//	go test ./docs/pictures -update
package pictures_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures")

func pictures() []*picture {
	return []*picture{zones(), zoneLoss(), outage(), ways(), timing(), migration(), architecture(), failover()}
}

func TestThePicturesAreThoseOfTheirSource(t *testing.T) {
	for _, p := range pictures() {
		file := p.name + ".svg"
		if *update {
			if err := os.WriteFile(file, []byte(p.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != p.String() {
			t.Errorf("%s is another picture (%v): run go test ./docs/pictures -update", file, err)
		}
	}
}

// TestEveryPictureIsShown: each file is drawn here, and a document shows it.
func TestEveryPictureIsShown(t *testing.T) {
	var documents strings.Builder
	for _, pattern := range []string{"../../*.md", "../*.md"} {
		files, _ := filepath.Glob(pattern) // the pattern is well-formed
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			documents.Write(text)
		}
	}
	files, _ := filepath.Glob("*.svg") // the pattern is well-formed
	for _, file := range files {
		drawn := false
		for _, p := range pictures() {
			drawn = drawn || file == p.name+".svg"
		}
		if !drawn || !strings.Contains(documents.String(), "pictures/"+file) {
			t.Errorf("%s: it is drawn: %v; otherwise no document shows it", file, drawn)
		}
	}
}

func TestNoTextInAPictureOverlapsAnother(t *testing.T) {
	for _, p := range pictures() {
		for _, clash := range p.clashes() {
			t.Errorf("%s: %s", p.name, clash)
		}
	}
}

func TestEveryPictureIsWellFormedAndHasATitle(t *testing.T) {
	for _, p := range pictures() {
		d := xml.NewDecoder(strings.NewReader(p.String()))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) || p.title == "" {
			t.Errorf("%s: %v, title %q", p.name, err, p.title)
		}
	}
}
