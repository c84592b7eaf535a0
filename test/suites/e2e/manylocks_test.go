// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/history"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
	"github.com/zonelect/zonelect/test/kit/usage"
)

// many is processes that each campaign for the same locks on one heartbeat.
type many struct {
	*testbed.Testbed
	t     *testing.T
	ctx   context.Context
	locks int
	seats []*trial.Seat
	ended map[string]time.Time // when the processes that were killed were
}

// manyZones are in the order in which they are preferred.
var manyZones = []string{"za", "zb", "zc"}

func newMany(t *testing.T, locks int) *many {
	t.Helper()
	audit, err := usage.AuditFlags(t.TempDir())
	must(t, err)
	m := &many{
		Testbed: trial.Bed(t, testbed.Config{Zones: manyZones, Network: network(), WithoutControllers: true, APIServerFlags: audit}),
		t:       t, ctx: patience(t, 6*time.Minute), locks: locks, ended: map[string]time.Time{},
	}
	return m
}

// enter starts a process, and waits until it follows or leads at all locks.
func (m *many) enter(zone string) *trial.Seat {
	m.t.Helper()
	began := time.Now()
	pod, err := m.Cluster.AddPod(m.ctx, zone, fmt.Sprint("many-", len(m.seats)), "default", nil)
	must(m.t, err)
	s := start(m.t, m.Testbed, zone, "lock", pod.Name, "--locks", fmt.Sprint(m.locks), "--heartbeat", "--count-goroutines", "500ms",
		"--preferred-zones", strings.Join(manyZones, ","), "--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--node-name", pod.Spec.NodeName)
	m.seats = append(m.seats, s)
	m.awaitAll("follow or lead at", []*trial.Seat{s}, began, "following", "leading")
	return s
}

// awaitAll waits until an event of these names was printed for each lock, by any of the
// seats.
func (m *many) awaitAll(what string, seats []*trial.Seat, since time.Time, names ...string) trial.When {
	m.t.Helper()
	return m.await(m.locks, what, seats, since, names...)
}

// await is awaitAll for so many locks.
func (m *many) await(locks int, what string, seats []*trial.Seat, since time.Time, names ...string) trial.When {
	m.t.Helper()
	first, err := trial.AwaitLocks(m.ctx, seats, locks, since, names...)
	if err != nil {
		m.t.Fatalf("%v do not %s %d locks: %v", identities(seats), what, locks, err)
	}
	return first
}

func identities(seats []*trial.Seat) (all []string) {
	for _, s := range seats {
		all = append(all, s.Identity)
	}
	return all
}

// others are the running processes except that one.
func (m *many) others(s *trial.Seat) (all []*trial.Seat) {
	for _, o := range m.seats {
		if _, ended := m.ended[o.Identity]; o != s && !ended {
			all = append(all, o)
		}
	}
	return all
}

