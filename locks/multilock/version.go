// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"
)

// preconditions is the minor version of Kubernetes 1 from which on every
// garbage collector that may serve an API server of that version compares
// resourceVersions: they do since 1.34, and a controller manager may be one
// version older than the API server.
const preconditions = 35

// settle returns M7's wait. Where the server's version cannot be known, it is
// taken for an old one.
func (s *Shield) settle(ctx context.Context) time.Duration {
	if s.config.Settle != 0 {
		return max(0, s.config.Settle)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timing.AttemptTimeout)
	defer cancel()
	minor, err := s.minor(ctx)
	if err != nil {
		s.log().Info("the API server's version is not known: the garbage collector is taken for an old one", "settle", SettleDefault, "cause", err.Error())
	}
	if err != nil || minor < preconditions {
		return SettleDefault
	}
	return 0
}

func (s *Shield) minor(ctx context.Context) (int, error) {
	raw, err := s.config.Core.Get().AbsPath("/version").MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("ask for the API server's version: %w", err)
	}
	var v version.Info
	if err := json.Unmarshal(raw, &v); err != nil {
		return 0, fmt.Errorf("read the API server's version: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil || v.Major != "1" {
		return 0, fmt.Errorf("the API server's version %q cannot be read", v.GitVersion)
	}
	return minor, nil
}
