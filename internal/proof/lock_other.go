// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proof

import (
	"errors"
	"time"
)

// takeLock takes nothing: there are no abstract sockets here.
func takeLock(string) (socket string, taken bool) { return "", false }

// processStart is known on Linux only.
func processStart() (time.Time, error) {
	return time.Time{}, errors.New("when this process started is known on Linux only")
}
