// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed krew.yaml.tmpl
var krewTemplate string

// manifest writes the manifest by which krew installs the plugin. Krew wants the name of the
// plugin as the name of the file.
func (r *release) manifest() error {
	t, err := template.New("krew").Option("missingkey=error").Parse(krewTemplate)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Version": r.version, "Platforms": r.platforms}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, "zonelect.yaml"), b.Bytes(), 0o644)
}
