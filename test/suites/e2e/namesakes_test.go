// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// namesakes are the pods of a StatefulSet: a successor has its predecessor's
// name and another UID.
func namesakes(t *testing.T, p *past) {
	atOnce(t, map[string]func(*testing.T, *editedLock){
		"a candidate whose predecessor leads on":             candidateAfterCandidate,
		"a candidate that a legacy lock names":               candidateAfterLegacy,
		"a candidate that a legacy lock names for ever":      candidateUnderItsOwnName,
		"a legacy pod where a candidate led":                 legacyAfterCandidate,
		"legacy pods that come back while a candidate waits": legacyAfterLegacy,
	}, func(t *testing.T, run func(*testing.T, *editedLock)) {
		s := newEditedLock(t, p, "original")
		run(t, s)
		s.neverTwo()
	})
}

// candidateAfterCandidate deletes the leader's pod by force, while its process
// runs on, and starts a successor.
func candidateAfterCandidate(t *testing.T, s *editedLock) {
	first := s.enter("0")
	s.leader()
	s.enter("1")
	s.until("settled", func() bool { return s.settled("dual") })
	s.deletePod(first.pod.Name)
	deleted := time.Now()
	second := s.enter("0")
	<-first.over
	end := s.terms()[0]
	t.Logf("the predecessor stopped %v after its pod was deleted by force, and its successor started: %v", end.end.Sub(deleted).Round(time.Millisecond), first.ended)
	if !errors.Is(first.ended, multilock.ErrPodGone) || !errors.Is(end.cause, multilock.ErrPodGone) {
		t.Errorf("its Run ended with %v, its term with %v", first.ended, end.cause)
	}
	s.until("the successor to be one of the owners", func() bool { return s.settled("dual") })
	if second.pod.UID == first.pod.UID || len(s.terms()) != 2 {
		t.Errorf("%d terms, want 2", len(s.terms()))
	}
}

// candidateAfterLegacy rolls a legacy leader: its lock has the new pod's name.
func candidateAfterLegacy(t *testing.T, s *editedLock) {
	old := s.start("za", "0")
	s.await(t, old, "leading")
	before, _ := s.record()
	s.enter("1")
	gone := s.end(old)
	second := s.enter("0")
	leader := s.leader()
	t.Logf("%s leads %v after the legacy pod of the name %s was gone", leader.pod.Name, s.terms()[0].start.Sub(gone).Round(time.Millisecond), second.pod.Name)
	s.until("settled", func() bool { return s.settled("dual") })
	if after, _ := s.record(); after.UID == before.UID {
		t.Error("it leads under the legacy lock")
	}
}

// candidateUnderItsOwnName lets a candidate find a legacy lock with its own
// pod's name that does not go away.
func candidateUnderItsOwnName(t *testing.T, s *editedLock) {
	old := s.start("za", "0")
	s.await(t, old, "leading")
	s.patchConfigMap(`{"metadata":{"finalizers":["zonelect.dev/test"]}}`)
	s.end(old)
	s.enter("0")
	time.Sleep(4 * time.Second)
	if r, _ := s.record(); r.Kind != ownerref.Legacy || r.Owner.Name != s.members[0].pod.Name || r.Owner.UID == s.members[0].pod.UID {
		t.Errorf("the lock is %+v", r)
	}
	if len(s.terms()) != 0 {
		t.Errorf("it leads under a lock of its own name")
	}
	if why := s.members[0].Status().Waiting; !strings.Contains(why, "stays until its finalizers are gone: zonelect.dev/test") {
		t.Errorf("it waits for %q", why)
	}
	asked := 0
	for _, n := range s.members[0].wire.counts() {
		asked += n
	}
	t.Logf("it sent %d requests in four seconds", asked)
	if asked > 40 {
		t.Errorf("it sent %d requests while it could do nothing", asked)
	}
	s.patchConfigMap(`{"metadata":{"finalizers":null}}`)
	since := time.Now()
	s.leader()
	t.Logf("it leads %v after the lock could go", s.terms()[0].start.Sub(since).Round(time.Millisecond))
}

// legacyAfterCandidate rolls one pod back, under the name of the leader's pod.
func legacyAfterCandidate(t *testing.T, s *editedLock) {
	first := s.enter("0")
	s.leader()
	s.enter("1")
	s.until("settled", func() bool { return s.settled("dual") })
	first.stop()
	s.deletePod(first.pod.Name)
	back := s.start("za", "0")
	s.await(t, back, "following")
	time.Sleep(5 * time.Second)
	if terms(back) > 0 {
		t.Error("the legacy pod took the lock of its predecessor's name for its own")
	}
	s.until("the other leads", func() bool { return s.members[1].Status().State == status.StateLeader })
	r, _ := s.record()
	for _, o := range r.Presences {
		if o.Name == back.Identity {
			t.Errorf("a presence has a pod's name: %v", r.Presences)
		}
	}
	s.end(back)
}

