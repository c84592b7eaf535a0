// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"k8s.io/client-go/rest"
)

// bound is what a service account's token says of the pod that it is bound to.
type bound struct {
	Namespace string
	Pod, Node named
}

// fromToken returns the pod that the token of cfg is bound to; none if it is bound to none. It
// reads the claims that Kubernetes puts into a service account's token (KEP-4193: the node since
// Kubernetes 1.30), and does not verify them, because this process's own API server does that
// with each request. No other token counts: that of a pod's service account says nothing to the
// API server of another cluster.
func fromToken(cfg *rest.Config) bound {
	token := cfg.BearerToken
	if raw, err := os.ReadFile(cfg.BearerTokenFile); err == nil { //nolint:gosec // the program or its kubeconfig names it
		token = string(raw)
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return bound{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Kubernetes bound `json:"kubernetes.io"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return bound{}
	}
	if pod := claims.Kubernetes.Pod; pod.Name == "" || pod.UID == "" {
		return bound{}
	}
	return claims.Kubernetes
}
