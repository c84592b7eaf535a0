// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestAPodThatTheServerDoesNotKnowOwnsNothing: the garbage collector leaves the heartbeat's Lease
// alone, so that the process keeps its term. In good order it deletes that Lease itself.
func TestAPodThatTheServerDoesNotKnowOwnsNothing(t *testing.T) {
	b := trial.Bed(t, testbed.Config{Zones: []string{"za"}, Network: testbed.Links})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	_, err = client.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "op"}}, metav1.CreateOptions{})
	must(t, err)
	pod := testbed.PodManifest("za", "op-1", "default", nil)
	pod.Spec.ServiceAccountName = "op"
	pod, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	t.Run("its own token", func(t *testing.T) {
		bound := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
		token, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), pod.Spec.ServiceAccountName,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
		must(t, err)
		cfg := rest.AnonymousClientConfig(b.Cluster.RESTConfig("za"))
		cfg.BearerToken = token.Status.Token
		self, err := kubernetes.NewForConfig(cfg)
		must(t, err)
		core := self.CoreV1().RESTClient()
		must(t, presence.Pod{Name: pod.Name, UID: pod.UID}.Confirm(t.Context(), core, "default"))
		if err := (presence.Pod{Name: pod.Name, UID: "another"}).Confirm(t.Context(), core, "default"); !errors.Is(err, locks.ErrForbidden) {
			t.Errorf("with another UID, and without the right to read pods: %v", err)
		}
	})
	for what, uid := range map[string]string{"its own UID": string(pod.UID), "another UID": "11111111-2222-3333-4444-555555555555"} {
		t.Run(what, func(t *testing.T) {
			leases := client.CoordinationV1().Leases("default")
			events, err := leases.Watch(t.Context(), metav1.ListOptions{LabelSelector: "zonelect.dev/role=heartbeat"})
			must(t, err)
			defer events.Stop()
			const span = 20 * time.Second
			ctx, stop := context.WithTimeout(t.Context(), span)
			defer stop()
			began, led, terms := time.Now(), time.Duration(0), 0
			group, err := heartbeat.NewGroup(ctx, "op", operator.Options{
				Config: b.Cluster.RESTConfig("za"), Namespace: "default", Timing: election.Timing{Exclusive: true},
				Self: operator.SelfOptions{PodName: pod.Name, PodUID: uid, Namespace: "default", Zone: "za"},
			})
			must(t, err)
			must(t, group.Run(ctx, "op", func(ctx context.Context, _ election.Term) error {
				terms++
				from := time.Now()
				<-ctx.Done()
				led += time.Since(from)
				return nil
			}))
			share := 100 * led / span
			made, gone := 0, 0
			for over := time.After(time.Second); over != nil; {
				select {
				case e := <-events.ResultChan():
					switch e.Type {
					case watch.Added:
						made++
					case watch.Deleted:
						gone++
					}
				case <-over:
					over = nil
				}
			}
			t.Logf("in %v %d terms, led %d%% of the time; the heartbeat's Lease was made %d times and deleted %d times", time.Since(began), terms, share, made, gone)
			if terms != 1 || share < 75 || made != 1 || gone != 1 {
				t.Error("want one term, and one Lease that its process deletes")
			}
		})
	}
}
