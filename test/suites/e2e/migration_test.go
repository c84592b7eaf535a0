// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/phase"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// mostGap is how long nobody may lead when the last legacy pod is replaced, if
// no old garbage collector has to be waited for.
const mostGap = 3 * time.Second

// containerRestart is how long a kubelet takes to restart a container.
const containerRestart = time.Second

// migration is one operator that moves off its legacy lock and back, while
// others on the bed may do the same.
type migration struct {
	*past
	lock    string
	variant string
	changes int // of the phase, by hand
	asked   int // the number of the zone whose apiserver is asked

	mu    sync.Mutex
	seats []*trial.Seat
	ended map[*trial.Seat]time.Time // when its process was ended
	pods  []*pod
}

// pod is a pod with the programs that ran in it, one after the other.
type pod struct {
	kind       trial.Kind
	zone, name string
	args       []string

	mu    sync.Mutex // held while its program is started or killed
	seats []*trial.Seat
	over  bool // it is removed, and nothing starts in it again

	gone time.Time // when it was removed; the migration's mutex guards it
}

// insist repeats requests until they succeed, each time on the next zone's
// apiserver, because one of them may be away. It is not safe for concurrent
// use.
func (m *migration) insist(t *testing.T, what string, do func(context.Context, *kubernetes.Clientset) error) {
	t.Helper()
	var err error
	zones := m.Zones()
	for began := time.Now(); time.Since(began) < time.Minute; m.asked++ {
		cfg := m.Cluster.RESTConfig(zones[m.asked%len(zones)])
		cfg.Timeout = 3 * time.Second // for each request
		client, made := kubernetes.NewForConfig(cfg)
		must(t, made)
		ctx, cancel := context.WithTimeout(m.ctx, 20*time.Second)
		err = do(ctx, client)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s: %v", what, err)
}

// until waits until the condition holds.
func (m *migration) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute || m.ctx.Err() != nil {
			t.Fatalf("waited for %v until %s", time.Since(began), what)
		}
	}
}

// launch runs a program in a new pod.
func (m *migration) launch(t *testing.T, kind trial.Kind, zone, name string, more ...string) *pod {
	t.Helper()
	name = m.lock + "-" + name
	made := m.addPod(t, zone, name)
	args := []string{"--pod-name", name, "--variant", m.variant}
	if kind == trial.Zonelect {
		args = []string{"--mode", "auto", "--pod-name", name, "--pod-uid", string(made.UID), "--node-name", made.Spec.NodeName, "--selector", "app=" + m.lock}
	}
	p := &pod{kind: kind, zone: zone, name: name, args: append(args, more...)}
	must(t, m.boot(p))
	m.mu.Lock()
	m.pods = append(m.pods, p)
	m.mu.Unlock()
	m.until(t, name+" has started", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.seats, func(s *trial.Seat) bool { return len(s.Events()) > 0 })
	})
	return p
}

// addPod creates a pod and returns it once it is Ready.
func (m *migration) addPod(t *testing.T, zone, name string) (made *corev1.Pod) {
	t.Helper()
	manifest := testbed.PodManifest(zone, name, "default", map[string]string{"app": m.lock})
	m.insist(t, "create pod "+name, func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Pods("default").Create(ctx, manifest, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // the answer of the last attempt was lost
		}
		return err
	})
	m.insist(t, "wait for pod "+name, func(ctx context.Context, c *kubernetes.Clientset) (err error) {
		made, err = c.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		ready := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		if err == nil && !slices.ContainsFunc(made.Status.Conditions, ready) {
			err = fmt.Errorf("it is not ready: %+v", made.Status)
		}
		return err
	})
	return made
}