// legacyAfterLegacy has a legacy leader's pod come back again and again, under
// its name, while a candidate waits. The candidate is right if it never leads
// beside one.
func legacyAfterLegacy(t *testing.T, s *editedLock) {
	s.variant = "stale"
	old := s.start("za", "0")
	s.await(t, old, "leading")
	waiting := s.enter("1")
	for range 5 {
		s.end(old)
		old = s.start("za", "0")
		time.Sleep(1500 * time.Millisecond)
	}
	s.end(old)
	s.until("the candidate leads in the end", func() bool { return waiting.Status().State == status.StateLeader })
	n := 0
	for _, seat := range s.seats {
		n += terms(seat)
	}
	t.Logf("the legacy pods led %d times, the candidate %d", n, len(s.terms()))
}

// cleaned completes a migration with the kubectl plugin; then a candidate of
// mode lease takes part.
func cleaned(t *testing.T, p *past) {
	s := newEditedLock(t, p, "original")
	path, err := testbed.BuildProgram(s.ctx, "./cmd/kubectl-zonelect")
	must(t, err)
	k := plugin{path: path, kubeconfig: s.Cluster.Kubeconfig("zb")}
	run := func(code int, line string, words ...string) {
		t.Helper()
		k.run(t, s.ctx, code, fmt.Sprintf(line, s.lock), words...)
	}
	s.enter("0")
	s.enter("1")
	s.until("settled", func() bool { return s.settled("dual") })
	selector := " -l app=" + s.lock
	run(exitRefused, "migrate clean %s --yes"+selector, "order")
	leaseOnly := func(e *entry) { e.plain = true }
	early := s.enter("early", leaseOnly)
	s.until("it has a presence", func() bool { return s.presenceOf(early) != (ownerref.Owner{}) })
	run(exitOK, "migrate advance %s --yes"+selector, "went from phase dual to sealed", "have followed")
	run(exitRefused, "migrate clean %s --yes"+selector, "no-way-back")
	run(exitOK, "migrate clean %s --yes --acknowledge no-way-back"+selector, "went from phase sealed to clean", "have followed")
	if r, _ := s.record(); r.Kind != ownerref.Absent {
		t.Errorf("the ConfigMap is %s", r.Kind)
	}
	if n := len(s.terms()); n != 1 {
		t.Errorf("%d terms, want that leadership went on", n)
	}
	run(exitOK, "status %s", "held", "clean", "za:3")
	late := s.enter("late", leaseOnly)
	s.members[0].stop()
	s.members[1].stop()
	s.until("a candidate of mode lease leads", func() bool {
		return slices.ContainsFunc([]*member{early, late}, func(m *member) bool { return m.Status().State == status.StateLeader })
	})
	last := s.terms()
	t.Logf("after clean a candidate of mode lease led %v after the last of mode auto had stopped", last[len(last)-1].start.Sub(last[len(last)-2].end).Round(time.Millisecond))
	if r, _ := s.record(); r.Kind != ownerref.Absent {
		t.Errorf("the ConfigMap is %s again", r.Kind)
	}
	s.neverTwo()
}

// idling counts the requests of a leader and a follower in phase dual.
func idling(t *testing.T, p *past) {
	const span = time.Minute
	s := newEditedLock(t, p, "original")
	a, b := s.enter("0"), s.enter("1")
	s.until("settled", func() bool { return s.settled("dual") })
	time.Sleep(3 * time.Second) // for the requests after a term's beginning
	_, before := s.record()
	leader, follower := a, b
	if s.leader() == b {
		leader, follower = b, a
	}
	atFirst := [...]map[string]int{leader.wire.counts(), follower.wire.counts()}
	time.Sleep(span)
	more := func(m *member, before map[string]int) map[string]int {
		now := m.wire.counts()
		for what, n := range before {
			if now[what] -= n; now[what] == 0 {
				delete(now, what)
			}
		}
		return now
	}
	asked, done := more(follower, atFirst[1]), more(leader, atFirst[0])
	t.Logf("in %v, with a RenewInterval of %v: the follower sent %v, the leader %v", span, brisk.RenewInterval, asked, done)
	lease := "/apis/coordination.k8s.io/v1/namespaces/default/leases/" + s.lock
	for _, sent := range []map[string]int{asked, done} { // on a busy machine a renewal or an answer may be late
		if sent["GET "+lease] <= 3 {
			delete(sent, "GET "+lease)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the idle follower sent %v", asked)
	}
	put := "PUT " + lease
	if most := int(span/brisk.RenewInterval) + 1; len(done) != 1 || done[put] == 0 || done[put] > most {
		t.Errorf("the leader sent %v, want %d of %q at most, and nothing else", done, most, put)
	}
	if _, after := s.record(); after.ResourceVersion != before.ResourceVersion {
		t.Error("somebody wrote the ConfigMap")
	}
	for _, m := range s.members {
		list, err := s.client.CoordinationV1().Leases("default").Get(s.ctx, s.presenceOf(m).Name, metav1.GetOptions{})
		must(t, err)
		if age := time.Since(list.CreationTimestamp.Time); age < span {
			t.Errorf("the presence of %s is %v old", m.pod.Name, age)
		}
	}
}
