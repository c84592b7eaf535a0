// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/zonelect/zonelect/internal/timeline"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// verdict is a line that browser.js prints.
type verdict struct{ Law, Error string }

func TestThePageInABrowser(t *testing.T) {
	chromium, node := browser(t)
	root, err := testbed.Root()
	if err != nil {
		t.Fatal(err)
	}
	pictures := filepath.Join(root, "build", "timeline")
	modules := filepath.Join(pictures, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "playwright-core")); err != nil {
		t.Skip("needs playwright-core, which make timeline gets from npm")
	}
	command := exec.CommandContext(t.Context(), node, "browser.js", chromium, written(t), pictures)
	command.Env = append(os.Environ(), "NODE_PATH="+modules)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	printed, err := command.Output()
	if err != nil {
		t.Errorf("browser.js: %v\n%s", err, &complaints)
	}
	laws := 0
	for decoder := json.NewDecoder(bytes.NewReader(printed)); decoder.More(); laws++ {
		var v verdict
		if err := decoder.Decode(&v); err != nil {
			t.Fatalf("browser.js printed %q: %v", printed, err)
		}
		t.Run(v.Law, func(t *testing.T) {
			if v.Error != "" {
				t.Error(v.Error)
			}
		})
	}
	if laws == 0 {
		t.Error("browser.js has tested nothing")
	}
}

// browser finds the programs. It skips the test if they are not there, or under -short.
func browser(t *testing.T) (chromium, node string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser: run without -short")
	}
	for name, path := range map[string]*string{"chromium": &chromium, "node": &node} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("needs %s: apt-get install chromium nodejs npm, then make timeline", name)
		}
		*path = found
	}
	return chromium, node
}

// written writes the pages and returns their directory.
func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, h := range pages() {
		var page bytes.Buffer
		if err := timeline.Render(&page, h); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".html"), page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
