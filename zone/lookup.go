// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// ErrNoZone says that a node was read and has no zone label.
var ErrNoZone = errors.New("the node has no zone label")

// Lookup returns the zone of a node: its label topology.kubernetes.io/zone. core is a client of the core/v1 API,
// such as clientset.CoreV1().RESTClient(). It makes one request without retries, bounded only by ctx.
//
// Errors wrap ErrNoZone, locks.ErrForbidden if the permission to get the node is missing, or
// the client's error. After any of them a caller should go on without a zone.
func Lookup(ctx context.Context, core rest.Interface, node string) (string, error) {
	if core == nil || node == "" {
		return "", fmt.Errorf("looking up the zone of node %q: this needs a client and the node's name", node)
	}
	object, err := rawapi.New[corev1.Node](core, apierror.Object{Resource: apierror.Nodes, Name: node}).Get(ctx)
	if err == nil && object.Labels[corev1.LabelTopologyZone] == "" {
		err = fmt.Errorf("%w %s", ErrNoZone, corev1.LabelTopologyZone)
	}
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	return object.Labels[corev1.LabelTopologyZone], nil
}
