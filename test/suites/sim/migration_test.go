// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/legacyelectors"
)

const (
	mapPath  = "/api/v1/namespaces/ns/configmaps/lock"
	podsPath = "/api/v1/namespaces/ns/pods/"
)

// behindShield are candidates that move off a leader-for-life lock, and
// programs that lead for life.
var behindShield = &population{
	name: "shield", seats: 4, steps: 100, mixes: ourMixes[:5],
	faults: append([]fault{
		cut, oneWay, mute, lose, slow, refuse, pause, outage, crash, crash, restart, resign,
		freeze, sicken, ask, ask, empties, remove, hide, empty, garble, compact,
		upgrade, upgrade, upgrade, upgrade, upgrade, upgrade, downgrade, darken, phase, phase, unshield, strip, strip, sweep, sweep, retime,
	}, onCaches...),
	cluster: newMigration,
	margin:  2 * time.Minute, // legacy pods that stop, and programs that pause for up to 19 s
}

// migration is a cluster with pods, kubelets and a garbage collector.
type migration struct {
	*api
	variant legacyelectors.Variant
	// compares says that the collector deletes one version of an object, as
	// those since Kubernetes 1.34 do.
	compares bool
	dice     *rand.Rand
	ctx      context.Context
	end      context.CancelFunc
	wait     sync.WaitGroup

	mu       sync.Mutex
	pods     map[string]*pod // by name
	seats    []*pod
	upgraded []bool    // seats of candidates
	swept    time.Time // no new candidate comes until then
	meddled  time.Time // when somebody last removed the shield, or marks on it, by hand
}

// pod is a pod from its creation until its object is gone.
type pod struct {
	name    string
	seat    int
	ours    bool
	placed  chan struct{} // closed when the server knows the pod
	deleted chan struct{} // closed when the pod is being deleted
	gone    bool          // deleted is closed
	process *process      // the newest in it
	dark    time.Time     // its node is cut off until then
}

func (p *pod) uid() types.UID { return types.UID("uid-" + p.name) }

func newMigration(w *world) cluster {
	dice := rand.New(rand.NewPCG(w.seed, 2))
	variants := []legacyelectors.Variant{legacyelectors.Original, legacyelectors.Stale, legacyelectors.NotReady}
	m := &migration{
		api: newAPI(w), dice: dice, pods: map[string]*pod{}, seats: make([]*pod, w.population.seats), upgraded: make([]bool, w.population.seats),
		variant: variants[dice.IntN(len(variants))], compares: dice.IntN(2) == 0,
	}
	w.judge.log("legacy programs are %s, the collector compares versions: %v", m.variant, m.compares)
	m.ctx, m.end = context.WithCancel(context.Background())
	m.server.Lingers = func(path string) bool { return strings.HasPrefix(path, podsPath) }
	leases := m.server.Stored
	m.server.Stored = func(r *http.Request, path string, before, after apitest.Object) {
		leases(r, path, before, after)
		switch {
		case path == mapPath:
			m.changed(r, shieldOf(before), shieldOf(after))
		case strings.HasPrefix(path, podsPath) && after != nil:
			m.deleting(after)
		}
	}
	m.wait.Go(m.collect)
	w.replace = func(p *process) { m.replace(p.seat) } // its pod is replaced
	return m
}

// join starts a process in the pod of its seat, or in a new one.
func (m *migration) join(p *process) {
	m.mu.Lock()
	at := m.seats[p.seat]
	created := at == nil || at.gone
	if created {
		name := "p-" + strings.ReplaceAll(p.name, ".", "-")
		at = &pod{name: name, seat: p.seat, ours: m.upgraded[p.seat], deleted: make(chan struct{}), placed: make(chan struct{})}
		m.seats[p.seat], m.pods[at.name] = at, at
	}
	at.process = p
	m.mu.Unlock()
	if created {
		m.server.Put(podsPath+at.name, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: at.name, Namespace: "ns", UID: at.uid(), Labels: map[string]string{"app": "op"}},
			Spec:       corev1.PodSpec{NodeName: "n-" + at.name},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
		close(at.placed)
		m.wait.Go(func() { m.kubelet(at) })
	}
	wire := m.wire(p)
	if at.ours {
		m.candidate(p, at, wire)
		return
	}
	p.ours, p.forLife, p.kind = false, true, "legacy"
	life := &legacyelectors.ForLife{
		Client: wire.clientset(0), Variant: m.variant, Namespace: "ns", Lock: "lock", PodName: at.name, PodUID: at.uid(),
		Print: func(events.Event) {},
	}
	p.run = func(ctx context.Context) {
		life.Run(ctx, func(ctx context.Context, _ uint64) { _ = p.work(ctx, election.Term{}) })
	}
}

