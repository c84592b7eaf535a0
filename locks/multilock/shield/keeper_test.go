// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
	"github.com/zonelect/zonelect/locks/multilock"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// keeperOn returns the keeper of a candidate whose requests h answers.
func keeperOn(t *testing.T, h http.Handler) *keeper {
	t.Helper()
	s, err := New(Config{
		Config: multilock.Config{
			Lease:     lease.Config{Client: apitest.Wire(t, h, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "lock"},
			Core:      apitest.Wire(t, h, corev1.SchemeGroupVersion),
			Candidate: locks.Candidate{Identity: "a"},
			Pod:       ownerref.Owner{Name: "a", UID: "a"},
		},
		Apps:        apitest.Wire(t, h, appsv1.SchemeGroupVersion),
		PodSelector: "app=op",
	})
	if err != nil {
		t.Fatal(err)
	}
	return newKeeper(s, func(locks.Permission) {})
}

// holding returns the keeper of a candidate that holds the Lease and has read an armed shield, how that
// term's context is canceled, and where it is told how the keeper left.
func holding(t *testing.T, h http.Handler, term locks.Term) (k *keeper, cancel context.CancelCauseFunc, left chan error) {
	t.Helper()
	k = keeperOn(t, h)
	k.state.me = me
	ctx, cancel := context.WithCancelCause(t.Context())
	left = make(chan error, 1)
	k.startTerm(&tenure{ctx: ctx, term: term, done: left})
	_ = k.state.observeRead(shield(10, true, me), 0, start, start)
	return k, cancel, left
}

// TestTheEndOfASilentWatchIsWaitedFor and not requested again and again: a candidate that
// begins to lead may have heard nothing for long.
func TestTheEndOfASilentWatchIsWaitedFor(t *testing.T) {
	k := keeperOn(t, http.NotFoundHandler())
	stopped := 0
	k.state.duty, k.doing = leading, read
	k.watch = watch{ended: make(chan error), heard: time.Now().Add(-2 * watchSilence), cancel: func() { stopped++ }}
	if next := k.proceed(t.Context()); !next.After(time.Now()) || stopped == 0 {
		t.Errorf("it looks again at %v, having stopped the watch %d times", next, stopped)
	}
}

// TestM8AWatchGoesOnFromWhereTheLastEnded: the leader's reads and writes since then do
// not show what happened in between.
func TestM8AWatchGoesOnFromWhereTheLastEnded(t *testing.T) {
	asked := make(chan string, 1)
	k := keeperOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("resourceVersion")
		http.NotFound(w, r)
	}))
	k.state.known, k.state.record.Number, k.watch.from = true, 14, 10
	k.startWatch(t.Context())
	defer k.wait.Wait()
	if from := <-asked; from != "10" {
		t.Errorf("it watches from version %s", from)
	}
}

// TestM8AWatchThatExpiredHasMissedEvents, and goes on missing them until the server has accepted the next: a
// legacy pod may have had the ConfigMap that is gone now.
func TestM8AWatchThatExpiredHasMissedEvents(t *testing.T) {
	ends := func(err error) func(*keeper) {
		return func(k *keeper) {
			k.watch.ended, k.watch.cancel = make(chan error), func() {}
			k.watchEnded(err)
		}
	}
	expires := ends(fmt.Errorf("410: %w", locks.ErrVersionExpired))
	for when, events := range map[string][]func(*keeper){
		"before the next":         {expires},
		"while the next fails":    {expires, ends(errors.New("503"))},
		"before the next is open": {expires, (*keeper).watchOpened},
		"before the next read":    {expires, func(k *keeper) { k.handleFailure(result{do: join, err: errors.New("500")}) }},
	} {
		k, _, done := holding(t, http.NotFoundHandler(), locks.Term{})
		k.state.startLeading()
		for i, event := range events {
			event(k)
			if s := k.state.rules().next(start); s.do != read {
				t.Errorf("%s it does %v first", when, s.do)
			}
			reads := result{do: read, sent: time.Now(), of: ownerref.Record{Number: 10}, record: shield(10, true, me)}
			if i == len(events)-1 {
				reads.record = absent(0)
			}
			k.handleResult(reads)
		}
		select {
		case err := <-done:
			if !errors.Is(err, ErrLegacy) {
				t.Errorf("gone %s: %v", when, err)
			}
		default:
			t.Errorf("gone %s: the term goes on", when)
		}
	}
}