// boot starts a pod's program, or the next one if there was one before: that
// one is another candidate (S9).
func (m *migration) boot(p *pod) error {
	identity := p.name
	if n := len(p.seats); n > 0 {
		identity = fmt.Sprintf("%s.%d", p.name, n+1)
	}
	s, err := trial.Start(m.ctx, m.Testbed, p.kind, p.zone, m.lock, identity, p.args...)
	if err != nil {
		return err
	}
	p.seats = append(p.seats, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seats = append(m.seats, s)
	return nil
}

// halt kills a pod's program, and returns the time of that; zero if the program
// does not run. The pod's mutex is held.
func (m *migration) halt(p *pod) (time.Time, error) {
	s := p.seats[len(p.seats)-1]
	m.mu.Lock()
	_, before := m.ended[s]
	m.mu.Unlock()
	if before {
		return time.Time{}, nil
	}
	killed := time.Now()
	if err := s.Kill(); err != nil {
		return time.Time{}, err
	}
	<-s.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil {
		m.ended = map[*trial.Seat]time.Time{}
	}
	m.ended[s] = killed
	return killed, nil
}

// crash kills a pod's program and restarts it, as its kubelet would, unless the
// pod is removed meanwhile. killed is zero if the program did not run.
func (m *migration) crash(p *pod) (killed, again time.Time, err error) {
	p.mu.Lock()
	if !p.over {
		killed, err = m.halt(p)
	}
	p.mu.Unlock()
	if err != nil || killed.IsZero() {
		return killed, killed, err
	}
	time.Sleep(containerRestart)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		err = m.boot(p)
	}
	return killed, time.Now(), err
}

// remove kills a pod's program and removes the pod, as the end of a pod does,
// and returns the time when it was gone.
func (m *migration) remove(t *testing.T, p *pod) time.Time {
	t.Helper()
	p.mu.Lock()
	p.over = true
	_, err := m.halt(p)
	p.mu.Unlock()
	must(t, err)
	m.insist(t, "remove pod "+p.name, func(ctx context.Context, c *kubernetes.Clientset) error {
		err := c.CoreV1().Pods("default").Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	p.gone = time.Now()
	return p.gone
}

// stop kills all programs that still run.
func (m *migration) stop() {
	for _, p := range m.running() {
		p.mu.Lock()
		p.over = true
		_, _ = m.halt(p)
		p.mu.Unlock()
	}
}

// running returns the pods that exist, and removed those that were removed.
func (m *migration) running() []*pod { return m.podsThat(time.Time.IsZero) }

func (m *migration) removed() []*pod {
	return m.podsThat(func(gone time.Time) bool { return !gone.IsZero() })
}

func (m *migration) podsThat(are func(gone time.Time) bool) (some []*pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pods {
		if are(p.gone) {
			some = append(some, p)
		}
	}
	return some
}

// exited returns the programs that ended and were not killed.
func (m *migration) exited() (some []*trial.Seat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.seats {
		if _, killed := m.ended[s]; killed {
			continue
		}
		select {
		case <-s.Done():
			some = append(some, s)
		default:
		}
	}
	return some
}

// start runs a program in a new pod, and returns the program.
func (m *migration) start(t *testing.T, kind trial.Kind, zone, name string, more ...string) *trial.Seat {
	t.Helper()
	return m.launch(t, kind, zone, name, more...).seats[0]
}

// end removes a program's pod, and returns the time when it was gone. If launch
// did not make the pod, it has the program's name.
func (m *migration) end(t *testing.T, s *trial.Seat) time.Time {
	t.Helper()
	p := m.podOf(s)
	if p == nil {
		p = &pod{kind: s.Kind, zone: s.Zone, name: s.Identity, seats: []*trial.Seat{s}}
		m.mu.Lock()
		m.pods = append(m.pods, p)
		m.mu.Unlock()
	}
	return m.remove(t, p)
}

// podOf returns the pod in which a program ran, if that is known.
func (m *migration) podOf(s *trial.Seat) *pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.pods, func(p *pod) bool { return s.Identity == p.name || strings.HasPrefix(s.Identity, p.name+".") })
	if i < 0 {
		return nil
	}
	return m.pods[i]
}

// history returns what all programs have printed until now.
func (m *migration) history() (h history.History) {
	m.mu.Lock()
	seats, ended, now := slices.Clone(m.seats), maps.Clone(m.ended), time.Now()
	m.mu.Unlock()
	for _, s := range seats {
		last, killed := ended[s]
		if !killed {
			last = now
		}
		one := history.Span{Pod: s.Identity, Legacy: s.Kind == trial.Legacy, End: last, Open: !killed}
		if p := m.podOf(s); p != nil {
			one.Pod = p.name
			m.mu.Lock()
			one.Gone = p.gone
			m.mu.Unlock()
		}
		h = append(h, history.TermsOf(one, s.Events())...)
	}
	return h
}

// leads returns the pod whose program leads; nil if none does.
func (m *migration) leads(pods ...*pod) *pod {
	for _, s := range m.history() {
		for _, p := range pods {
			if s.Open && s.Pod == p.name {
				return p
			}
		}
	}
	return nil
}

