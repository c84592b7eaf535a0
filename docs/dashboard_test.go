// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the tests look at in config/grafana/zonelect.json.
type dashboard struct {
	Panels []struct {
		ID      int                            `json:"id"`
		Title   string                         `json:"title"`
		GridPos struct{ X, Y, W, H int }       `json:"gridPos"`
		Targets []struct{ Expr, RefID string } `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
		} `json:"list"`
	} `json:"templating"`
}

func zonelectDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "../config/grafana/zonelect.json")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 10 {
		t.Fatalf("only %d panels were found", len(d.Panels))
	}
	return d
}

func TestEveryMetricIsOnTheDashboardAndEveryOneOfItInTheReference(t *testing.T) {
	e := reference(t)
	var all strings.Builder
	for _, p := range zonelectDashboard(t).Panels {
		for _, target := range p.Targets {
			e.check(t, p.Title, target.Expr)
			all.WriteString(target.Expr + "\n")
		}
	}
	for name := range e.series {
		stem := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		if !strings.Contains(all.String(), stem) && name != "leader_election_master_status" { // it repeats election_leader
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestTheDashboardUsesTheVariablesThatItHas(t *testing.T) {
	d := zonelectDashboard(t)
	var has []string
	for _, v := range d.Templating.List {
		has = append(has, v.Name)
	}
	used := regexp.MustCompile(`\$\{?([a-z]+)\b`)
	for _, u := range used.FindAllStringSubmatch(read(t, "../config/grafana/zonelect.json"), -1) {
		if !slices.Contains(has, u[1]) {
			t.Errorf("there is no variable %s, only %v", u[1], has)
		}
	}
}

func TestPanelsOfTheDashboardDoNotOverlap(t *testing.T) {
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range zonelectDashboard(t).Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the number %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s is where %q is, or beyond column 24", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestEveryQueryOfTheDashboardParses as a recording rule, with a duration for Grafana's.
func TestEveryQueryOfTheDashboardParses(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool; Debian's package prometheus has it")
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	durations := regexp.MustCompile(`\$__\w+`)
	for _, p := range zonelectDashboard(t).Panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{"panel:query:" + target.RefID + strings.Repeat("_", p.ID), durations.ReplaceAllString(target.Expr, "5m")})
		}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml") // JSON is YAML
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
