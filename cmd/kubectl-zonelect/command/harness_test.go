// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"
	mapsPath   = "/api/v1/namespaces/ns/configmaps/"
)

// world is a cluster in memory and the plugin's view of it. Use it in a bubble
// of testing/synctest: its clock begins at midnight.
type world struct {
	t      *testing.T
	server *apitest.Server
	denied bool                // nothing is permitted
	sick   map[string]string   // why candidates are unhealthy, by identity
	stops  time.Duration       // how long the work of a leader takes to stop
	lacks  map[string]bool     // what service accounts may not do, as in "update leases"
	asked  func(*http.Request) // hears of each request of the plugin, unless nil
}

// ServeHTTP serves the plugin: access reviews, too, which the server in memory does not know.
func (w *world) ServeHTTP(a http.ResponseWriter, r *http.Request) {
	if w.asked != nil {
		w.asked(r)
	}
	a.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") && w.denied:
		code, body := apitest.Forbidden("create", r.URL.Path)
		apitest.Reply(a, code, body)
		return
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review) // client-go encoded it
		asks := review.Spec.ResourceAttributes
		account := strings.HasPrefix(review.Spec.User, "system:serviceaccount:ns:") && len(review.Spec.Groups) == 3
		review.Status.Allowed = account && !w.lacks[asks.Verb+" "+asks.Resource]
		apitest.Reply(a, http.StatusCreated, review)
		return
	}
	w.server.ServeHTTP(a, r)
}

// inABubble runs a test whose clock begins at midnight and stands still.
func inABubble(t *testing.T, f func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&world{t: t, server: apitest.NewServer()}) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// result is the outcome of a command.
type result struct {
	code        int
	out, errors string
}

// run runs a command; one that goes on is interrupted after some minutes.
func (w *world) run(args ...string) result {
	return w.runFor(5*time.Minute, args...)
}

// runFor runs a command, and interrupts it if it goes on for longer.
func (w *world) runFor(most time.Duration, args ...string) result {
	ctx, stop := context.WithCancel(w.t.Context())
	defer time.AfterFunc(most, stop).Stop()
	return w.runUntil(ctx, args...)
}

// runUntil runs a command in an environment in which the world is the cluster.
func (w *world) runUntil(ctx context.Context, args ...string) result {
	var out, errOut buffer
	env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	env.connect = func() (clients, error) {
		return clients{
			core:          apitest.Wire(w.t, w, corev1.SchemeGroupVersion),
			apps:          apitest.Wire(w.t, w, appsv1.SchemeGroupVersion),
			coordination:  apitest.Wire(w.t, w, coordinationv1.SchemeGroupVersion),
			authorization: apitest.Wire(w.t, w, authorizationv1.SchemeGroupVersion),
		}, nil
	}
	env.restConfig = w.piped
	env.config.KubeConfig = ptr.To("testdata/kubeconfig.yaml")
	code := run(ctx, env, args)
	return result{code, out.String(), errOut.String()}
}

// piped has the candidates of a demonstration reach the world through pipes.
func (w *world) piped() (*rest.Config, error) {
	pipes := apitest.NewPipes()
	server := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(pipes) }()
	w.t.Cleanup(func() {
		time.Sleep(time.Second) // what a wire holds up passes
		_ = server.Close()
	})
	return pipes.Config(), nil
}

// buffer may be written and read at the same time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newLease makes a lock that a zonelect candidate holds.
func newLease(name, holder, zone string, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	now := time.Now()
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15)), LeaseTransitions: ptr.To(int32(4)),
			AcquireTime: &metav1.MicroTime{Time: now.Add(-5 * time.Minute)},
			RenewTime:   &metav1.MicroTime{Time: now.Add(-time.Second)},
		},
	}
	lease.Annotations = map[string]string{
		record.AnnotationHolder: holder, record.AnnotationZone: zone, record.AnnotationToken: "4711",
		record.AnnotationNode: "node-" + zone, record.AnnotationPod: strings.TrimSuffix(holder, "_1") + "/uid",
	}
	for _, change := range changes {
		change(lease)
	}
	return lease
}

// led makes a lock whose holder took it after another fell silent.
func led(changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	took := []func(*coordinationv1.Lease){after("op-c_1", "expired", 15_020*time.Millisecond)}
	return newLease("op", "op-a_1", "za", append(took, changes...)...)
}

// after says how the term of the holder began.
func after(previous, cause string, nobodyLed time.Duration) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		until := l.Spec.AcquireTime.Add(-nobodyLed).UTC().Format(time.RFC3339Nano)
		l.Annotations[record.AnnotationPrevious] = fmt.Sprintf(`{"holder":%q,"until":%q,"cause":%q}`, previous, until, cause)
	}
}

// releasedBy is a release by the holder a while ago.
func releasedBy(ago time.Duration) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		at := &metav1.MicroTime{Time: time.Now().Add(-ago)}
		l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.RenewTime = ptr.To(""), at, at
		l.Spec.LeaseDurationSeconds = ptr.To(int32(1))
		l.Annotations[record.AnnotationReleased] = l.Annotations[record.AnnotationToken]
	}
}

func phased(phase record.Phase, step uint64) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) {
		record.WriteStage(l.Annotations, record.Stage{Phase: phase, Step: step})
		l.Annotations[record.AnnotationLegacy] = "configmap/" + l.Name
	}
}