// awaitLeads waits until one of the pods leads.
func (m *migration) awaitLeads(t *testing.T, pods ...*pod) (leader *pod) {
	t.Helper()
	var names []string
	for _, p := range pods {
		names = append(names, p.name)
	}
	m.until(t, fmt.Sprintf("one of %v leads", names), func() bool {
		leader = m.leads(pods...)
		return leader != nil
	})
	return leader
}

// awaitLeader waits until one of the seats leads, and logs how long nobody did.
func (m *migration) awaitLeader(t *testing.T, since time.Time, what string, seats ...*trial.Seat) *trial.Seat {
	t.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, time.Minute)
	defer cancel()
	leader, e, err := trial.AwaitAny(ctx, seats, "leading", since)
	must(t, err)
	gap := e.Time.Sub(since)
	t.Logf("%s: %s leads %v after it", what, leader.Identity, gap.Round(time.Millisecond))
	if most := mostGap + m.settle(t); leader.Kind == trial.Zonelect && what == "the last legacy pod's end" && gap > most {
		t.Errorf("nobody led for %v, want %v at most", gap, most)
	}
	return leader
}

// settle is how long a candidate waits for the garbage collectors that this
// version of Kubernetes may have.
func (p *past) settle(t *testing.T) time.Duration {
	t.Helper()
	minor, err := rawapi.ServerMinor(p.ctx, p.client.CoreV1().RESTClient())
	must(t, err)
	if minor < phase.PreconditionsSince {
		return phase.SettleDefault
	}
	return 0
}

func (m *migration) configMap(t *testing.T) (cm *corev1.ConfigMap) {
	t.Helper()
	m.insist(t, "read the ConfigMap", func(ctx context.Context, c *kubernetes.Clientset) (err error) {
		cm, err = c.CoreV1().ConfigMaps("default").Get(ctx, m.lock, metav1.GetOptions{})
		return err
	})
	return cm
}

// awaitConfigMap waits until ok holds for the ConfigMap; nil means absent.
func (m *migration) awaitConfigMap(t *testing.T, what string, ok func(*corev1.ConfigMap) bool) {
	t.Helper()
	m.insist(t, "wait until the ConfigMap is "+what, func(ctx context.Context, c *kubernetes.Clientset) error {
		cm, err := c.CoreV1().ConfigMaps("default").Get(ctx, m.lock, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			cm, err = nil, nil
		}
		if err == nil && !ok(cm) {
			err = fmt.Errorf("it is %+v", cm)
		}
		return err
	})
}

