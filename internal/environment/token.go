// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/transport"
)

// mostToken is how many bytes of a token file are read. The API server takes no header that long.
const mostToken = 64 << 10

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
	if cfg.BearerTokenFile != "" {
		token = cmp.Or(read(cfg.BearerTokenFile), token)
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

// read returns the content of a token file, or nothing if it cannot be read or is not a token.
func read(path string) string {
	f, err := os.Open(path) //nolint:gosec // the program or its kubeconfig names it
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, mostToken+1))
	if err != nil || len(raw) > mostToken {
		return ""
	}
	return string(raw)
}

// usable returns s if its names are such as Kubernetes gives, and no sender otherwise.
func usable(s presence.Sender) presence.Sender {
	const mostUID = 128 // 36 as a rule
	if len(validation.IsDNS1123Subdomain(s.Pod.Name)) > 0 || len(validation.IsDNS1123Label(s.Namespace)) > 0 ||
		len(s.Pod.UID) > mostUID || !madeUp(string(s.Pod.UID)) {
		return presence.Sender{}
	}
	if len(validation.IsDNS1123Subdomain(s.Node)) > 0 {
		s.Node = ""
	}
	return s
}

// madeUp reports whether a text may be a UID.
func madeUp(uid string) bool { return uid != "" && readable(uid) == uid }

// fromServer asks the API server which pod it takes this process for. That needs no permission, and
// Kubernetes 1.28. It returns none if the server does not say, for whatever reason.
func fromServer(ctx context.Context, cfg *rest.Config, log logr.Logger) presence.Sender {
	if cfg == nil {
		return presence.Sender{}
	}
	s, err := asked(ctx, cfg, startPatience, presence.WhoSends)
	if err != nil {
		log.V(1).Info("the API server does not say which pod this is", "cause", err.Error())
		return presence.Sender{}
	}
	return usable(s)
}

// asked puts a question about this process to the API server, on connections that are closed
// afterwards.
func asked[T any](ctx context.Context, cfg *rest.Config, most patienceOf, ask func(context.Context, rest.Interface) (T, error)) (answer T, err error) {
	cfg = Named(cfg)
	tr, err := transport.New(cfg, transport.Options{})
	if err != nil {
		return answer, err
	}
	defer tr.CloseConnections()
	client, err := restClient(cfg, tr, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme)
	if err != nil {
		return answer, err
	}
	return rawapi.Ask(ctx, most.overtakes, most.all, func(ctx context.Context) (T, error) { return ask(ctx, client) })
}
