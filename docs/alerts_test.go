// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// alert is a rule of config/monitoring/prometheus/rules.yaml.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alerts returns the rules, of which there are some.
func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../config/monitoring/prometheus/rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 5 {
		t.Fatalf("only %d rules were found", len(all))
	}
	return all
}

var (
	prometheusRow   = regexp.MustCompile("(?m)^\\| `[a-z_.]+` \\| ([a-z ]+) \\| [^|]* \\| ([^|]*) \\| [^|]* \\| `([a-z_]+)` \\|$")
	quotedAttribute = regexp.MustCompile("`([a-z0-9_.]+)`")
	grouping        = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right) ?\(([^)]*)\)`)
	matchers        = regexp.MustCompile(`\{([^}]*)\}`)
	matched         = regexp.MustCompile(`(\w+) ?(?:=~|!~|!=|=)`)
	ours            = regexp.MustCompile(`\b(?:leader_)?election_[a-z_]+\b`)
)

// exposed is what Prometheus has by docs/metrics.md: the names of series, and of labels.
type exposed struct{ series, labels map[string]bool }

func reference(t *testing.T) exposed {
	t.Helper()
	e := exposed{map[string]bool{}, map[string]bool{}}
	for _, r := range prometheusRow.FindAllStringSubmatch(read(t, "metrics.md"), -1) {
		names := []string{r[3]}
		if r[1] == "histogram" {
			names = []string{r[3] + "_bucket", r[3] + "_count", r[3] + "_sum"}
		}
		for _, name := range names {
			e.series[name] = true
		}
		for _, a := range quotedAttribute.FindAllStringSubmatch(r[2], -1) {
			e.labels[strings.ReplaceAll(a[1], ".", "_")] = true
		}
	}
	if len(e.series) < 13 {
		t.Fatalf("metrics.md has only %d series", len(e.series))
	}
	return e
}

// check reports each name in a query that Prometheus does not have. Labels that are not ours
// are those of the scrape, such as job.
func (e exposed) check(t *testing.T, where, query string) {
	t.Helper()
	var labels []string
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		labels = append(labels, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	for _, m := range matchers.FindAllStringSubmatch(query, -1) {
		for _, l := range matched.FindAllStringSubmatch(m[1], -1) {
			labels = append(labels, l[1])
		}
	}
	for _, l := range labels {
		if scraped := []string{"job", "instance", "pod", "le", "alertname", "alertstate"}; !e.labels[l] && !slices.Contains(scraped, l) {
			t.Errorf("%s: the reference has no attribute %s", where, l)
		}
	}
	found := ours.FindAllString(matchers.ReplaceAllString(grouping.ReplaceAllString(query, ""), ""), -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric of ours is in %s", where, query)
	}
	for _, name := range found {
		if !e.series[name] {
			t.Errorf("%s: the reference has no %s", where, name)
		}
	}
}

func TestEveryMetricOfAnAlertIsInTheReference(t *testing.T) {
	e := reference(t)
	for _, a := range alerts(t) {
		e.check(t, a.Alert, a.Expr)
	}
}

func TestEveryAlertHasItsParagraphAndEveryParagraphItsAlert(t *testing.T) {
	sections := map[string]string{}
	for _, s := range strings.Split(read(t, "alerts.md"), "\n## ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		if strings.HasPrefix(name, "Zonelect") {
			sections[name] = text
		}
	}
	for _, a := range alerts(t) {
		if !strings.Contains(sections[a.Alert], "`kubectl zonelect ") {
			t.Errorf("the paragraph of %s names no command: %q", a.Alert, sections[a.Alert])
		}
		delete(sections, a.Alert)
		if want := "https://github.com/zonelect/zonelect/blob/main/docs/alerts.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Labels["severity"] == "" {
			t.Errorf("%s has no summary, description or severity", a.Alert)
		}
		if !strings.Contains(read(t, "../config/monitoring/prometheus/rules_test.yaml")+read(t, "../config/monitoring/prometheus/week_test.yaml"), `alertname="`+a.Alert+`"`) {
			t.Errorf("no case of the rules' tests has %s fire", a.Alert)
		}
	}
	for name := range sections {
		t.Errorf("alerts.md has %s, and there is no such alert", name)
	}
}

// TestTheRulesFitAPrometheusRule by the command that the document tells.
func TestTheRulesFitAPrometheusRule(t *testing.T) {
	var command string
	for _, line := range strings.Split(read(t, "alerts.md"), "\n") {
		if code, is := strings.CutPrefix(line, "    "); is {
			command += code + "\n"
		}
	}
	command, _, is := strings.Cut(command, " | kubectl")
	if !is {
		t.Fatal("alerts.md has no such command")
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Dir = ".."
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(out, &rule); err != nil || rule.Kind != "PrometheusRule" || rule.Spec["groups"] == nil {
		t.Errorf("the command makes %+v: %v", rule, err)
	}
}

// TestPrometheusTakesTheRules, and each alert fires and clears as its tests say.
func TestPrometheusTakesTheRules(t *testing.T) {
	if testing.Short() {
		t.Skip("its week takes seconds")
	}
	tests, err := filepath.Glob("../config/monitoring/prometheus/*_test.yaml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("there are the tests %v: %v", tests, err)
	}
	for _, args := range [][]string{{"check", "rules", "../config/monitoring/prometheus/rules.yaml"}, append([]string{"test", "rules"}, tests...)} {
		promtool(t, args...)
	}
}

// promtool runs promtool, which must find no fault. It skips the test if there is none.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool; Debian's package prometheus has it")
	}
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
