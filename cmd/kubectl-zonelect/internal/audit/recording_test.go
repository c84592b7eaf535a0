// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
)

// recording is what a real API server showed of a real elector: TestAuditJudgesRealElectors of
// test/suites/e2e wrote it, with -record.
type recording struct {
	Kubernetes string                  `json:"kubernetes"`
	Began      time.Time               `json:"began"`
	Watched    int64                   `json:"watchedMilliseconds"`
	Leases     []*coordinationv1.Lease `json:"leases"`
	Events     []event                 `json:"events"`

	ConfigMaps, Endpoints [2][]metav1.PartialObjectMetadata
	Pods                  []corev1.Pod  `json:"pods"`
	Nodes                 []corev1.Node `json:"nodes"`

	unread string // why pods and nodes may not be read; empty if they may
}

type event struct {
	After  int64                 `json:"afterMilliseconds"`
	Type   string                `json:"type"`
	Object *coordinationv1.Lease `json:"object"`
}

func load(t *testing.T, name string) *recording {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{}
	if err := json.Unmarshal(raw, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// recorded are the names of all recordings.
func recorded(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	return names
}

// cluster is what the plugin would have read.
func (r *recording) cluster() Cluster {
	w, ended := NewWatch(), r.Began.Add(time.Duration(r.Watched)*time.Millisecond)
	w.List(r.Began, r.Leases)
	for _, e := range r.Events {
		at := r.Began.Add(time.Duration(e.After) * time.Millisecond)
		switch e.Type {
		case "DELETED":
			w.Deleted(at, e.Object)
		case "LISTED": // the watch had ended
			w.List(at, []*coordinationv1.Lease{e.Object})
		default:
			w.Written(at, e.Object)
		}
	}
	c := Cluster{Watched: ended.Sub(r.Began), Now: ended, Elections: w.Elections()}
	c.Elections = append(c.Elections, Records(OnConfigMap, r.ConfigMaps[0], r.ConfigMaps[1], r.Began, ended)...)
	c.Elections = append(c.Elections, ForLife(r.ConfigMaps[1], ended)...)
	c.Elections = append(c.Elections, Records(OnEndpoints, r.Endpoints[0], r.Endpoints[1], r.Began, ended)...)
	c.Pods, c.Zones = doctor.Fact[[]Pod]{Unknown: r.unread}, doctor.Fact[map[string]string]{Unknown: r.unread, Value: map[string]string{}}
	if r.unread == "" {
		for _, p := range r.Pods {
			c.Pods.Value = append(c.Pods.Value, PodOf(&p))
		}
		for _, n := range r.Nodes {
			c.Zones.Value[n.Name] = n.Labels[corev1.LabelTopologyZone]
		}
	}
	return c
}

// judged returns the verdicts on a recording.
func (r *recording) judged() []Report {
	reports, _ := r.cluster().Judge()
	return reports
}

// The changes by which weaknesses are planted.

type change func(*recording)

// lease changes each Lease that was seen.
func lease(do func(l *coordinationv1.Lease, after time.Duration)) change {
	return func(r *recording) {
		for _, l := range r.Leases {
			do(l, 0)
		}
		for _, e := range r.Events {
			do(e.Object, time.Duration(e.After)*time.Millisecond)
		}
	}
}

func lasts(seconds int32) change {
	return lease(func(l *coordinationv1.Lease, _ time.Duration) { l.Spec.LeaseDurationSeconds = &seconds })
}

// silentAfter drops what was seen later.
func silentAfter(d time.Duration) change {
	return func(r *recording) {
		for i, e := range r.Events {
			if e.After > d.Milliseconds() {
				r.Events = r.Events[:i]
				return
			}
		}
	}
}

// pausing drops what was seen between two moments.
func pausing(from, to time.Duration) change {
	return func(r *recording) {
		var left []event
		for _, e := range r.Events {
			if e.After < from.Milliseconds() || e.After > to.Milliseconds() {
				left = append(left, e)
			}
		}
		r.Events = left
	}
}

// slowly stretches time.
func slowly(by float64) change {
	return func(r *recording) {
		r.Watched = int64(float64(r.Watched) * by)
		for i := range r.Events {
			e := &r.Events[i]
			e.After = int64(float64(e.After) * by)
			at := metav1.NewMicroTime(r.Began.Add(time.Duration(e.After) * time.Millisecond))
			e.Object.Spec.RenewTime = &at
		}
	}
}

// pods changes all pods; the first is the leader's.
func pods(do func(i int, p *corev1.Pod)) change {
	return func(r *recording) {
		for i := range r.Pods {
			do(i, &r.Pods[i])
		}
	}
}

// leadersPod changes the leader's pod, and drops it if do is nil.
func leadersPod(do func(*corev1.Pod)) change {
	return func(r *recording) {
		if do == nil {
			r.Pods = r.Pods[1:]
			return
		}
		do(&r.Pods[0])
	}
}

func args(text string) change {
	return pods(func(_ int, p *corev1.Pod) { p.Spec.Containers[0].Args = strings.Fields(text) })
}
