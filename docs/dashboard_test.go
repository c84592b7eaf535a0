// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the tests look at in config/monitoring/grafana/zonelect.json.
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
	if err := json.Unmarshal([]byte(read(t, "../config/monitoring/grafana/zonelect.json")), &d); err != nil {
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
	for _, u := range used.FindAllStringSubmatch(read(t, "../config/monitoring/grafana/zonelect.json"), -1) {
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
	promtool(t, "check", "rules", file)
}

// Grafana ignores what it does not know, so a misspelled property has no effect and no error. schema
// has the properties that the dashboard may use, from the types in Grafana's packages/grafana-schema,
// with what their values look like in JSON. A new property gets its line here.
var schema = func() map[string]*regexp.Regexp {
	const text, number, truth, source = `".*"`, `\d+`, `true|false`, `"(prometheus|grafana|\$\{datasource\}|-- Grafana --)"`
	all := map[string]*regexp.Regexp{}
	for value, paths := range map[string]string{
		text: `uid title description tags[] timezone weekStart time.from time.to
			annotations.list[].iconColor annotations.list[].name
			templating.list[].name templating.list[].label templating.list[].query templating.list[].regex templating.list[].allValue
			templating.list[].query.query templating.list[].query.refId templating.list[].current.text[] templating.list[].current.value[]
			panels[].title panels[].description panels[].targets[].refId panels[].targets[].expr panels[].targets[].legendFormat
			panels[].fieldConfig.overrides[].matcher.options panels[].transformations[].options.renameByName.*
			panels[].fieldConfig.defaults.mappings[].options.*.text panels[].fieldConfig.defaults.mappings[].options.*.color`,
		number: `version schemaVersion fiscalYearStartMonth annotations.list[].builtIn panels[].id
			panels[].gridPos.h panels[].gridPos.w panels[].gridPos.x panels[].gridPos.y panels[].fieldConfig.defaults.min
			panels[].fieldConfig.defaults.max panels[].fieldConfig.defaults.decimals panels[].fieldConfig.defaults.mappings[].options.*.index`,
		truth: `editable liveNow annotations.list[].enable annotations.list[].hide templating.list[].includeAll templating.list[].multi
			templating.list[].skipUrlSync templating.list[].current.selected panels[].targets[].instant panels[].targets[].range
			panels[].transformations[].options.excludeByName.* panels[].options.legend.showLegend panels[].options.mergeValues`,
		source: `annotations.list[].datasource.type annotations.list[].datasource.uid templating.list[].datasource.type
			templating.list[].datasource.uid panels[].datasource.type panels[].datasource.uid
			panels[].targets[].datasource.type panels[].targets[].datasource.uid`,
		`\[\]|\{\}`: `timepicker links templating.list[].options panels[].options panels[].fieldConfig.overrides
			panels[].options.legend.calcs panels[].transformations[].options`,
		`0|1|2`:       `graphTooltip templating.list[].refresh templating.list[].hide`,
		`[0-8]`:       `templating.list[].sort`,
		`[0-5]`:       `templating.list[].query.qryType`,
		`"\d+[smh]"`:  `refresh`,
		`"dashboard"`: `annotations.list[].type`,
		`"(query|adhoc|constant|datasource|interval|textbox|custom|system|snapshot|switch)"`: `templating.list[].type`,
		`"(table|timeseries|state-timeline)"`:                                                `panels[].type`,
		`"(short|s|ops|percentunit)"`:                                                        `panels[].fieldConfig.defaults.unit`,
		`"(value|range|regex|special)"`:                                                      `panels[].fieldConfig.defaults.mappings[].type`,
		`"(byName|byRegexp|byType|byFrameRefID)"`:                                            `panels[].fieldConfig.overrides[].matcher.id`,
		`"(unit|decimals)"`:                                                                  `panels[].fieldConfig.overrides[].properties[].id`,
		`"short"|\d`:                                                                         `panels[].fieldConfig.overrides[].properties[].value`,
		`"(list|table|hidden)"`:                                                              `panels[].options.legend.displayMode`,
		`"(bottom|right)"`:                                                                   `panels[].options.legend.placement`,
		`"(single|multi|none)"`:                                                              `panels[].options.tooltip.mode`,
		`"(asc|desc|none)"`:                                                                  `panels[].options.tooltip.sort`,
		`"(auto|never|always)"`:                                                              `panels[].options.showValue`,
		`"(code|builder)"`:                                                                   `panels[].targets[].editorMode`,
		`"(table|time_series|heatmap)"`:                                                      `panels[].targets[].format`,
		`"(merge|organize)"`:                                                                 `panels[].transformations[].id`,
	} {
		for path := range strings.FieldsSeq(paths) {
			all[path] = regexp.MustCompile("^(" + value + ")$")
		}
	}
	return all
}()

// needed are the properties that an object must have.
var needed = map[string]string{
	"":                         "uid title schemaVersion panels templating time",
	"templating.list[]":        "name type query",
	"panels[]":                 "id type title datasource gridPos fieldConfig options targets",
	"panels[].gridPos":         "h w x y",
	"panels[].targets[]":       "refId datasource expr",
	"panels[].options.legend":  "calcs displayMode placement showLegend",
	"panels[].options.tooltip": "mode sort",
}

// misfits are what is not as the schema says, in a value at a path.
func misfits(path string, value any) (all []string) {
	below := func(path string, value any) { all = append(all, misfits(path, value)...) }
	switch v := value.(type) {
	case map[string]any:
		for name := range strings.FieldsSeq(needed[path]) {
			if _, has := v[name]; !has {
				all = append(all, path+" has no "+name)
			}
		}
		if len(v) > 0 {
			for name, value := range v {
				if anyName.MatchString(path) {
					name = "*"
				}
				below(strings.TrimPrefix(path+"."+name, "."), value)
			}
			return all
		}
	case []any:
		if len(v) > 0 {
			for _, value := range v {
				below(path+"[]", value)
			}
			return all
		}
	}
	text, err := json.Marshal(value)
	if allowed := schema[path]; err != nil || allowed == nil || !allowed.Match(text) {
		all = append(all, fmt.Sprintf("%s is %s", path, text))
	}
	return all
}

// anyName are the objects whose properties have any names.
var anyName = regexp.MustCompile(`(renameByName|excludeByName|mappings\[\]\.options)$`)

func TestTheDashboardFitsGrafanasSchema(t *testing.T) {
	text := read(t, "../config/monitoring/grafana/zonelect.json")
	found := func(text string) []string {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return misfits("", value)
	}
	for _, misfit := range found(text) {
		t.Error(misfit)
	}
	for right, wrong := range map[string]string{
		`"gridPos": {`:    `"gridpos": {`,
		`"mode": "multi"`: `"mode": "mulit"`,
		`"type": "query"`: `"type": "quest"`,
		`"refresh": 2`:    `"refresh": 7`,
		`"calcs": [],`:    ``,
	} {
		if with := strings.Replace(text, right, wrong, 1); with == text || len(found(with)) == 0 {
			t.Errorf("the dashboard has no %s, or may have %q", right, wrong)
		}
	}
}
