// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// ServerMinor asks the API server for its version and returns the minor one of
// Kubernetes 1, such as 36. Any client will do.
func ServerMinor(ctx context.Context, client rest.Interface) (int, error) {
	v, err := ServerVersion(ctx, client)
	if err != nil {
		return 0, err
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil || v.Major != "1" {
		return 0, fmt.Errorf("the API server's version %q cannot be read", v.GitVersion)
	}
	return minor, nil
}

// ServerVersion asks the API server for its version.
func ServerVersion(ctx context.Context, client rest.Interface) (version.Info, error) {
	var v version.Info
	raw, err := client.Verb(http.MethodGet).AbsPath("/version").MaxRetries(0).Throttle(nil).Do(ctx).Raw()
	if err != nil {
		return v, fmt.Errorf("ask for the API server's version: %w", err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("read the API server's version: %w", err)
	}
	return v, nil
}
