// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits until this process alone holds the lock. The returned function
// releases it. If the process dies, the kernel releases it.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock file: %w", err)
	}
	err = poll(ctx, "wait for the lock "+name, func(context.Context) error {
		return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { file.Close() }, nil
}
