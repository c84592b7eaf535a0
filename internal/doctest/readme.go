// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"regexp"
	"testing"
)

var program = regexp.MustCompile("(?s)```go\n(func main.*?)```")

// ReadmesProgram returns the program that the README at path shows, with what it needs to be
// one file.
func ReadmesProgram(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block := program.FindSubmatch(raw)
	if block == nil {
		t.Fatalf("%s has no program", path)
	}
	return `package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

` + string(block[1])
}
