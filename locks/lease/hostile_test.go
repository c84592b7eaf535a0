// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestHostileAnnotationsNeitherMoveALeaderNorMakeASecond: anybody who may write the Lease
// can end a term, for example by writing another holder, and ask for a handover to an
// existing candidate. Invalid values do nothing.
func TestHostileAnnotationsNeitherMoveALeaderNorMakeASecond(t *testing.T) {
	huge := strings.Repeat("z", 1<<16)
	every := map[string]string{}
	for _, key := range []string{
		record.AnnotationHolder, record.AnnotationReleased, record.AnnotationZone, record.AnnotationNode, record.AnnotationPod,
		record.AnnotationProcessLock, record.AnnotationToken, record.AnnotationNonce, record.AnnotationTrace,
		record.AnnotationHandover, record.AnnotationRequest, record.AnnotationRefused, record.AnnotationEvacuated, record.AnnotationPrevious,
		record.AnnotationPhase, record.AnnotationPhaseStep, record.AnnotationLegacy,
	} {
		every[key] = huge
	}
	ask := func(text string) map[string]string { return map[string]string{record.AnnotationRequest: text} }
	for name, tc := range map[string]struct {
		annotations map[string]string
		says        string // the leader's answer on the Lease
	}{
		"a handover to a stranger":        {ask(`{"holder":"a","identity":"stranger"}`), "no candidate stranger is known"},
		"a handover by a stranger":        {ask(`{"holder":"x","identity":"b"}`), ""},
		"an unknown zone is evacuated":    {map[string]string{record.AnnotationEvacuated: "zx,zy=9999-01-01T00:00:00Z"}, ""},
		"its zone was evacuated long ago": {map[string]string{record.AnnotationEvacuated: "za=0001-01-01T00:00:00Z,za=nonsense"}, ""},
		"a million bytes of them":         {every, ""},
		"a phase that there is not":       {map[string]string{record.AnnotationPhase: "halfway", record.AnnotationPhaseStep: "-1"}, ""},
		"a release that it did not write": {
			map[string]string{record.AnnotationReleased: "101", record.AnnotationHandover: `{"to":"b","precedenceMs":4000}`}, "",
		},
		"another program's name and seat": {map[string]string{record.AnnotationHolder: "b", record.AnnotationProcessLock: "here"}, ""},
		"a token that is none":            {map[string]string{record.AnnotationToken: "-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				synctest.Wait()
				sent := p.requests
				p.server.Change(path, func(o object) {
					annotations := o["metadata"].(object)["annotations"].(object)
					for key, value := range tc.annotations {
						annotations[key] = value
					}
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				if !maps.Equal(p.led, map[string]int{"a": 1}) {
					t.Errorf("terms began: %v", p.led)
				}
				if n := p.requests - sent; n > 100 {
					t.Errorf("it had %d requests sent in a minute", n)
				}
				p.server.Mu.Lock()
				defer p.server.Mu.Unlock()
				refused, _ := p.server.Objects[path]["metadata"].(object)["annotations"].(object)[record.AnnotationRefused].(string)
				if len(refused) > record.MaxText || (tc.says == "") != (refused == "") || !strings.Contains(refused, tc.says) {
					t.Errorf("the answer is %.200q", refused)
				}
			})
		})
	}
}

// pair is a leader and a follower that know each other.
type pair struct {
	server   *apitest.Server
	led      map[string]int // how many terms each began
	requests int
}

// newPair returns a pair once a leads. Both stop cleanly when the test ends.
func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{server: apitest.NewServer(), led: map[string]int{}}
	p.server.Before = func(string, string) (int, object) { p.requests++; return 0, nil }
	client := apitest.Wire(t, p.server, coordinationv1.SchemeGroupVersion)
	ctx, cancel := context.WithCancel(t.Context())
	var peers []locks.Peer
	for _, id := range []string{"a", "b"} {
		peers = append(peers, locks.Peer{Candidate: locks.Candidate{Identity: id, Zone: "z" + id}})
	}
	over := make(chan error, len(peers))
	for _, peer := range peers {
		e, err := election.New(election.Config{
			Lock: mustNew(t, client), Candidate: peer.Candidate,
			WatchPeers: func(_ context.Context, tell func([]locks.Peer)) { tell(peers) },
		})
		must(t, err)
		go func() {
			over <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
				p.led[term.Holder]++
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		time.Sleep(10 * time.Second)
	}
	t.Cleanup(func() {
		cancel()
		for range peers {
			if err := <-over; err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	return p
}
