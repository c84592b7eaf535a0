// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile waits until this process alone holds the lock. The returned function
// releases it. If the process dies, the kernel releases it. Who waits for long is told why.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock file: %w", err)
	}
	say := time.AfterFunc(10*time.Second, func() {
		fmt.Fprintf(os.Stderr, "Waiting for the lock %s: another process builds the same programs.\n", name)
	})
	defer say.Stop()
	err = poll(ctx, "wait for the lock "+name, func(context.Context) error {
		return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { file.Close() }, nil
}
