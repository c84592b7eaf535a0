// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
)

// found returns what the group of an expression matches in a text, once each and in order.
func found(t *testing.T, expression, text string) []string {
	t.Helper()
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	if len(all) == 0 {
		t.Errorf("nothing is like %s", expression)
	}
	return slices.Sorted(maps.Keys(all))
}

func equal(t *testing.T, what string, documented, is []string) {
	t.Helper()
	if !slices.Equal(documented, is) {
		t.Errorf("%s: documented are %q, and there are %q", what, documented, is)
	}
}

func TestTheTablesOfTracesAreThoseOfTheCode(t *testing.T) {
	shared := ` "election.lock.name" "election.lock.kind" "election.cause"` + // with metrics
		` "election.holder.zone" "election.previous.zone"`
	var cells string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllString(read(t, "tracing.md"), -1) {
		cells += row
	}
	equal(t, "spans and attributes", found(t, "`((?:election|error|http)\\.[a-z_.]+)`", cells+"`election.failover`"), // the text is about it
		found(t, `"((?:election|error|http)\.[a-z_.]+)"`, read(t, "../election/telemetry.go")+shared))
}

// TestAlertsAndDashboardAskForMetricsThatExist by their names in Prometheus.
func TestAlertsAndDashboardAskForMetricsThatExist(t *testing.T) {
	series := found(t, "\\| `([a-z_]+)` \\|\n", read(t, "metrics.md"))
	labels := found(t, "`(election\\.[a-z.]+|name)`", read(t, "metrics.md"))
	for i, l := range labels {
		labels[i] = strings.ReplaceAll(l, ".", "_")
	}
	for _, file := range []string{"prometheus/rules.yaml", "grafana/zonelect.json"} {
		for _, name := range found(t, `\b((?:leader_)?election_[a-z_]+)\b`, read(t, "../config/monitoring/"+file)) {
			stem := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			if !slices.Contains(series, stem) && !slices.Contains(labels, name) {
				t.Errorf("%s: no metric or attribute is %s", file, name)
			}
		}
	}
}

func TestEveryAlertHasItsParagraph(t *testing.T) {
	rules, page := read(t, "../config/monitoring/prometheus/rules.yaml"), read(t, "alerts.md")
	alerts := found(t, `alert: (\w+)`, rules)
	equal(t, "alerts", found(t, `(?m)^## (Zonelect\w+)$`, page), alerts)
	for _, a := range alerts {
		if !strings.Contains(rules, "/docs/alerts.md#"+strings.ToLower(a)+"\n") {
			t.Errorf("no runbook leads to the paragraph of %s", a)
		}
	}
}

// TestPrometheusTakesTheRules, and each alert fires and clears as its tests say.
func TestPrometheusTakesTheRules(t *testing.T) {
	program, err := exec.LookPath("promtool")
	if err != nil || testing.Short() {
		t.Skip("its week takes seconds, and it needs promtool, which Debian's package prometheus has")
	}
	tests, _ := filepath.Glob("../config/monitoring/prometheus/*_test.yaml") // without one promtool fails
	check := []string{"check", "rules", "../config/monitoring/prometheus/rules.yaml"}
	for _, args := range [][]string{check, append([]string{"test", "rules"}, tests...)} {
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestThePageOfAnnotationsHasEachOne that the code reads or writes.
func TestThePageOfAnnotationsHasEachOne(t *testing.T) {
	var code strings.Builder
	for name, text := range files(t, ".go") {
		if top, _, _ := strings.Cut(name, "/"); (top == "internal" || top == "locks") && !strings.HasSuffix(name, "_test.go") {
			code.WriteString(text)
		}
	}
	page := read(t, "annotations.md")
	for _, a := range found(t, `"zonelect\.dev(/[a-z-]+)"`, code.String()) {
		if !strings.Contains(page, a+"`") {
			t.Errorf("the page of annotations has no zonelect.dev%s", a)
		}
	}
}

// TestTheReferenceHasEachFlag with its variable, its default and its meaning.
func TestTheReferenceHasEachFlag(t *testing.T) {
	page := read(t, "reference.md")
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(operator.Options).AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		def := ""
		if d := strings.Trim(f.DefValue, "[]"); d != "" {
			def = "`" + d + "` "
		}
		name := fmt.Sprintf("| `--%s`<br>`%s` |", f.Name, strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")))
		rest := " | " + def + "| " + f.Usage + " |\n"
		if !regexp.MustCompile(regexp.QuoteMeta(name) + ".*" + regexp.QuoteMeta(rest)).MatchString(page) {
			t.Errorf("docs/reference.md lacks the row\n%s ...%s", name, rest)
		}
	})
}

// TestTheTableOfTimingsIsComputed: docs/timing.md says what follows from each timing that has a name.
func TestTheTableOfTimingsIsComputed(t *testing.T) {
	page := read(t, "timing.md")
	for _, named := range []struct {
		name string
		of   timing.Timing
	}{{"`default`", timing.Timing{}.WithDefaults()}, {"[`fast`](#fast)", timing.Fast()}, {"[`patient`](#patient)", timing.Patient()}} {
		takeover, answer := named.of.Bounds()
		row := "| " + named.name
		of := named.of
		for _, d := range []time.Duration{
			of.LeaseDuration, of.RenewDeadline, of.RenewInterval, of.AttemptTimeout, takeover, answer, of.StopGrace,
		} {
			row += fmt.Sprintf(" | %g s", d.Seconds())
		}
		row += fmt.Sprintf(" | %d |\n", 24*time.Hour/named.of.RenewInterval)
		if !strings.Contains(page, row) {
			t.Errorf("docs/timing.md lacks the row\n%s", row)
		}
	}
}

// TestTheTableOfKubernetesHasTheVersionsThatAreTested: the one of the tests' control plane, and those of "make compat".
func TestTheTableOfKubernetesHasTheVersionsThatAreTested(t *testing.T) {
	const source = "../test/programs/controlplane/"
	tested := found(t, `k8s\.io/kubernetes v(\S+)`, read(t, source+"go.mod"))
	older, _ := filepath.Glob(source + "v*.mod") // the pattern is well-formed
	for _, file := range older {
		tested = append(tested, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".mod"))
	}
	slices.Sort(tested)
	_, section, _ := strings.Cut(read(t, "compatibility.md"), "\n## Kubernetes\n")
	equal(t, "versions of Kubernetes", found(t, `[ |](1\.\d+\.\d+)\b`, section), tested)
}

// TestTheReferenceHasEachCause of a takeover, and no other.
func TestTheReferenceHasEachCause(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "reference.md"), "\n## Causes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	is := found(t, `Cause = "([a-z]+)"`, read(t, "../election/status/status.go"))
	equal(t, "causes", found(t, "(?m)^\\| `([a-z]+)` \\|", section), is)
}