func renewed(ago time.Duration) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-ago)} }
}

func (w *world) putLease(l *coordinationv1.Lease) {
	w.server.Put("/apis/coordination.k8s.io/v1/namespaces/"+l.Namespace+"/leases/"+l.Name, l)
}

// renew renews a lock as its holder does.
func (w *world) renew(name string) {
	w.server.Change(leasesPath+name, func(o apitest.Object) {
		o["spec"].(apitest.Object)["renewTime"] = time.Now().UTC().Format(metav1.RFC3339Micro)
	})
}

// hosts adds a pod of a candidate, on the zone's node, both healthy except for a change.
func (w *world) hosts(name, zone string, changes ...func(*corev1.Pod, *corev1.Node)) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(pod, node)
	}
	w.server.Put("/api/v1/namespaces/ns/pods/"+name, pod)
	w.server.Put("/api/v1/nodes/"+node.Name, node)
}

// announce adds a candidate, with its pod, by its presence.
func (w *world) announce(lock, pod, zone, waiting string, changes ...func(*presence.Object)) presence.Object {
	w.t.Helper()
	w.hosts(pod, zone)
	said := presence.Object{
		Lock: lock, Pod: presence.Pod{Name: pod, UID: types.UID("uid-" + pod)},
		Identity: pod + "_1", Zone: zone, Node: "node-" + zone, Mode: "auto", Waiting: waiting,
	}
	for _, change := range changes {
		change(&said)
	}
	client := apitest.Wire(w.t, w.server, coordinationv1.SchemeGroupVersion)
	o, err := presence.Ensure(w.t.Context(), client, "ns", said, nil, func(context.Context) error { return nil })
	must(w.t, err)
	return o
}

// putConfigMap puts an object in the legacy lock's place.
func (w *world) putConfigMap(name string, annotations map[string]string, owners ...metav1.OwnerReference) {
	m := apitest.ConfigMap(annotations, owners...)
	m.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	m.Name, m.UID, m.ResourceVersion = name, types.UID("uid-map-"+name), ""
	w.server.Put(mapsPath+name, m)
}

// putEndpoints puts an election record in the legacy lock's place.
func (w *world) putEndpoints(name, value string) {
	w.server.Put("/api/v1/namespaces/ns/endpoints/"+name, apitest.Object{"apiVersion": "v1", "kind": "Endpoints", "metadata": apitest.Object{
		"name": name, "namespace": "ns", "uid": "u", "annotations": apitest.Object{resourcelock.LeaderElectionRecordAnnotationKey: value},
	}})
}

// renewedBy is an election record that its holder has just renewed.
func renewedBy(holder string) string {
	r := resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, RenewTime: metav1.Now()}
	return string(apitest.Marshal(r))
}

func byPod(name string) metav1.OwnerReference { return apitest.PodRef(name, "uid-"+name) }

// marked returns the annotations of a ConfigMap that took the place of that pod's lock.
func marked(phase record.Phase, step uint64, pod, uid string) map[string]string {
	seen := map[string]string{"zonelect.dev/legacy-pods": fmt.Sprintf(`[{"name":%q,"uid":%q}]`, pod, uid)}
	return record.WriteStage(seen, record.Stage{Phase: phase, Step: step})
}

// shield puts up a shield that belongs to presences, and took the place of a legacy pod's lock.
func (w *world) shield(name string, armed bool, step uint64, owners ...presence.Object) {
	annotations := marked(record.PhaseDual, step, "old-0", "uid-old-0")
	if armed {
		annotations["zonelect.dev/shield-armed"] = "uid-map-" + name
	}
	var refs []metav1.OwnerReference
	for _, o := range owners {
		refs = append(refs, apitest.LeaseRef(o.Name, string(o.UID)))
	}
	w.putConfigMap(name, annotations, refs...)
}

// golden compares the output with a file.
func golden(t *testing.T, name string, r result) {
	t.Helper()
	got := r.out
	if r.errors != "" {
		got += "--- stderr\n" + r.errors
	}
	if r.code != 0 {
		got += fmt.Sprintf("--- exit code %d\n", r.code)
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s: printed\n%s\nwant\n%s", file, got, want)
	}
}

// forbid denies a verb, or all of them, on the paths with a part.
func (w *world) forbid(verb, part string) {
	w.before(func(v, path string) (int, apitest.Object) {
		if (verb == "" || v == verb) && strings.Contains(path, part) {
			return apitest.Forbidden(v, path)
		}
		return 0, nil
	})
}

// before makes see see every request before it is served, while candidates run.
func (w *world) before(see func(verb, path string) (int, apitest.Object)) {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	w.server.Before = see
}

// annotations returns those of a Lease.
func (w *world) annotations(lock string) map[string]any {
	w.server.Mu.Lock()
	defer w.server.Mu.Unlock()
	all, _ := apitest.Clone(w.server.Objects[leasesPath+lock])["metadata"].(apitest.Object)["annotations"].(apitest.Object)
	return all
}

func (w *world) annotate(lock, key, value string) {
	w.server.Change(leasesPath+lock, func(o apitest.Object) {
		o["metadata"].(apitest.Object)["annotations"].(apitest.Object)[key] = value
	})
	synctest.Wait()
}
