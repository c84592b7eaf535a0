// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// overrun is a leader whose work ignores that its context has ended.
type overrun struct {
	kind trial.Kind
	args []string
	stop func(*overstay, *testing.T) // ends its term
	told func(election.Timing) time.Duration
	ends bool // its process ends
}

// overstay is an overrun under way.
type overstay struct {
	ctx       context.Context
	client    kubernetes.Interface
	lock      string
	old, next *trial.Seat
}

func TestS5WorkThatIgnoresItsContextKeepsTheLeaseFromBeingReleased(t *testing.T) {
	b := trial.Bed(t, plain)
	const stopTimeout = 3 * time.Second
	wanted := func(election.Timing) time.Duration { return stopTimeout }
	lost := func(timing election.Timing) time.Duration { return timing.WithDefaults().StopGrace }
	atOnce(t, map[string]overrun{
		"asked to stop":                {kind: trial.Zonelect, args: []string{"--stop-timeout", stopTimeout.String()}, stop: (*overstay).terminate, told: wanted},
		"robbed":                       {kind: trial.Zonelect, stop: (*overstay).rob, told: lost},
		"asked to stop, then it exits": {kind: trial.Zonelect, args: []string{"--stop-timeout", stopTimeout.String(), "--exit-on-overrun"}, stop: (*overstay).terminate, told: wanted, ends: true},
		"a manager asked to stop":      {kind: trial.Manager, args: []string{"--stop-timeout", stopTimeout.String()}, stop: (*overstay).terminate, told: wanted, ends: true},
	}, func(t *testing.T, o overrun) { o.happens(t, b) })
}

func (s *overstay) terminate(t *testing.T) { must(t, s.old.Terminate()) }

// rob writes another holder to the Lease.
func (s *overstay) rob(t *testing.T) {
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":"robber","renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := s.client.CoordinationV1().Leases("default").Patch(s.ctx, s.lock, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
}

func (o overrun) happens(t *testing.T, b *testbed.Testbed) {
	timing := election.Timing{LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RenewInterval: time.Second}
	s := &overstay{ctx: patience(t, 2*time.Minute), lock: nameOf(t)}
	var err error
	s.client, err = kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	begin := func(kind trial.Kind, name string, args ...string) *trial.Seat {
		seat, err := trial.Start(t.Context(), b, kind, "za", s.lock, s.lock+"-"+name, append(args,
			"--lease-duration", timing.LeaseDuration.String(), "--renew-deadline", timing.RenewDeadline.String(), "--renew-interval", timing.RenewInterval.String())...)
		must(t, err)
		t.Cleanup(func() { _ = seat.Kill() })
		return seat
	}
	s.old = begin(o.kind, "old", append(o.args, "--stop-delay", "10m")...)
	_, err = s.old.Await(s.ctx, "leading", time.Time{})
	must(t, err)
	s.next = begin(trial.Zonelect, "next")
	_, err = s.next.Await(s.ctx, "following", time.Time{})
	must(t, err)
	revisions, err := s.client.CoordinationV1().Leases("default").Watch(s.ctx, metav1.SingleObject(metav1.ObjectMeta{Name: s.lock}))
	must(t, err)
	defer revisions.Stop()
	shown := collect[*coordinationv1.Lease](revisions)
	time.Sleep(2 * timing.RenewInterval)

	asked := time.Now()
	o.stop(s, t)
	o.isTold(t, s, asked, o.told(timing))
	led, err := s.next.Await(s.ctx, "leading", asked)
	must(t, err)
	if led.Cause != string(status.CauseExpired) {
		t.Errorf("the next leader began because the lock was %s", led.Cause)
	}
	for late := time.Now().Add(soon); time.Now().Before(late); time.Sleep(10 * time.Millisecond) { // until the watch has shown it
		if slices.ContainsFunc(shown(), func(l *coordinationv1.Lease) bool { return holder(l) == s.next.Identity }) {
			break
		}
	}
	last := s.revisions(t, shown(), led)
	if early := last.Add(timing.LeaseDuration).Sub(led.Time); early > 0 {
		t.Errorf("the next leader began %v before the old term had run out", early)
	}
	t.Logf("the next leader began %v after the old term had run out", led.Time.Sub(last.Add(timing.LeaseDuration)))
	for _, e := range s.old.Events() {
		if e.Event == "stopped" || e.Event == "released" {
			t.Errorf("the old leader says that it has %s", e.Event)
		}
	}
}

// isTold waits until the overrun is reported to the process, to people and to
// Kubernetes.
func (o overrun) isTold(t *testing.T, s *overstay, asked time.Time, patience time.Duration) {
	check := func(took time.Duration, what string) {
		if took < patience || took > patience+busy {
			t.Errorf("%s after %v, want %v", what, took, patience)
		}
	}
	if o.ends {
		err := s.old.Wait(s.ctx)
		check(time.Since(asked), "the process ended")
		var status *exec.ExitError
		if !errors.As(err, &status) || status.ExitCode() != 1 {
			t.Errorf("the process ended with %v, want status 1", err)
		}
		return
	}
	told, err := s.old.Await(s.ctx, "error", asked)
	must(t, err)
	check(told.Time.Sub(asked), "it was told")
	if !strings.Contains(told.Error, "did not stop in time") {
		t.Errorf("it said %q", told.Error)
	}
	for found := false; !found; time.Sleep(50 * time.Millisecond) {
		list, err := s.client.CoreV1().Events("default").List(s.ctx, metav1.ListOptions{FieldSelector: "reason=LeaderOverrun,involvedObject.name=" + s.lock})
		must(t, err)
		found = len(list.Items) > 0
	}
}

// revisions checks the revisions of the Lease up to the next term, and returns
// when the last renewal of the old one was sent.
func (s *overstay) revisions(t *testing.T, all []*coordinationv1.Lease, led events.Event) (last time.Time) {
	for _, l := range all {
		switch holder(l) {
		case s.next.Identity:
			if last.IsZero() {
				t.Error("no renewal of the old term was seen")
			}
			return last
		case "":
			t.Error("the Lease was released")
		default:
			last = l.Spec.RenewTime.Time // when its holder sent it, by the same clock
		}
	}
	t.Errorf("%s leads, but was never seen on the Lease", led.Identity)
	return last
}
