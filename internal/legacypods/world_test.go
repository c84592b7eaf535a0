// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const (
	podsPath   = "/api/v1/namespaces/ns/pods/"
	heartsPath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"
	appsPath   = "/apis/apps/v1/namespaces/ns/"
)

// world is a cluster with nodes that beat every ten seconds. The program's pod is "self",
// and the operator's pods have the label app=op.
type world struct {
	*apitest.Server
	t *testing.T
	// refuse returns the code to answer a request with, by verb and path, or zero.
	refuse func(verb, path string) int

	stop map[string]func()
}

func newWorld(t *testing.T) *world {
	w := &world{Server: apitest.NewServer(), t: t, stop: map[string]func(){}}
	w.Before = func(verb, path string) (int, apitest.Object) {
		code := 0
		if w.refuse != nil {
			code = w.refuse(verb, path)
		}
		switch code {
		case 0:
			return 0, nil
		case 403:
			return apitest.Forbidden(verb, path)
		default:
			return code, apitest.Status(code, "InternalError", "out of order", "", "")
		}
	}
	w.candidate("self")
	return w
}

// pod adds a pod that runs on a node.
func (w *world) pod(name, node string, changes ...func(*corev1.Pod)) {
	pod := podWith(changes...)
	pod.Name, pod.Spec.NodeName = name, node
	if pod.UID == "uid-p" {
		pod.UID = podOf(name).UID
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{"app": "op"}
	}
	w.Put(podsPath+name, pod)
}

// candidate adds a pod that has a presence, and returns the presence.
func (w *world) candidate(name string) presence.Object {
	w.pod(name, "n0")
	return w.present(podOf(name))
}

func (w *world) present(pod ownerref.Owner) presence.Object {
	client := apitest.Wire(w.t, w, coordinationv1.SchemeGroupVersion)
	said := presence.Object{Lock: "lock", Pod: presence.Pod{Name: pod.Name, UID: pod.UID}}
	o, err := presence.Ensure(w.t.Context(), client, "ns", said, nil, func(context.Context) error { return nil })
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// beat makes nodes beat from now on.
func (w *world) beat(names ...string) {
	for _, name := range names {
		ctx, cancel := context.WithCancel(context.Background())
		w.pulse(name)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for tick := time.NewTicker(heartbeat); ; {
				select {
				case <-tick.C:
					w.pulse(name)
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		}()
		w.stop[name] = func() { cancel(); <-done }
	}
}

func (w *world) pulse(name string) {
	lease := &coordinationv1.Lease{}
	lease.Name, lease.UID = name, types.UID("uid-heart-"+name)
	w.Put(heartsPath+name, lease)
}

// silence stops the heartbeats of nodes.
func (w *world) silence(names ...string) {
	for _, name := range names {
		w.stop[name]()
		delete(w.stop, name)
	}
}

// end stops all heartbeats, because no goroutine may outlive a bubble.
func (w *world) end() {
	for name := range w.stop {
		w.silence(name)
	}
}

// legacyPods returns a counter of the pods with app=op.
func (w *world) legacyPods(grace time.Duration, changes ...func(*Config)) *Counter {
	w.t.Helper()
	config := Config{
		Core:         apitest.Wire(w.t, w, corev1.SchemeGroupVersion),
		Apps:         apitest.Wire(w.t, w, appsv1.SchemeGroupVersion),
		Coordination: apitest.Wire(w.t, w, coordinationv1.SchemeGroupVersion),
		Namespace:    "ns", Lock: "lock", Self: podOf("self"),
		PodSelector: "app=op", LegacyGrace: grace,
	}
	for _, change := range changes {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// take takes a count, which must succeed.
func (w *world) take(c *Counter, owners ...ownerref.Owner) Count {
	w.t.Helper()
	count, err := c.Count(w.t.Context(), ownerref.Owner{}, owners)
	if err != nil {
		w.t.Fatal(err)
	}
	return count
}

// takeFor counts every second for that long, and returns the last count.
func (w *world) takeFor(c *Counter, d time.Duration) Count {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Second)
		w.take(c)
	}
	return w.take(c)
}

// counts takes counts for that long, and checks which pods the last one has.
func (w *world) counts(c *Counter, d time.Duration, want string) Count {
	w.t.Helper()
	got := w.takeFor(c, d)
	if text(got) != want {
		w.t.Errorf("after %v counted %s, want %s; it says %q", d, text(got), want, got.Note)
	}
	return got
}

// text names the pods of a count: those that may still lead, and those presumed gone.
func text(c Count) string {
	names := func(all []Standing) (names []string) {
		for _, p := range all {
			names = append(names, p.Pod.Name)
		}
		return names
	}
	return fmt.Sprint(names(c.Standing), names(c.Presumed))
}

// controlledBy makes a pod or another object belong to a controller.
func controlledBy(apiVersion, kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
}

func podOf(name string) ownerref.Owner {
	return ownerref.Owner{Name: name, UID: types.UID("uid-" + name)}
}