// TestM8AWatchThatFailsBeforeItIsOpenHasMissedTheSameEvents as the one before.
func TestM8AWatchThatFailsBeforeItIsOpenHasMissedTheSameEvents(t *testing.T) {
	k, _, _ := holding(t, http.NotFoundHandler(), locks.Term{})
	k.watch, k.state.expired = watch{ended: make(chan error), cancel: func() {}}, true
	if k.watchEnded(errors.New("503")); !k.state.gap {
		t.Error("the gap is forgotten")
	}
}

// TestM5ACountOfAnEarlierTermCountsForNone: its answer comes late, and legacy pods may have come
// since.
func TestM5ACountOfAnEarlierTermCountsForNone(t *testing.T) {
	k, _, _ := holding(t, http.NotFoundHandler(), locks.Term{})
	for _, sent := range []time.Time{k.state.since.Add(-1), k.state.since.Add(1)} {
		k.handleResult(result{do: count, sent: sent, of: k.state.record})
		if counts := k.state.pods.at.Equal(sent); counts == sent.Before(k.state.since) {
			t.Errorf("a count that was sent %v after the term began counts: %v", sent.Sub(k.state.since), counts)
		}
	}
}

// TestM10WhoIsNotTrustedAnyMoreLeavesTheShield: another candidate may hold the Lease.
func TestM10WhoIsNotTrustedAnyMoreLeavesTheShield(t *testing.T) {
	k, cancel, left := holding(t, http.NotFoundHandler(), locks.Term{}) // the trust of which has run out
	k.state.in(record.PhaseLegacy, 2).startLeading()
	cancel(election.ErrStopped)
	k.termEnded()
	defer k.wait.Wait()
	_ = k.proceed(t.Context())
	select {
	case err := <-left:
		if !errors.Is(err, election.ErrStopped) {
			t.Errorf("it left with %v", err)
		}
	default:
		t.Error("it has not left")
	}
}

// TestM3WhatAHolderSendsAsItStopsEndsWithItsTrust: the context of its term has ended before.
func TestM3WhatAHolderSendsAsItStopsEndsWithItsTrust(t *testing.T) {
	silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	k, cancel, _ := holding(t, silent, locks.Term{Trust: func() time.Duration { return 20 * time.Millisecond }})
	cancel(election.ErrStopped)
	k.termEnded()
	k.act(t.Context(), putUp)
	defer k.wait.Wait()
	if r := <-k.results; !errors.Is(r.err, context.DeadlineExceeded) || time.Since(r.sent) > time.Second {
		t.Errorf("its request ended after %v: %v", time.Since(r.sent), r.err)
	}
}

// TestM3AHolderWhoseTermIsLostWritesNoMore, and leaves without waiting for what is under way:
// somebody else may hold the Lease by now.
func TestM3AHolderWhoseTermIsLostWritesNoMore(t *testing.T) {
	k, cancel, done := holding(t, http.NotFoundHandler(), locks.Term{Trust: func() time.Duration { return time.Hour }})
	k.state.stage, k.doing = record.Stage{Phase: record.PhaseLegacy, Step: 2}, read
	k.state.startLeading()
	cancel(locks.ErrTermLost)
	k.termEnded()
	if s := k.state.rules().next(start); len(done) == 0 || s.do != idle {
		t.Errorf("it has not left, or would %v", s.do)
	}
}

// TestM11AnArmedShieldNamesThePodsThatArePresumedGone, for the leaders that follow.
func TestM11AnArmedShieldNamesThePodsThatArePresumedGone(t *testing.T) {
	sent := make(chan string, 1)
	k, _, _ := holding(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- string(body)
	}), locks.Term{})
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "lock", UID: "shield", ResourceVersion: "10"}
	k.state.record.Object = &corev1.ConfigMap{ObjectMeta: meta}
	k.state.pods.Presumed = unreachable(false)
	if r := k.job(arm)(t.Context()); len(sent) == 0 {
		t.Fatal(r.err)
	}
	if body := <-sent; !strings.Contains(body, record.AnnotationPresumedGone) {
		t.Error(body)
	}
}