// settle waits until the presences of so many processes can be read, and a moment for the
// others to hear of them.
func (m *many) settle(processes int) {
	m.t.Helper()
	cfg, err := m.Cluster.Living()
	must(m.t, err)
	client, err := kubernetes.NewForConfig(cfg)
	must(m.t, err)
	for {
		all, err := client.CoordinationV1().Leases("default").List(m.ctx, metav1.ListOptions{LabelSelector: "zonelect.dev/lock=lock"})
		must(m.t, err)
		if len(all.Items) >= processes {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(timing.DefaultRenewInterval)
}

// audited returns what the API servers were asked since then.
func (m *many) audited(since time.Time) []usage.Request {
	m.t.Helper()
	var logs []string
	for _, zone := range manyZones {
		logs = append(logs, filepath.Join(m.Dir(), zone, "apiserver.log"))
	}
	all, err := usage.Audited(since, logs...)
	must(m.t, err)
	return all
}

// writes counts the attempts to write each lock since then. The other counts are those of the
// heartbeats and the presences.
func (m *many) writes(since time.Time) (locks map[string]int, heartbeats, rest int) {
	locks = map[string]int{}
	for _, r := range m.audited(since) {
		switch {
		case !r.Writes():
		case strings.HasPrefix(r.Name, "lock-"):
			locks[r.Name]++
		case strings.HasPrefix(r.Name, "lock.heartbeat-"):
			heartbeats++
		default:
			rest++
		}
	}
	return locks, heartbeats, rest
}

// watches counts the watches of Leases that are open at the API servers.
func (m *many) watches() int {
	m.t.Helper()
	var servers []*rest.Config
	for _, zone := range manyZones {
		servers = append(servers, m.Cluster.RESTConfig(zone))
	}
	served, err := usage.ServedBy(m.ctx, servers...)
	must(m.t, err)
	return served.Watches
}

// idles holds the laws of three processes that only go on: what they ask and keep open does
// not grow with the number of locks.
func (m *many) idles(watchesBefore int) {
	m.t.Helper()
	const span = 10 * timing.DefaultRenewInterval
	since := time.Now()
	time.Sleep(span)
	locks, heartbeats, rest := m.writes(since)
	verbs := map[string]int{}
	for _, r := range m.audited(since) {
		verbs[r.Verb]++
	}
	watches := m.watches() - watchesBefore
	m.t.Logf("%d processes at %d locks in %v: requests %v, of them heartbeats %d; watches of leases %d", len(m.seats), m.locks, span, verbs, heartbeats, watches)
	if len(locks) > 0 || rest > 0 {
		m.t.Errorf("idle, they wrote the locks %v, and %d other leases", locks, rest)
	}
	if most := len(m.seats) * (int(span/timing.DefaultRenewInterval) + 2); heartbeats > most {
		m.t.Errorf("%d heartbeats, want %d at most", heartbeats, most)
	}
	if most := 2 * len(m.seats); watches > most {
		m.t.Errorf("%d watches are open, want %d at most", watches, most)
	}
	for _, s := range m.seats {
		m.uses(s, since)
	}
}

// mostConnections is how many connections one process may keep, however many its locks are. A group
// has 16 writes under way at a time, which need as many where answers are late. The others are for
// watches and reads, and spare.
const mostConnections = 24

// mostGoroutines is how many goroutines a lock may have, with those of the program's work and the
// renewal that waits for a heartbeat.
const mostGoroutines = 6

// uses holds what one process may use.
func (m *many) uses(s *trial.Seat, since time.Time) {
	m.t.Helper()
	used, err := usage.Of(s.PID())
	if err != nil {
		m.t.Logf("what %s uses is not known here: %v", s.Identity, err)
		return
	}
	goroutines := goroutinesOf(s, since)
	m.t.Logf("%s in %s: %d connections, %d goroutines, %d KiB resident", s.Identity, s.Zone, used.Connections, goroutines, used.RSS>>10)
	if used.Connections > mostConnections {
		m.t.Errorf("%s has %d connections, want %d at most", s.Identity, used.Connections, mostConnections)
	}
	if most := 100 + mostGoroutines*m.locks; goroutines == 0 || goroutines > most {
		m.t.Errorf("%s has %d goroutines, want 1 to %d", s.Identity, goroutines, most)
	}
}

// goroutinesOf is how few goroutines a process had at once since then, of the times at which it counted them.
// Between these each request and each wait for an answer has some more.
func goroutinesOf(s *trial.Seat, since time.Time) int {
	fewest := 0
	for _, e := range s.Events() {
		if e.Event == "counted" && e.Time.After(since) && (fewest == 0 || e.Goroutines < fewest) {
			fewest = e.Goroutines
		}
	}
	return fewest
}

// follow waits until so many locks of a process that is gone are led again, and holds the laws of
// that.
func (m *many) follow(gone *trial.Seat, since time.Time, locks int) {
	m.t.Helper()
	led := m.await(locks, "lead at", m.others(gone), since, "leading")
	m.report("all are led again", led, since)
	const most = lease + timing.DefaultRenewInterval + 4*time.Second // others than the first may lead a Step later
	if last := led.After(since, 100); last > most {
		m.t.Errorf("the last lock was led again after %v, want %v at most", last, most)
	}
	time.Sleep(time.Second) // for the attempts of the others
	writes, heartbeats, _ := m.writes(since)
	total := 0
	for lock, n := range writes {
		if total += n; n > 3 { // two candidates write, and one of them again if its answer is late
			m.t.Errorf("%s was written %d times, want 3 at most", lock, n)
		}
	}
	m.t.Logf("%d writes of %d locks, %d of heartbeats", total, m.locks, heartbeats)
}

// report logs when the locks were led again.
func (m *many) report(what string, led trial.When, since time.Time) {
	m.t.Helper()
	at := func(percent int) time.Duration { return led.After(since, percent).Round(time.Millisecond) }
	m.t.Logf("%s: 50%% after %v, 99%% after %v, the last after %v", what, at(50), at(99), at(100))
}

// leads checks that one process leads at all locks since then.
func (m *many) leads(s *trial.Seat, since time.Time) {
	m.t.Helper()
	if led := trial.First([]*trial.Seat{s}, since, "leading"); len(led) != m.locks {
		m.t.Fatalf("%s leads at %d locks of %d", s.Identity, len(led), m.locks)
	}
}

// leadsFirst checks that one process leads at most of the locks since then, and that no other one leads at a
// lock before it may. It returns the locks at which the first leads. A process whose connection ran to a
// zone that is lost hears of the last renewal up to half of a Step (of zone.Order) late. If its writes take
// the rest of the Step, others lead at the last locks.
func (m *many) leadsFirst(s *trial.Seat, lost time.Time) trial.When {
	m.t.Helper()
	const (
		late = 500 * time.Millisecond // by which a renewal may miss its time
		step = timing.DefaultRenewInterval
	)
	may := lost.Add(-timing.DefaultRenewInterval - late + lease + step)
	others := trial.First(m.others(s), lost, "leading")
	for lock, at := range others {
		if at.Before(may) {
			m.t.Errorf("%s was led by another than %s %v after the zone was lost, want %v at least", lock, s.Identity, at.Sub(lost), may.Sub(lost))
		}
	}
	led := trial.First([]*trial.Seat{s}, lost, "leading")
	m.t.Logf("%s leads at %d locks, others at %d", s.Identity, len(led), len(others))
	if len(led) <= m.locks/2 {
		m.t.Errorf("%s leads at %d locks of %d, want most of them", s.Identity, len(led), m.locks)
	}
	return led
}

// neverTwo holds the law that no lock ever had two leaders. Each has had two terms at least, and one more
// each time that its leader left.
func (m *many) neverTwo(left ...trial.When) {
	m.t.Helper()
	for i := range m.locks {
		lock := fmt.Sprint("lock-", i)
		var h history.History
		for _, s := range m.seats {
			end, killed := m.ended[s.Identity]
			if !killed {
				end = time.Now()
			}
			printed := slices.DeleteFunc(s.Events(), func(e events.Event) bool { return e.Lock != lock })
			h = append(h, history.TermsOf(history.Span{Pod: s.Identity, End: end, Open: !killed}, printed)...)
		}
		judgeOverlaps(m.t, h)
		least := 2
		for _, locks := range left {
			if _, is := locks[lock]; is {
				least++
			}
		}
		if len(h) < least {
			m.t.Errorf("%s had %d terms, want %d at least", lock, len(h), least)
		}
	}
}

// TestManyElectionsShareAProcess: three processes in three zones campaign for the same locks,
// each on one heartbeat. ZONELECT_LOCKS is the number of locks.
func TestManyElectionsShareAProcess(t *testing.T) {
	m := newMany(t, fromEnv(t, "ZONELECT_LOCKS", 50))
	watches := m.watches()
	first, second, third := m.enter("za"), m.enter("zb"), m.enter("zc")
	m.leads(first, time.Time{})
	m.settle(3)
	m.idles(watches)

	killed := time.Now()
	must(t, first.Kill())
	m.ended[first.Identity] = killed
	t.Log("the leaders' process was killed")
	m.follow(first, killed, m.locks)
	led := m.leadsFirst(second, killed)

	next := m.enter("za")
	m.settle(4)
	cut := time.Now()
	must(t, m.CutPower(m.ctx, "zb"))
	m.ended[second.Identity] = time.Now()
	t.Log("the power of the leaders' zone was cut")
	m.follow(second, cut, len(led))
	ledNext := m.leadsFirst(next, cut)

	m.enter("za") // waits beside the one in zc
	m.settle(5)
	asked := time.Now()
	must(t, next.Terminate())
	handedOver := m.await(len(ledNext), "lead at", []*trial.Seat{m.seats[len(m.seats)-1], third}, asked, "leading")
	m.report("the leaders' process was asked to end, and its locks were handed over", handedOver, asked)
	if last := handedOver.After(asked, 100); last >= lease {
		t.Errorf("the last lock was handed over after %v, as if it had not been released", last)
	}
	must(t, next.Wait(m.ctx))
	m.neverTwo(led, ledNext)
}
