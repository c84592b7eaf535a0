// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// readyTimeout bounds how long a part may take to become ready.
const readyTimeout = 90 * time.Second

// waitFor waits until a part of the control plane answers that it is ready, and
// fails at once when its process ends.
func (s *shared) waitFor(ctx context.Context, part *task, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client := s.client()
	defer client.CloseIdleConnections()
	err := poll(ctx, "wait until "+part.name+" is ready", func(ctx context.Context) error {
		if part.ended() {
			return backoff.Permanent(fmt.Errorf("it has ended: %w", part.err))
		}
		return get(ctx, client, url)
	})
	if err != nil {
		return fmt.Errorf("%w; its log ends with:\n%s", err, part.tail())
	}
	return nil
}

// get requests a URL as admin and expects status 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask whether it is ready: %w", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
