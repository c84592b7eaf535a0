// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// recordings is where package audit finds them.
const recordings = "../../../cmd/kubectl-zonelect/internal/audit/testdata"

// recording is what the API server showed of one elector.
type recording struct {
	Kubernetes string    `json:"kubernetes"`
	Began      time.Time `json:"began"`
	Watched    int64     `json:"watchedMilliseconds"`
	Leases     []any     `json:"leases"`
	Events     []event   `json:"events"`
	// The metadata, before and after.
	ConfigMaps [2][]any `json:"configMaps"`
	Endpoints  [2][]any `json:"endpoints"`
	Pods       []any    `json:"pods"`
	Nodes      []any    `json:"nodes"`
}

// event is one of the watch of all Leases, and when it came.
type event struct {
	After  int64  `json:"afterMilliseconds"`
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// recorder watches what the audit reads.
type recorder struct {
	*auditStage
	metadata metadata.Interface
	began    time.Time
	leases   []coordinationv1.Lease
	before   map[string][]metav1.PartialObjectMetadata

	mu     sync.Mutex
	events []struct {
		at time.Time
		watch.Event
	}
	stop func()
}

func newRecorder(t *testing.T, a *auditStage) *recorder {
	t.Helper()
	client, err := metadata.NewForConfig(a.Cluster.RESTConfig("zc"))
	must(t, err)
	return &recorder{auditStage: a, metadata: client}
}

// list lists the metadata of objects.
func (r *recorder) list(t *testing.T, resource string) []metav1.PartialObjectMetadata {
	t.Helper()
	list, err := r.metadata.Resource(corev1.SchemeGroupVersion.WithResource(resource)).List(r.ctx, metav1.ListOptions{})
	must(t, err)
	return list.Items
}

// begin lists and watches from now on.
func (r *recorder) begin(t *testing.T) {
	t.Helper()
	r.before = map[string][]metav1.PartialObjectMetadata{"configmaps": r.list(t, "configmaps"), "endpoints": r.list(t, "endpoints")}
	all := metav1.ListOptions{FieldSelector: "metadata.namespace!=" + corev1.NamespaceNodeLease}
	list, err := r.client.CoordinationV1().Leases("").List(r.ctx, all)
	must(t, err)
	r.began, r.leases = time.Now(), list.Items
	all.ResourceVersion = list.ResourceVersion
	events, err := r.client.CoordinationV1().Leases("").Watch(r.ctx, all)
	must(t, err)
	r.stop = events.Stop
	go func() {
		for e := range events.ResultChan() {
			r.mu.Lock()
			r.events = append(r.events, struct {
				at time.Time
				watch.Event
			}{time.Now(), e})
			r.mu.Unlock()
		}
	}()
}

// write writes a recording of each elector.
func (r *recorder) write(t *testing.T, all []writer) {
	t.Helper()
	r.stop()
	ended := time.Now()
	version, err := r.client.Discovery().ServerVersion()
	must(t, err)
	after := map[string][]metav1.PartialObjectMetadata{"configmaps": r.list(t, "configmaps"), "endpoints": r.list(t, "endpoints")}
	pods, err := r.client.CoreV1().Pods("").List(r.ctx, metav1.ListOptions{})
	must(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range all {
		ours := r.belongs(w)
		one := recording{Kubernetes: version.GitVersion, Began: r.began.UTC(), Watched: ended.Sub(r.began).Milliseconds()}
		for _, l := range r.leases {
			if ours(&l) {
				one.Leases = append(one.Leases, trimmed(&l))
			}
		}
		for _, e := range r.events {
			if l, is := e.Object.(*coordinationv1.Lease); is && ours(l) {
				one.Events = append(one.Events, event{e.at.Sub(r.began).Milliseconds(), string(e.Type), trimmed(l)})
			}
		}
		for i, lists := range []map[string][]metav1.PartialObjectMetadata{r.before, after} {
			one.ConfigMaps[i], one.Endpoints[i] = pick(lists["configmaps"], w.lock), pick(lists["endpoints"], w.lock)
		}
		for _, p := range pods.Items {
			if p.Labels["app"] == w.lock {
				one.Pods = append(one.Pods, trimmed(&p))
			}
		}
		for _, n := range r.list(t, "nodes") {
			n.Annotations = nil
			one.Nodes = append(one.Nodes, trimmed(&n))
		}
		raw, err := json.Marshal(one)
		must(t, err)
		raw = bytes.ReplaceAll(raw, []byte(`{"afterMilliseconds"`), []byte("\n"+`{"afterMilliseconds"`)) // a line for each
		must(t, os.WriteFile(filepath.Join(recordings, w.lock+".json"), append(raw, '\n'), 0o600))
	}
}

// belongs returns whether a Lease is of an elector: its lock, its locks or an announcement.
func (r *recorder) belongs(w writer) func(*coordinationv1.Lease) bool {
	locks := regexp.MustCompile("^" + regexp.QuoteMeta(w.lock) + "(-[0-9])?$")
	return func(l *coordinationv1.Lease) bool {
		return locks.MatchString(l.Name) || l.Labels["zonelect.dev/lock"] == w.lock
	}
}

func pick(all []metav1.PartialObjectMetadata, name string) []any {
	var found []any
	for _, o := range all {
		if o.Name == name {
			found = append(found, o)
		}
	}
	return found
}

// trimmed leaves of the managed fields who wrote when.
func trimmed(o metav1.Object) any {
	fields := slices.Clone(o.GetManagedFields())
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	o.SetManagedFields(fields)
	return o
}
