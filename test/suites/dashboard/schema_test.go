// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard_test checks config/grafana/zonelect.json against the schema that Grafana
// publishes as types of TypeScript.
//
//	make dashboard
package dashboard_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zonelect/zonelect/test/kit/testbed"
)

// panels are Grafana's names of the kinds of panels whose options are checked.
var panels = map[string]string{"table": "table", "timeseries": "timeseries", "state-timeline": "statetimeline"}

// preamble has Plain<T>, which is what JSON can say of a T: the texts of an enum for the enum.
const preamble = `
import type { Dashboard } from './node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';
type Plain<T> = T extends string ? ` + "`${T}`" + ` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
`

// dashboard is what the test looks at itself.
type dashboard struct {
	Panels []struct {
		Title       string          `json:"title"`
		Type        string          `json:"type"`
		Options     json.RawMessage `json:"options"`
		FieldConfig struct {
			Defaults struct {
				Custom json.RawMessage `json:"custom"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
	} `json:"panels"`
}

// source is a program that compiles if a dashboard fits the schema.
func source(t *testing.T, text string) string {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	s.WriteString(preamble)
	for _, name := range panels {
		fmt.Fprintf(&s, "import type * as %s from './node_modules/@grafana/schema/dist/types/raw/composable/%s/panelcfg/x/types.gen';\n", name, name)
	}
	fmt.Fprintf(&s, "export const dashboard: Plain<Dashboard> = %s;\n", text)
	for i, p := range d.Panels {
		name, known := panels[p.Type]
		if !known {
			t.Errorf("%s: the test knows no options of a %s", p.Title, p.Type)
			continue
		}
		fmt.Fprintf(&s, "export const options%d: Partial<Plain<%s.Options>> = %s;\n", i, name, p.Options)
		if custom := p.FieldConfig.Defaults.Custom; custom != nil {
			fmt.Fprintf(&s, "export const custom%d: Partial<Plain<%s.FieldConfig>> = %s;\n", i, name, custom)
		}
	}
	return s.String()
}

// compiled returns what the compiler complains of in each of the programs.
func compiled(t *testing.T, node, dir string, programs map[string]string) map[string]string {
	t.Helper()
	args := []string{
		"node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--pretty", "false",
		"--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext",
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name+".ts"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name+".ts")
	}
	command := exec.CommandContext(t.Context(), node, args...)
	command.Dir = dir
	said, err := command.CombinedOutput()
	complaints := map[string]string{}
	for line := range strings.Lines(string(said)) {
		name, _, _ := strings.Cut(line, ".ts(")
		complaints[name] += line
		if _, ours := programs[name]; !ours && !strings.HasPrefix(line, " ") {
			t.Fatalf("the compiler says: %s", line)
		}
	}
	if err != nil && len(complaints) == 0 {
		t.Fatal(err)
	}
	return complaints
}

// mistakes are what the compiler must not take, each instead of what the dashboard has.
var mistakes = map[string][2]string{
	"property": {`"gridPos": {`, `"gridpos": {`},
	"option":   {`"mode": "multi"`, `"mode": "mulit"`},
	"variable": {`"type": "query"`, `"type": "quest"`},
	"number":   {`"refresh": 2`, `"refresh": 7`},
	"absent":   {`"calcs": [],`, ``},
}

func TestTheDashboardFitsGrafanasSchema(t *testing.T) {
	node, dir := compiler(t)
	raw, err := os.ReadFile("../../../config/grafana/zonelect.json")
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{"dashboard": source(t, string(raw))}
	for name, m := range mistakes {
		wrong := strings.Replace(string(raw), m[0], m[1], 1)
		if wrong == string(raw) {
			t.Errorf("the dashboard has no %s", m[0])
		}
		programs[name] = source(t, wrong)
	}
	said := compiled(t, node, dir, programs)
	if said["dashboard"] != "" {
		t.Errorf("the compiler says:\n%s", said["dashboard"])
	}
	for name, m := range mistakes {
		if said[name] == "" {
			t.Errorf("the compiler takes %q", m[1])
		}
	}
}

// compiler returns where node is, and the directory with the modules. It skips the test if they
// are not there, or under -short.
func compiler(t *testing.T) (node, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs node: run without -short")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node: apt-get install nodejs npm, then make dashboard")
	}
	root, err := testbed.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(root, "build", "dashboard")
	for _, module := range []string{"@grafana/schema", "typescript"} {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", module)); err != nil {
			t.Skipf("needs %s, which make dashboard gets from npm", module)
		}
	}
	return node, dir
}