// phase changes the phase on the Lease by hand.
func (m *migration) phase(t *testing.T, phase string) {
	t.Helper()
	m.changes++
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"zonelect.dev/phase":%q,"zonelect.dev/phase-step":%q}}}`, phase, strconv.Itoa(m.changes+1))
	m.insist(t, "patch the phase", func(ctx context.Context, c *kubernetes.Clientset) error {
		_, err := c.CoordinationV1().Leases("default").Patch(ctx, m.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// others returns all except one.
func others[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool { return o == one })
}

// checkOverlaps fails for overlapping terms of different programs, unless both
// are legacy ones, and for a history that shows too little.
func (m *migration) checkOverlaps(t *testing.T) {
	t.Helper()
	h := m.history()
	judgeOverlaps(t, h)
	if len(h) < 4 {
		t.Errorf("%d terms only: %+v", len(h), h)
	}
}

// seatIn starts a candidate in a pod of the zone, with all its connections to
// the apiserver of another.
func (m *migration) seatIn(t *testing.T, zone, apiserver string, args ...string) *trial.Seat {
	t.Helper()
	must(t, m.Network.SteerVIP(zone, apiserver))
	return m.start(t, trial.Zonelect, zone, zone, args...)
}

func newMigration(t *testing.T) *migration {
	t.Helper()
	b := trial.Bed(t, testbed.Config{Zones: threeZones, Network: network()})
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("zc"))
	must(t, err)
	return &migration{past: &past{b, patience(t, 4*time.Minute), client}, lock: "op", variant: "original", ended: map[*trial.Seat]time.Time{}}
}

func TestInPhaseDualAZonesLossIsFollowedAsTheLeaseEnds(t *testing.T) {
	m := newMigration(t)
	leader := m.seatIn(t, "za", "za")
	m.await(t, leader, "leading")
	follower := m.seatIn(t, "zb", "za")
	m.await(t, follower, "following")
	m.awaitConfigMap(t, "of both", func(cm *corev1.ConfigMap) bool { return cm != nil && len(cm.OwnerReferences) == 2 })
	must(t, m.Network.SteerVIP("zb"))
	before := m.configMap(t)
	observer, err := trial.Observe(m.ctx, m.Cluster.RESTConfig("zc"), m.lock)
	must(t, err)
	s := &stage{Testbed: m.Testbed, ctx: m.ctx, leader: leader, observer: observer}
	if lag := s.takeover(t, follower, s.lose(t, "za")); lag > busy {
		t.Errorf("the follower led %v after the lease had ended, want %v at most", lag, busy)
	}
	if after := m.configMap(t); after.ResourceVersion != before.ResourceVersion {
		t.Error("the failover wrote the ConfigMap")
	}
}

func TestALegacyLeaderOnADeadNodeIsFollowedAfterTheGrace(t *testing.T) {
	const grace = 30 * time.Second
	m := newMigration(t)
	must(t, m.Network.SteerVIP("za", "za"))
	old := m.start(t, trial.Legacy, "za", "old")
	m.await(t, old, "leading")
	var fresh []*trial.Seat
	for _, zone := range threeZones[1:] {
		fresh = append(fresh, m.seatIn(t, zone, zone, "--legacy-grace", grace.String()))
	}
	time.Sleep(25 * time.Second) // two heartbeats, so that the nodes have been seen to beat
	cut := time.Now()
	must(t, m.CutPower(m.ctx, "za"))
	leader, e, err := trial.AwaitAny(m.ctx, fresh, "leading", time.Time{})
	must(t, err)
	after := e.Time.Sub(cut)
	t.Logf("%s leads %v after the legacy leader's node lost power", leader.Identity, after)
	const heartbeat = 10 * time.Second
	if after < grace-heartbeat || after > grace+8*time.Second {
		t.Errorf("it leads %v after the power was lost, want about %v", after, grace)
	}
}

// Electors of client-go's old annotation locks take turns with candidates that
// hold such a lock and the Lease.
func TestCandidatesAndOldElectorsNeverLeadTogether(t *testing.T) {
	b := trial.Bed(t, plain)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	p := &past{b, patience(t, 4*time.Minute), client}
	var all sync.WaitGroup
	for _, kind := range recordKinds {
		all.Go(func() {
			t.Run(kind, func(t *testing.T) {
				m := &migration{past: p, lock: "turns-" + kind, ended: map[*trial.Seat]time.Time{}}
				m.takeTurns(t, kind)
				m.checkOverlaps(t)
			})
		})
	}
	all.Wait()
}

func (m *migration) takeTurns(t *testing.T, kind string) {
	t.Helper()
	begin := func(program trial.Kind, n int) *trial.Seat {
		args := []string{"--kind", kind, "--lease-duration", "5s", "--renew-deadline", "3s", "--retry-period", "1s"}
		if program == trial.Zonelect {
			args = []string{"--mode", "dual", "--legacy-kind", strings.TrimPrefix(kind, "multilock-"), "--lease-duration", "5s", "--renew-deadline", "3s", "--renew-interval", "1s"}
		}
		s, err := trial.Start(m.ctx, m.Testbed, program, "za", m.lock, fmt.Sprintf("%s-%s-%d", m.lock, program, n), args...)
		must(t, err)
		m.seats = append(m.seats, s)
		return s
	}
	seats := []*trial.Seat{begin(trial.Legacy, 0)}
	m.await(t, seats[0], "leading")
	seats = append(seats, begin(trial.Zonelect, 1), begin(trial.Legacy, 2), begin(trial.Zonelect, 3))
	since := time.Time{}
	won := map[trial.Kind]int{}
	for round := range 8 {
		leader, e, err := trial.AwaitAny(m.ctx, seats, "leading", since)
		must(t, err)
		won[leader.Kind]++
		time.Sleep(time.Second)
		since = m.kill(t, leader)
		m.ended[leader] = since
		t.Logf("round %d: %s led from %s", round, leader.Identity, e.Time.Format("05.000"))
		seats = append(others(seats, leader), begin(leader.Kind, 4+round))
	}
	if won[trial.Legacy] == 0 || won[trial.Zonelect] == 0 {
		t.Errorf("only one kind ever led: %v", won)
	}
}
