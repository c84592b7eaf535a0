// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
)

// sender is what the API server says of who sends a request.
func sender(username, pod, uid string) apitest.Object {
	extra := apitest.Object{}
	if pod != "" {
		extra["authentication.kubernetes.io/pod-name"], extra["authentication.kubernetes.io/pod-uid"] = []string{pod}, []string{uid}
	}
	return apitest.Object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
		"status": apitest.Object{"userInfo": apitest.Object{"username": username, "extra": extra}},
	}
}

func TestAPodIsConfirmedByTheServerAlone(t *testing.T) {
	const self = "system:serviceaccount:ns:default"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "uid-a"}}
	other := pod.DeepCopy()
	other.UID = "uid-b"
	for what, of := range map[string]struct {
		pod   *corev1.Pod
		may   bool           // read pods
		known apitest.Object // who the server says it is; nil for a server that does not say
		want  error
		says  string
	}{
		"there":                              {pod, true, nil, nil, ""},
		"gone":                               {nil, true, sender(self, "a", "uid-a"), ErrPodGone, "uid-a"},
		"another UID":                        {other, true, sender(self, "a", "uid-a"), ErrPodGone, "set POD_UID"},
		"not to be read":                     {pod, false, nil, locks.ErrForbidden, `needs verb "get" on pods`},
		"not to be read, and signed in":      {pod, false, sender(self, "a", "uid-a"), nil, ""},
		"not to be read, another's token":    {pod, false, sender(self, "a", "uid-b"), locks.ErrForbidden, ""},
		"not to be read, another pod":        {pod, false, sender(self, "b", "uid-a"), locks.ErrForbidden, ""},
		"not to be read, in another place":   {pod, false, sender("system:serviceaccount:ns2:default", "a", "uid-a"), locks.ErrForbidden, ""},
		"not to be read, a token of no pod":  {pod, false, sender(self, "", ""), locks.ErrForbidden, ""},
		"not to be read, nobody's namespace": {pod, false, sender("somebody", "a", "uid-a"), locks.ErrForbidden, ""},
	} {
		t.Run(what, func(t *testing.T) {
			server := apitest.NewServer()
			if of.pod != nil {
				server.Put("/api/v1/namespaces/ns/pods/a", of.pod)
			}
			server.Before = func(verb, path string) (int, apitest.Object) {
				switch {
				case strings.HasSuffix(path, "/selfsubjectreviews") && of.known == nil:
					return 404, apitest.NotFound(path)
				case strings.HasSuffix(path, "/selfsubjectreviews"):
					return 201, of.known
				case !of.may:
					return apitest.Forbidden(verb, path)
				}
				return 0, nil
			}
			err := Pod{Name: "a", UID: "uid-a"}.Confirm(t.Context(), apitest.Wire(t, server, corev1.SchemeGroupVersion), "ns")
			if !errors.Is(err, of.want) || of.want != nil && !strings.Contains(err.Error(), of.says) {
				t.Errorf("it is %v, want %v", err, of.want)
			}
		})
	}
}
