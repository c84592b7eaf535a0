// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	object := rawapi.New[corev1.Pod](core, apierror.Object{Resource: apierror.Pods, Namespace: namespace, Name: p.Name})
	pod, err := object.Get(ctx)
	switch {
	case object.Name().Absent(err):
		return fmt.Errorf("%w: pod %s (%s)", ErrPodGone, p.Name, p.UID)
	case errors.Is(err, locks.ErrForbidden):
		if s, asked := WhoSends(ctx, core); asked == nil && s.Namespace == namespace && s.Pod == p {
			return nil
		}
		return fmt.Errorf("%w: %w", errUnconfirmed, err)
	case err != nil:
		return fmt.Errorf("look whether this pod exists: %w", err)
	case pod.UID != p.UID:
		return fmt.Errorf("%w: pod %s has the UID %s, and this process was given %s: set POD_UID by the downward API (fieldRef metadata.uid); a static pod has another UID there than in the API", ErrPodGone, p.Name, pod.UID, p.UID)
	}
	return nil
}

// Sender is a pod by which the API server knows the sender of a request. The zero Sender is not a pod.
type Sender struct {
	Namespace string
	Pod       Pod
	Node      string // since Kubernetes 1.30
}

// WhoSends returns the pod that the API server takes the sender of a request for: since Kubernetes
// 1.28 it says so to all, by the token. It is none if the sender's token is bound to no pod.
// core must be a client for the core group, v1.
func WhoSends(ctx context.Context, core rest.Interface) (Sender, error) {
	const ask = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	raw, err := core.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).
		MaxRetries(0).Throttle(nil).Body([]byte(ask)).Do(ctx).Raw()
	if err != nil {
		return Sender{}, fmt.Errorf("asking the API server who this is: %w", err)
	}
	var answer authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(raw, &answer); err != nil {
		return Sender{}, fmt.Errorf("reading whom the API server takes this for: %w", err)
	}
	user := answer.Status.UserInfo
	says := func(what string) string {
		if values := user.Extra["authentication.kubernetes.io/"+what]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	account, isAccount := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, _, _ := strings.Cut(account, ":")
	pod := Pod{Name: says("pod-name"), UID: types.UID(says("pod-uid"))}
	if !isAccount || pod.Name == "" || pod.UID == "" {
		return Sender{}, nil
	}
	return Sender{Namespace: namespace, Pod: pod, Node: says("node-name")}, nil
}
