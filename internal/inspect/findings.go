// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import "fmt"

// Findings are remarks about an election, in words.
type Findings struct {
	// Warnings say what may become a problem.
	Warnings []string `json:"warnings,omitempty"`
	// Notes say what no field does.
	Notes []string `json:"notes,omitempty"`
}

// Warn adds a warning.
func (f *Findings) Warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// Note adds one.
func (f *Findings) Note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// Many is a number of things.
func Many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
