// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func model(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/model/shield.pml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryRuleOfTheModelIsSwitchedOffSomewhere(t *testing.T) {
	off := map[string]bool{}
	for _, r := range runs(false) {
		for _, m := range r.macros {
			name, _, _ := strings.Cut(m, "=")
			off[name] = off[name] || r.rule != ""
		}
	}
	rules := regexp.MustCompile(`(?m)^#ifndef (M\d+[A-Z]*)$`).FindAllStringSubmatch(model(t), -1)
	if len(rules) < 30 {
		t.Fatalf("found %d rules in the model", len(rules))
	}
	for _, rule := range rules {
		if !off[rule[1]] {
			t.Errorf("no case switches off %s", rule[1])
		}
	}
}

func TestARuleIsSwitchedOffOnlyWhereAllRulesHold(t *testing.T) {
	holds := map[string]bool{}
	for _, w := range worlds {
		if holds[w.name] {
			t.Errorf("two worlds are called %q", w.name)
		}
		holds[w.name] = true
	}
	for _, v := range variants {
		if !holds[v.world] {
			t.Errorf("%s: %q is not a world that holds with all rules on", v.rule, v.world)
		}
	}
}

func TestEveryMacroOfACaseIsOneOfTheModel(t *testing.T) {
	text := model(t)
	for _, r := range runs(true) {
		for _, m := range r.macros {
			name, _, _ := strings.Cut(m, "=")
			if !strings.Contains(text, "#ifndef "+name+"\n") {
				t.Errorf("%q: the model has no macro %s", r.name, name)
			}
		}
	}
}
