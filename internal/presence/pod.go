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

// Deployment is the name of the Deployment that the pod looks like one of, by its name alone; empty
// if it looks like none. A name that long may have been cut.
func (p Pod) Deployment() string {
	const longest, letters = 63, "bcdfghjklmnpqrstvwxz2456789" // of those that Kubernetes makes up
	end := strings.LastIndexByte(p.Name, '-')
	hash := strings.LastIndexByte(p.Name[:max(end, 0)], '-')
	madeUp := func(s string, least, most int) bool {
		return len(s) >= least && len(s) <= most && strings.Trim(s, letters) == ""
	}
	if hash <= 0 || len(p.Name) >= longest || !madeUp(p.Name[hash+1:end], 6, 10) || !madeUp(p.Name[end+1:], 5, 5) {
		return ""
	}
	return p.Name[:hash]
}

// ErrPodGone says that the API server knows no pod by that name and UID.
var ErrPodGone = errors.New("the own pod is gone")

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
	case errors.Is(err, locks.ErrForbidden) && p.isSender(ctx, core, namespace):
		return nil
	case err != nil:
		return fmt.Errorf("look whether the own pod exists: %w", err)
	case pod.UID != p.UID:
		return fmt.Errorf("%w: pod %s has the UID %s, and this process was given %s: set POD_UID by the downward API (fieldRef metadata.uid); a static pod has another UID there than in the API", ErrPodGone, p.Name, pod.UID, p.UID)
	}
	return nil
}

// isSender reports whether the API server takes the sender of a request for this pod.
func (p Pod) isSender(ctx context.Context, core rest.Interface, namespace string) bool {
	const ask = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	raw, err := core.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).
		MaxRetries(0).Throttle(nil).Body([]byte(ask)).Do(ctx).Raw()
	var answer authenticationv1.SelfSubjectReview
	if err != nil || json.Unmarshal(raw, &answer) != nil {
		return false
	}
	user := answer.Status.UserInfo
	of := func(what, is string) bool {
		return slices.Equal(user.Extra["authentication.kubernetes.io/"+what], authenticationv1.ExtraValue{is})
	}
	return strings.HasPrefix(user.Username, "system:serviceaccount:"+namespace+":") && of("pod-name", p.Name) && of("pod-uid", string(p.UID))
}
