// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// How often poll asks again, and how long one answer may take.
const (
	pollInterval = 50 * time.Millisecond
	pollAttempt  = 3 * time.Second
)

// poll asks until the answer is nil, the error is permanent, or ctx ends.
func poll(ctx context.Context, what string, ask func(context.Context) error) error {
	last := errors.New("none")
	attempt := func() error {
		one, cancel := context.WithTimeout(ctx, pollAttempt)
		defer cancel()
		if err := ask(one); err != nil {
			last = err
			return err
		}
		return nil
	}
	err := backoff.Retry(attempt, backoff.WithContext(backoff.NewConstantBackOff(pollInterval), ctx))
	if err != nil {
		return fmt.Errorf("%s: %w (last answer: %w)", what, err, last)
	}
	return nil
}
