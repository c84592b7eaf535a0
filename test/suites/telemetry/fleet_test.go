// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// The zones. The candidates run in those of seats; the collector and whoever looks from
// outside use the third, which keeps its power.
var seats = [2]string{"za", "zb"}

const outside = "zc"

// group is the name of the locks that the candidate program has in a Group.
const (
	group      = "group"
	groupLocks = 3
)

// example is the lock of examples/tracing.
const example = "tracing"

// allLocks are all locks that are led.
func allLocks() []string {
	all := []string{example}
	for i := range groupLocks {
		all = append(all, fmt.Sprint(group, "-", i))
	}
	return all
}

// fleet is two candidates in each of two zones, one with a lock and one with several, and
// a collector that both send their spans to.
type fleet struct {
	*testbed.Testbed
	ctx      context.Context
	client   *kubernetes.Clientset
	outsider outsider
	programs programs
	endpoint string // of the collector
	received string // the file in which it puts what it receives
	running  map[string][]*candidate
	starts   int
}

// programs are the paths of what runs.
type programs struct{ example, plugin, collector string }

// candidate is a process that campaigns, in a pod of its own.
type candidate struct {
	*testbed.Process
	pod string
	// began returns for which lock a line says that the work begins, and its token.
	began func(line string) (lock string, token uint64)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T) (p programs) {
	t.Helper()
	var err error
	p.example, err = testbed.BuildProgram(t.Context(), "./examples/tracing")
	must(t, err)
	p.plugin, err = testbed.BuildProgram(t.Context(), "./cmd/kubectl-zonelect")
	must(t, err)
	p.collector, err = testbed.BuildModule(t.Context(), "test/programs/collector", t.Output())
	must(t, err)
	must(t, trial.Build(t.Context(), trial.Zonelect))
	return p
}

// network is namespaces in CI, and whatever works elsewhere.
func network() testbed.NetworkKind {
	if os.Getenv("CI") != "" {
		return testbed.Namespaces
	}
	return testbed.Auto
}

func newFleet(t *testing.T, patience time.Duration) *fleet {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	bed := trial.Bed(t, testbed.Config{Zones: []string{seats[0], seats[1], outside}, Network: network()})
	client, err := kubernetes.NewForConfig(bed.Cluster.RESTConfig(outside))
	must(t, err)
	s := &fleet{Testbed: bed, ctx: ctx, client: client, programs: build(t), running: map[string][]*candidate{}}
	t.Logf("the network is %s; the load of the machine is %s", bed.Network.Kind(), load())
	s.outsider.all = map[uint64]sighting{}
	for _, zone := range bed.Zones() {
		s.outsider.watch(t, ctx, bed.Cluster.RESTConfig(zone))
	}
	s.collect(t)
	for _, zone := range seats {
		s.start(t, zone)
	}
	return s
}

// load is the machine's load, if it is known.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.TrimSpace(string(raw))
}

// collector is the configuration of a collector that puts all spans in a file.
const collector = `
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {spans: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [spans]}}
`

