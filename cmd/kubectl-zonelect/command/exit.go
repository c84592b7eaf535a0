// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import "fmt"

// The exit codes, as the help of the root command lists them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3
	// exitInterrupted is that of shells after Ctrl-C.
	exitInterrupted = 130
)

// failure is an error with the exit code that it means.
type failure struct {
	error
	code int
}

func (f failure) Unwrap() error { return f.error }

// usage is the error of a command line that makes no sense.
func usage(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitUsage}
}

// refused is the error of a command that changed nothing, because the change would not be
// safe or --yes is missing.
func refused(format string, args ...any) error {
	return failure{fmt.Errorf(format, args...), exitRefused}
}
