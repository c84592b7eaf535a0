// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestTheAnnotationOfAHeartbeatThatKeepsNothingBarsNobody, such as one that a holder without a
// heartbeat left there.
func TestTheAnnotationOfAHeartbeatThatKeepsNothingBarsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		heartbeat string
		prepare   func(t *testing.T, server *apiServer)
	}{
		"client-go held it and released it in good order": {"h.heartbeat-x uid-1 n.1 15", func(t *testing.T, server *apiServer) {
			stop := campaignByClientGo(t, server, "client-go_1")
			time.Sleep(time.Minute)
			stop()
			time.Sleep(time.Minute)
		}},
		"somebody emptied it":              {"h.heartbeat-x uid-1 n.1 15", nil},
		"one word that names no heartbeat": {"x", nil},
		"no annotation":                    {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apitest.NewServer()
				client := apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)
				stop := campaign(t, client, "a")
				time.Sleep(time.Minute)
				stop()
				// a heartbeat kept the lock once
				server.Change(path, func(o object) {
					annotations := o["metadata"].(object)["annotations"].(object)
					if c.heartbeat != "" {
						annotations[record.AnnotationHeartbeat] = c.heartbeat
					}
				})
				if c.prepare != nil {
					c.prepare(t, server)
				}
				e, err := election.New(election.Config{Lock: mustNew(t, client), Candidate: locks.Candidate{Identity: "b"}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan error)
				go func() {
					over <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
				}()
				time.Sleep(10 * time.Minute)
				if e.Term().TrustedFor() <= 0 {
					t.Errorf("nobody leads, although nobody holds the lock")
				}
				cancel()
				<-over
			})
		})
	}
}

func TestOneWordInTheAnnotationOfAHeartbeatEndsNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer()
		client := apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)
		e, err := election.New(election.Config{Lock: mustNew(t, client), Candidate: locks.Candidate{Identity: "b"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() {
			over <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(time.Minute)
		server.Change(path, func(o object) {
			o["metadata"].(object)["annotations"].(object)[record.AnnotationHeartbeat] = "x"
		})
		time.Sleep(10 * time.Minute)
		if e.Term().TrustedFor() <= 0 {
			t.Errorf("the leader stopped, and nobody leads")
		}
		cancel()
		<-over
	})
}