// collect starts the collector.
func (s *fleet) collect(t *testing.T) {
	t.Helper()
	address, err := s.Network.Address(outside)
	must(t, err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	must(t, err)
	must(t, free.Close())
	endpoint := net.JoinHostPort(address, port)
	s.endpoint, s.received = "http://"+endpoint, filepath.Join(s.Dir(), "spans.json")
	config := filepath.Join(s.Dir(), "collector.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, collector, endpoint, s.received), 0o600))
	p, err := s.StartProcess(outside, testbed.ProcessSpec{Name: "collector", Path: s.programs.collector, Args: []string{"--config", config}})
	must(t, err)
	s.until(t, "the collector is ready", func() bool {
		select {
		case <-p.Done():
			log, _ := os.ReadFile(p.Log())
			t.Fatalf("the collector has ended:\n%s", log)
		default:
		}
		return says(p, "Everything is ready")
	})
}

// says reports whether the log of a process has these words.
func says(p *testbed.Process, words string) bool {
	log, _ := os.ReadFile(p.Log())
	return strings.Contains(string(log), words)
}

// until waits until the condition holds.
func (s *fleet) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	for !so() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// start runs both candidates of a zone, in new pods.
func (s *fleet) start(t *testing.T, zone string) {
	t.Helper()
	s.starts++
	s.running[zone] = []*candidate{s.startExample(t, zone), s.startGroup(t, zone)}
	for _, c := range s.running[zone] {
		s.until(t, c.pod+" campaigns, and is known", func() bool {
			all, err := s.client.CoordinationV1().Leases("default").List(s.ctx, metav1.ListOptions{LabelSelector: "zonelect.dev/lock"})
			return err == nil && (says(c.Process, "following") || says(c.Process, "leading")) &&
				slices.ContainsFunc(all.Items, func(l coordinationv1.Lease) bool {
					return slices.ContainsFunc(l.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Name == c.pod })
				})
		})
	}
}

// pod makes a pod in a zone.
func (s *fleet) pod(t *testing.T, zone, lock string) (name, uid, node string) {
	t.Helper()
	pod, err := s.Cluster.AddPod(s.ctx, zone, fmt.Sprintf("%s-%s-%d", lock, zone, s.starts), "default", nil)
	must(t, err)
	return pod.Name, string(pod.UID), pod.Spec.NodeName
}

func (s *fleet) startExample(t *testing.T, zone string) *candidate {
	t.Helper()
	pod, uid, node := s.pod(t, zone, example)
	p, err := s.StartProcess(zone, testbed.ProcessSpec{Name: pod, Path: s.programs.example, Env: []string{
		"KUBECONFIG=" + s.Cluster.Kubeconfig(zone), "OTEL_EXPORTER_OTLP_ENDPOINT=" + s.endpoint,
		"POD_NAME=" + pod, "POD_UID=" + uid, "POD_NAMESPACE=default", "NODE_NAME=" + node, "NODE_ZONE=" + zone,
	}})
	must(t, err)
	return &candidate{p, pod, func(line string) (string, uint64) {
		text, _ := strings.CutPrefix(line, "leading with token ")
		token, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return "", 0
		}
		return example, token
	}}
}

func (s *fleet) startGroup(t *testing.T, zone string) *candidate {
	t.Helper()
	pod, uid, node := s.pod(t, zone, group)
	seat, err := trial.Start(s.ctx, s.Testbed, trial.Zonelect, zone, group, pod,
		"--shared", "--locks", fmt.Sprint(groupLocks), "--otlp", s.endpoint,
		"--traces=", // the work would wait until its spans are in a file
		"--pod-name", pod, "--pod-uid", uid, "--node-name", node)
	must(t, err)
	return &candidate{seat.Process, pod, func(line string) (string, uint64) {
		var e events.Event
		if json.Unmarshal([]byte(line), &e) != nil || e.Event != "leading" {
			return "", 0
		}
		return e.Lock, e.Token
	}}
}

// term is the start of a term's work, as its process printed it.
type term struct {
	*candidate
	lock  string
	token uint64
	began time.Time // when the line was read
}

// terms returns the terms that began, by lock.
func (c *candidate) terms() map[string][]term {
	all := map[string][]term{}
	for _, line := range c.Output() {
		if lock, token := c.began(line.Text); lock != "" {
			all[lock] = append(all[lock], term{c, lock, token, line.Time})
		}
	}
	return all
}

// leader returns the zone of the newest term of a lock.
func (s *fleet) leader(lock string, since time.Time) (zone string, newest term) {
	for z, all := range s.running {
		for _, c := range all {
			for _, x := range c.terms()[lock] {
				if x.began.After(since) && x.token > newest.token {
					zone, newest = z, x
				}
			}
		}
	}
	return zone, newest
}

// other is the other zone with candidates.
func other(zone string) string {
	if zone == seats[0] {
		return seats[1]
	}
	return seats[0]
}

// gather waits until a zone leads all locks, and has renewed all of them twice, so that the
// candidates in the other zone have seen it. It hands over those that another zone leads.
func (s *fleet) gather(t *testing.T, zone string) {
	t.Helper()
	for _, lock := range allLocks() {
		s.until(t, lock+" is led", func() bool { in, _ := s.leader(lock, time.Time{}); return in != "" })
		if in, _ := s.leader(lock, time.Time{}); in != zone {
			since := time.Now()
			s.handOver(t, lock, zone)
			s.until(t, lock+" is led in "+zone, func() bool { in, _ := s.leader(lock, since); return in == zone })
		}
	}
	since := time.Now()
	for _, lock := range allLocks() {
		s.until(t, lock+" is renewed twice", func() bool { n, _ := s.outsider.renewals(lock, since); return n >= 2 })
	}
}
