// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package outlive

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// TestTheWorkOfALostTermNeverRunsBesideTheNext: only the leader is cut off from the API, and its
// reconciler ignores its context. It writes every 50 ms, and prints each write.
func TestTheWorkOfALostTermNeverRunsBesideTheNext(t *testing.T) {
	bed := trial.Bed(t, testbed.Config{WithoutControllers: true, WithoutNodes: true})
	client, err := kubernetes.NewForConfig(bed.Cluster.RESTConfig("zc"))
	must(t, err)
	const lock = "overlap"
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lock, Labels: map[string]string{"lock": lock}}}, metav1.CreateOptions{})
	must(t, err)
	must(t, bed.Network.SteerVIP("za", "zc"))
	old, err := trial.Start(t.Context(), bed, trial.Manager, "za", lock, lock+"-a", "--lasting", "--deaf")
	must(t, err)
	_, err = old.Await(t.Context(), "wrote", time.Time{})
	must(t, err)
	next, err := trial.Start(t.Context(), bed, trial.Manager, "zb", lock, lock+"-b", "--lasting")
	must(t, err)
	_, err = next.Await(t.Context(), "started", time.Time{})
	must(t, err)
	time.Sleep(3 * time.Second)
	cut := time.Now()
	must(t, bed.Network.Partition("za", "zc"))
	led, err := next.Await(t.Context(), "leading", cut)
	must(t, err)
	if err := old.Wait(t.Context()); err == nil {
		t.Error("the process whose work did not stop ended as if nothing had happened")
	}
	last := cut
	for _, e := range old.Events() {
		if e.Event == "wrote" {
			last = e.Time
		}
	}
	t.Logf("the old work last wrote %v after the cut, and the next leader's began %v after that", last.Sub(cut).Round(time.Millisecond), led.Time.Sub(last).Round(time.Millisecond))
	if !last.Before(led.Time) || last.Equal(cut) {
		t.Errorf("the old work wrote until %v, the next leader's work began at %v", last, led.Time)
	}
}
