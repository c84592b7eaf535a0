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
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pictures")

func pictures() []*picture {
	return []*picture{zoneLoss(), timing(), migration(), architecture(), failover()}
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
