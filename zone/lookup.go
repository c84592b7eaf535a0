// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/locks"
)

// ErrNoZone says that a node was read and has no zone label.
var ErrNoZone = errors.New("the node has no zone label")

// metadataOnly asks for the labels alone, because a node's status is large. A server that
// cannot do that sends the whole node, which works too.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"

// Lookup returns the zone of a node: its label topology.kubernetes.io/zone. core is a client of the core/v1 API,
// such as clientset.CoreV1().RESTClient(). It makes one request without retries, bounded only by ctx.
//
// Errors wrap ErrNoZone, locks.ErrForbidden if the permission to get the node is missing, or
// the client's error. After any of them a caller should go on without a zone.
func Lookup(ctx context.Context, core rest.Interface, node string) (string, error) {
	if core == nil || node == "" {
		return "", fmt.Errorf("looking up the zone of node %q: this needs a client and the node's name", node)
	}
	answer := core.Get().Resource("nodes").Name(node).SetHeader("Accept", metadataOnly).MaxRetries(0).Do(ctx)
	err := answer.Error()
	var object metav1.PartialObjectMetadata
	if err == nil {
		raw, _ := answer.Raw() // there is no error
		if err = json.Unmarshal(raw, &object); err != nil {
			err = fmt.Errorf("reading the answer: %w", err)
		}
	}
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("looking up the zone: %w: needs verb \"get\" on node %q (grant it on nodes in a ClusterRole, or set the zone "+
			"explicitly): %w", locks.ErrForbidden, node, err)
	}
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	if z := object.Labels[corev1.LabelTopologyZone]; z != "" {
		return z, nil
	}
	return "", fmt.Errorf("looking up the zone of node %q: %w %s", node, ErrNoZone, corev1.LabelTopologyZone)
}
