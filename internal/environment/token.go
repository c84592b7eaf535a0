// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/transport"
)

// fromToken returns the pod that the token of cfg is bound to; none if it is bound to none. It
// reads the claims that Kubernetes puts into a service account's token (KEP-4193: the node since
// Kubernetes 1.30), and does not verify them, because this process's own API server does that
// with each request. No other token counts: that of a pod's service account says nothing to the
// API server of another cluster.
func fromToken(cfg *rest.Config) presence.Sender {
	if cfg == nil {
		return presence.Sender{}
	}
	token := cfg.BearerToken
	if raw, err := os.ReadFile(cfg.BearerTokenFile); err == nil { //nolint:gosec // the program or its kubeconfig names it
		token = string(raw)
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return presence.Sender{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return presence.Sender{}
	}
	var claims struct {
		Kubernetes struct {
			Namespace string
			Pod, Node struct{ Name, UID string }
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(raw, &claims) != nil {
		return presence.Sender{}
	}
	is := claims.Kubernetes
	return usable(presence.Sender{Namespace: is.Namespace, Pod: presence.Pod{Name: is.Pod.Name, UID: types.UID(is.Pod.UID)}, Node: is.Node.Name})
}

// usable returns s if it names a pod with its UID, and no sender otherwise.
func usable(s presence.Sender) presence.Sender {
	if s.Pod.Name == "" || s.Pod.UID == "" {
		return presence.Sender{}
	}
	return s
}

// fromServer asks the API server which pod it takes this process for. That needs no permission, and
// Kubernetes 1.28. It returns none if the server does not say, for whatever reason.
func fromServer(ctx context.Context, cfg *rest.Config, log logr.Logger) presence.Sender {
	if cfg == nil {
		return presence.Sender{}
	}
	s, err := ask(ctx, cfg, startPatience, presence.WhoSends)
	if err != nil {
		log.V(1).Info("the API server does not say which pod this is", "cause", err.Error())
		return presence.Sender{}
	}
	return usable(s)
}

// ask puts a question about this process to the API server, for most at the longest, on connections
// that are closed afterwards.
func ask[T any](ctx context.Context, cfg *rest.Config, most time.Duration, question func(context.Context, rest.Interface) (T, error)) (answer T, err error) {
	cfg = Named(cfg)
	tr, err := transport.New(cfg, transport.Options{})
	if err != nil {
		return answer, err
	}
	defer tr.CloseConnections()
	client, err := restClient(cfg, tr, corev1.SchemeGroupVersion)
	if err != nil {
		return answer, err
	}
	return rawapi.Ask(ctx, timing.DefaultRenewInterval, most, func(ctx context.Context) (T, error) { return question(ctx, client) })
}
