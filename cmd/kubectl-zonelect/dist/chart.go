// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// chart packs what git knows of the Helm chart, under the name that helm package would give it.
func (r *release) chart(ctx context.Context) error {
	const source = "charts/zonelect"
	listed, err := git(ctx, r.top, "ls-files", source)
	if err != nil {
		return err
	}
	var about struct{ Name, Version string }
	var entries []entry
	for file := range strings.Lines(listed) {
		name := strings.TrimPrefix(strings.TrimSpace(file), source+"/")
		text, err := os.ReadFile(filepath.Join(r.top, source, name))
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if err := yaml.Unmarshal(text, &about); err != nil {
				return fmt.Errorf("%s/%s: %w", source, name, err)
			}
		}
		entries = append(entries, entry{"zonelect/" + name, 0o644, text})
	}
	if about.Name == "" || about.Version == "" {
		return fmt.Errorf("%s/Chart.yaml has no name or no version", source)
	}
	return archive(filepath.Join(r.dir, about.Name+"-"+about.Version+".tgz"), entries, r.date)
}