func (m *migration) candidate(p *process, at *pod, w *wire) {
	config := shield.Config{
		Config: multilock.Config{
			Lease:     lease.Config{Client: w.client(coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
			Core:      w.client(corev1.SchemeGroupVersion),
			Candidate: locks.Candidate{Identity: p.name, Pod: locks.Pod{Name: at.name, UID: string(at.uid())}},
			Pod:       ownerref.Owner{Name: at.name, UID: at.uid()},
			Timing:    p.timing,
		},
		Apps:        w.client(appsv1.SchemeGroupVersion),
		PodSelector: "app=op",
	}
	lock, err := shield.New(config)
	must(err)
	p.elect(lock)
	p.mayBegin = func() { m.mayBegin(p, at) }
	w.sees = mapPath
}

// deleting notes that a pod has changed.
func (m *migration) deleting(o apitest.Object) {
	meta := o["metadata"].(apitest.Object)
	if meta["deletionTimestamp"] == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.pods[meta["name"].(string)]; !at.gone {
		at.gone = true
		close(at.deleted)
	}
}

// kubelet ends what runs in a pod when that is deleted, and then removes the
// pod. A new pod takes its place at once.
func (m *migration) kubelet(at *pod) {
	select {
	case <-at.deleted:
	case <-m.ctx.Done():
		return
	}
	w := m.world
	w.mu.Lock()
	p := at.process
	if w.seats[at.seat] == p {
		w.seats[at.seat] = nil
	}
	w.mu.Unlock()
	m.mu.Lock()
	later := time.Until(m.swept)
	m.mu.Unlock()
	time.AfterFunc(max(0, later), func() { w.enter(at.seat) })
	for {
		m.mu.Lock()
		dark := time.Until(at.dark)
		m.mu.Unlock()
		if dark <= 0 {
			break
		}
		select {
		case <-time.After(min(dark, time.Second)): // mend may end it sooner
		case <-m.ctx.Done():
			return
		}
	}
	p.cancel()
	<-p.done
	m.server.Delete(podsPath + at.name)
}

// replace has the pod in a seat replaced.
func (m *migration) replace(seat int) {
	m.mu.Lock()
	at := m.seats[seat]
	again := at.gone
	m.mu.Unlock()
	if !again {
		<-at.placed
		m.server.Change(podsPath+at.name, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		})
	}
}

func (m *migration) harm(s step) {
	switch s.fault {
	case upgrade, downgrade:
		m.mu.Lock()
		same := m.upgraded[s.seat] == (s.fault == upgrade)
		m.upgraded[s.seat] = s.fault == upgrade
		m.mu.Unlock()
		if !same {
			m.replace(s.seat)
		}
	case darken:
		m.darken(s)
	case phase:
		m.setPhase([]string{"dual", "sealed", "legacy", "dual"}[int(s.degree/time.Millisecond)%4], false)
	case unshield:
		m.unshield(s)
	case strip:
		m.strip(s)
	case sweep:
		m.sweep(s)
	default:
		m.api.harm(s)
	}
}

// unshield deletes the ConfigMap by hand while a legacy pod comes up and the API
// is slow for all candidates. The legacy pod can then lead for a moment, which
// is a documented limit.
func (m *migration) unshield(s step) {
	for _, p := range m.world.current() {
		if p.ours {
			m.world.inject(p, lockstest.Fault{Delay: s.degree}, s.lasts)
		}
	}
	m.harm(step{fault: downgrade, seat: s.seat})
	if j := m.world.judge; m.exists(mapPath) {
		j.mu.Lock()
		j.byHand = true
		j.mu.Unlock()
		m.meddle()
		m.server.Delete(mapPath)
	}
}

// meddle notes that somebody is about to disarm the shield.
func (m *migration) meddle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddled = time.Now()
}

// strip manually removes what marks a shield as one: its owners, its
// annotations, or both.
func (m *migration) strip(s step) {
	what := [][]string{{"ownerReferences"}, {"annotations"}, {"ownerReferences", "annotations"}}[int(s.degree/time.Millisecond)%3]
	m.meddle()
	m.change(mapPath, func(o apitest.Object) {
		if r := shieldOf(o); r.Kind == ownerref.Shield || r.Kind == ownerref.Sealed {
			for _, field := range what {
				delete(o["metadata"].(apitest.Object), field)
			}
		}
	})
}

