// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"regexp"
	"testing"
)

var program = regexp.MustCompile("(?s)```go\n(func main.*?)```")

// ReadmesProgram returns the program that the README's text shows, with what it needs to be one
// file.
func ReadmesProgram(t testing.TB, readme []byte) string {
	t.Helper()
	block := program.FindSubmatch(readme)
	if block == nil {
		t.Fatal("the README has no program")
	}
	return `package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

` + string(block[1])
}
