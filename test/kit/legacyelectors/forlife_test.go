// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/zonelect/zonelect/test/kit/events"
)

// stage is an API with objects, and the output of one program.
type stage struct {
	t      *testing.T
	client *fake.Clientset

	mu  sync.Mutex
	led []time.Time // when work began
}

// scenario runs f in a bubble of virtual time.
func scenario(t *testing.T, f func(s *stage), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&stage{t: t, client: fake.NewSimpleClientset(objects...)})
	})
}

func (s *stage) print(e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Event == "leading" {
		s.led = append(s.led, time.Now())
	}
}

// terms returns when each term began.
func (s *stage) terms() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.led
}

// start runs a leader-for-life in a pod named me. The returned function stops
// it and waits for its end.
func (s *stage) start(v Variant) (stop func()) {
	f := &ForLife{Client: s.client, Variant: v, Namespace: "default", Lock: "lock", PodName: "me", PodUID: "me-uid", Print: s.print}
	return s.run(func(ctx context.Context) {
		f.Run(ctx, func(ctx context.Context, _ uint64) {
			s.print(events.Event{Event: "leading"})
			<-ctx.Done()
		})
	})
}

// run runs a program. The returned function stops it and waits for its end.
func (s *stage) run(program func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		program(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

func (s *stage) lock() *corev1.ConfigMap {
	s.t.Helper()
	lock, err := s.client.CoreV1().ConfigMaps("default").Get(s.t.Context(), "lock", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return lock
}

// changes returns the deletions and creations that were requested, in order.
func (s *stage) changes() (all []string) {
	s.t.Helper()
	for _, action := range s.client.Actions() {
		if d, ok := action.(clienttesting.DeleteActionImpl); ok {
			if d.DeleteOptions.Preconditions != nil {
				s.t.Errorf("the %s was not deleted by its bare name", action.GetResource().Resource)
			}
			all = append(all, "delete "+action.GetResource().Resource+" "+d.Name)
		}
	}
	return all
}

func (s *stage) setLock(lock *corev1.ConfigMap) {
	s.t.Helper()
	if _, err := s.client.CoreV1().ConfigMaps("default").Update(s.t.Context(), lock, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// act lists what each Variant deletes within a minute.
func act(t *testing.T, change func(s *stage), want map[Variant][]string, objects ...runtime.Object) {
	t.Helper()
	for v, want := range want {
		t.Run(string(v), func(t *testing.T) {
			own := make([]runtime.Object, len(objects)) // each run changes its own
			for i, object := range objects {
				own[i] = object.DeepCopyObject()
			}
			scenario(t, func(s *stage) {
				defer s.start(v)()
				change(s)
				time.Sleep(time.Minute)
				if got := s.changes(); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
				if led := len(s.terms()) > 0; led != slices.Contains(want, "delete configmaps lock") {
					t.Errorf("leads: %v", led)
				}
			}, own...)
		})
	}
}

func TestStaleDeletesWhateverHasTheLocksNameByThen(t *testing.T) {
	// While the program runs the lock passes to another pod, which is healthy.
	another := func(s *stage) {
		s.setLock(owned("Pod", "another"))
		if err := s.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod(terminating), "default"); err != nil {
			s.t.Fatal(err)
		}
	}
	act(t, another, map[Variant][]string{
		Original: nil,
		Stale:    {"delete configmaps lock", "delete pods leader"},
		NotReady: nil,
	}, owned("Pod", "leader"), pod(), pod(func(p *corev1.Pod) { p.Name = "another" }), node(corev1.ConditionTrue))
}

func TestNotreadyDeletesThePodThenTheLockOfASilentNode(t *testing.T) {
	act(t, func(*stage) {}, map[Variant][]string{
		Original: nil,
		Stale:    nil,
		NotReady: {"delete pods leader", "delete configmaps lock"},
	}, owned("Pod", "leader"), pod(), node(corev1.ConditionUnknown))
}