// sweep deletes all candidates' pods.
func (m *migration) sweep(s step) {
	m.mu.Lock()
	m.swept = time.Now().Add(s.lasts)
	m.mu.Unlock()
	for seat, ours := range m.upgraded {
		if ours {
			m.replace(seat)
		}
	}
}

// darken cuts the node of a pod off for a while.
func (m *migration) darken(s step) {
	lasts := 3 * s.lasts
	m.mu.Lock()
	at := m.seats[s.seat]
	at.dark = time.Now().Add(lasts)
	p := at.process
	m.mu.Unlock()
	m.world.inject(p, lockstest.Fault{Hang: true}, lasts)
}

// mend ends what is wrong, and has all legacy pods replaced by candidates. A
// watch that is silent where nothing happens, as in phase legacy, ends after ten
// minutes, unless something in the network ends it: the simulation does not wait
// for that.
func (m *migration) mend() {
	if m.world.over {
		m.end()
		m.wait.Wait()
		return
	}
	m.endless()
	m.dual()
	for seat := range m.seats {
		m.harm(step{fault: upgrade, seat: seat})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.pods {
		at.dark = time.Time{}
	}
}

// shieldOf returns what kind of record a ConfigMap is.
func shieldOf(o apitest.Object) ownerref.Record {
	if o == nil {
		return ownerref.Recognize(nil)
	}
	cm := &corev1.ConfigMap{}
	must(json.Unmarshal(apitest.Marshal(o), cm))
	return ownerref.Recognize(cm)
}

// changed judges a change of the ConfigMap (M3, M4): only the Lease's holder
// may change it, except to join a shield.
func (m *migration) changed(r *http.Request, before, after ownerref.Record) {
	j, by := m.world.judge, senderOf(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log("%.3fs %v makes the ConfigMap %s (armed %v, %d presences) from %s", time.Since(j.start).Seconds(), by,
		after.Kind, after.Armed, len(after.Presences), before.Kind)
	if by == nil || !by.ours {
		return
	}
	if after.Armed {
		j.byHand = false
	}
	// A candidate that joins a shield also notes the phase on it, if it knows a
	// later one.
	was := before.Kind == ownerref.Shield || before.Bare
	joined := was && after.Kind == ownerref.Shield && before.Armed == after.Armed
	// The holder of a deleted Lease does not know of the deletion, and others may
	// not work.
	robbed := j.lease.owedTo == by && time.Now().Before(j.lease.owed)
	switch holds := j.lease.holder == by.name && !j.lease.given || robbed; {
	case joined:
	case holds:
	case isLate(r):
		j.overlap("a write of a process that was stopped, about the shield, came late")
	default:
		j.unlawful("%v makes a %s of a %s, and %s holds the Lease", by, after.Kind, before.Kind, j.lease.holder)
	}
	if before.Kind == ownerref.Absent && after.Armed {
		j.unlawful("%v puts up a shield that is armed", by)
	}
	if before.Kind == ownerref.Legacy && after.Kind == ownerref.Absent {
		m.removed(by, before.Owner)
	}
}

// removed judges that a candidate removed a legacy lock.
func (m *migration) removed(by *process, owner ownerref.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.pods[owner.Name]; at != nil && !at.process.isDone() {
		m.world.judge.unlawful("%v took the lock of pod %s away, which still runs", by, owner.Name)
	}
}

// mayBegin judges the ConfigMap as p knows it when its work begins (M6). Somebody
// may have disarmed it after p got its permission, as can happen while p works
// (M8).
func (m *migration) mayBegin(p *process, at *pod) {
	saw := p.saw()
	m.mu.Lock()
	meddled := m.meddled
	m.mu.Unlock()
	if last := p.armed.Load(); !saw.Armed && last != nil && last.at.After(m.world.judge.lease.since) && !meddled.Before(last.at) {
		m.world.judge.overlap("a hand on the shield between a clearance and the work")
		saw = last.record
	}
	mine := false
	for _, presence := range saw.Presences {
		mine = mine || strings.HasPrefix(presence.Name, "lock."+at.name)
	}
	switch {
	case !saw.Armed:
		m.world.judge.unlawful("%v begins to work under a %s that is not armed", p, saw.Kind)
	case saw.Kind == ownerref.Shield && !mine:
		m.world.judge.unlawful("%v begins to work under a shield that its presence is not part of", p)
	}
}
