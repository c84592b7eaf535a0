// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestEveryRuleOfEachModelIsSwitchedOffSomewhere(t *testing.T) {
	t.Parallel()
	atLeast := map[string]int{"shield": 30}
	for _, s := range suites {
		t.Run(s.model, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../../docs/model/" + s.model + ".pml")
			if err != nil {
				t.Fatal(err)
			}
			off := map[string]bool{}
			for _, r := range s.runs(false) {
				if r.rule == "" {
					continue
				}
				for _, m := range r.macros {
					name, _, _ := strings.Cut(m, "=")
					off[name] = true
				}
			}
			rules := regexp.MustCompile(`(?m)^#ifndef (M\d+[A-Z]*)$`).FindAllStringSubmatch(string(text), -1)
			if len(rules) < atLeast[s.model] {
				t.Fatalf("found %d rules in the model", len(rules))
			}
			for _, rule := range rules {
				if !off[rule[1]] {
					t.Errorf("no case switches off %s", rule[1])
				}
			}
		})
	}
}

func TestARuleIsSwitchedOffOnlyWhereAllRulesHold(t *testing.T) {
	t.Parallel()
	for _, s := range suites {
		holds := map[string]bool{}
		for _, w := range s.worlds {
			if holds[w.name] {
				t.Errorf("two worlds of %s are called %q", s.model, w.name)
			}
			holds[w.name] = true
		}
		for _, v := range s.off {
			if !holds[v.world] {
				t.Errorf("%s: %q is not a world that holds with all rules on", v.rule, v.world)
			}
		}
	}
}

func TestEveryMacroOfACaseIsOneOfItsModel(t *testing.T) {
	t.Parallel()
	for _, s := range suites {
		text, err := os.ReadFile("../../../docs/model/" + s.model + ".pml")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.runs(true) {
			for _, m := range r.macros {
				name, _, _ := strings.Cut(m, "=")
				if !strings.Contains(string(text), "#ifndef "+name+"\n") {
					t.Errorf("%s, %q: the model has no macro %s", s.model, r.name, name)
				}
			}
		}
	}
}
