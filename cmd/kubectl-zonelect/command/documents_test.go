// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestTheCommandsOfTheDocumentsAreCommands: each block that tells people to run kubectl zonelect has
// commands, flags and arguments that there are, and one that is refused without an acknowledgement has it.
func TestTheCommandsOfTheDocumentsAreCommands(t *testing.T) {
	documents, _ := filepath.Glob("../../../docs/*.md") // the pattern is well-formed
	written := regexp.MustCompile(`(?m)^(?: {4}|\$ )kubectl zonelect ([^#|>\n]*)`)
	found := 0
	for _, name := range append(documents, "../../../README.md", "../../../examples/README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range written.FindAllStringSubmatch(string(text), -1) {
			found++
			c, rest, err := newRoot(newEnvironment(genericiooptions.NewTestIOStreamsDiscard())).Find(strings.Fields(w[1]))
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
			if err != nil || !c.Runnable() {
				t.Errorf("%s: %s: %v", name, w[0], err)
				continue
			}
			acknowledged, _ := c.Flags().GetStringSlice("acknowledge")
			if c.Name() == "clean" && !slices.Contains(acknowledged, "no-way-back") {
				t.Errorf("%s: %s: always refused without --acknowledge %s", name, w[0], "no-way-back")
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands were found", found)
	}
}
