// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// Pod is the pod that a presence belongs to.
type Pod struct {
	Name string
	UID  types.UID
}

// object is the pod in the API.
func (p Pod) object(core rest.Interface, namespace string) rawapi.Object[corev1.Pod, *corev1.Pod] {
	return rawapi.New[corev1.Pod](core, apierror.Object{Resource: apierror.Pods, Namespace: namespace, Name: p.Name})
}

// ErrPodGone says that the API server knows no pod by that name and UID.
var ErrPodGone = errors.New("this pod is gone")

// errUnconfirmed says that this process may not see whether its pod exists.
var errUnconfirmed = errors.New("whether this pod exists is not known")

// Confirm reads a pod of this process, and returns nil if the API server knows it by that UID. Only
// then may the pod own an object: the garbage collector deletes whatever has an owner that it
// cannot find. The error wraps ErrPodGone if there is no such pod. core must be a client for the
// core group, v1.
//
// Who may not read pods is known as well by a token that is bound to the pod: since Kubernetes 1.28
// the API server tells whom it takes the sender for, and asks for no permission.
func (p Pod) Confirm(ctx context.Context, core rest.Interface, namespace string) error {
	object := p.object(core, namespace)
	pod, err := object.Get(ctx)
	switch {
	case object.Name().Absent(err):
		return fmt.Errorf("%w: pod %s (%s)", ErrPodGone, p.Name, p.UID)
	case errors.Is(err, locks.ErrForbidden):
		if p.sends(ctx, core, namespace) {
			return nil
		}
		return fmt.Errorf("%w: %w", errUnconfirmed, err)
	case err != nil:
		return fmt.Errorf("look whether this pod exists: %w", err)
	case pod.UID != p.UID:
		return fmt.Errorf("%w: pod %s has the UID %s, and this process was given %s: set POD_UID by the downward API (fieldRef metadata.uid); "+
			"a static pod has another UID there than in the API", ErrPodGone, p.Name, pod.UID, p.UID)
	}
	return nil
}

// sends reports whether the API server takes the sender of a request for this pod: since Kubernetes 1.28
// it says so to all, by the token.
func (p Pod) sends(ctx context.Context, core rest.Interface, namespace string) bool {
	const ask = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	raw, err := core.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).
		MaxRetries(0).Throttle(nil).Body([]byte(ask)).Do(ctx).Raw()
	var answer authenticationv1.SelfSubjectReview
	if err != nil || json.Unmarshal(raw, &answer) != nil {
		return false
	}
	user := answer.Status.UserInfo
	says := func(what, is string) bool {
		return slices.Equal(user.Extra["authentication.kubernetes.io/"+what], []string{is})
	}
	return strings.HasPrefix(user.Username, "system:serviceaccount:"+namespace+":") &&
		says("pod-name", p.Name) && says("pod-uid", string(p.UID))
}
