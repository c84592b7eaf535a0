// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// ledOnce returns a server, and a client of it, on which "a" has led and released the lock.
func ledOnce(t *testing.T) (*apiServer, rest.Interface) {
	server := apitest.NewServer()
	client := apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)
	stop := campaign(t, client, "a")
	time.Sleep(time.Minute)
	stop()
	return server, client
}

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
		"client-go held it and died": {"h.heartbeat-x uid-1 n.1 15", func(_ *testing.T, server *apiServer) {
			server.Change(path, func(o object) {
				spec := o["spec"].(object)
				spec["holderIdentity"], spec["leaseDurationSeconds"] = "client-go_1", 15
			})
		}},
		"somebody emptied it":              {"h.heartbeat-x uid-1 n.1 15", nil},
		"one word that names no heartbeat": {"x", nil},
		"no annotation":                    {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := ledOnce(t)
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

// TestWhoWasBarredByAHeartbeatWaitsALeaseFromItsEnd: the holder may lead for so long after a heartbeat
// that this candidate has not seen. If somebody empties the record, as the candidate advises, the Lease
// still says a year.
func TestWhoWasBarredByAHeartbeatWaitsALeaseFromItsEnd(t *testing.T) {
	spec := func(o object) object { return o["spec"].(object) }
	annotations := func(o object) object { return o["metadata"].(object)["annotations"].(object) }
	for what, end := range map[string]func(*apiServer){
		"emptied": func(s *apiServer) { s.Change(path, func(o object) { spec(o)["holderIdentity"] = "" }) },
		"deleted": func(s *apiServer) { s.Delete(path) },
		"without the annotation": func(s *apiServer) {
			s.Change(path, func(o object) {
				delete(annotations(o), record.AnnotationHeartbeat)
				spec(o)["leaseDurationSeconds"] = 15
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := ledOnce(t)
				server.Change(path, func(o object) {
					spec(o)["holderIdentity"], spec(o)["leaseDurationSeconds"] = "a", 365*24*3600
					annotations(o)[record.AnnotationHolder], annotations(o)[record.AnnotationHeartbeat] = "a", "h.heartbeat-x uid-1 n.1 20"
				})
				defer campaign(t, client, "b")()
				leads := func() bool {
					server.Mu.Lock()
					defer server.Mu.Unlock()
					o, is := server.Objects[path]
					return is && spec(o)["holderIdentity"] == "b"
				}
				if time.Sleep(time.Hour); leads() {
					t.Fatal("it leads beside the heartbeat")
				}
				end(server)
				if time.Sleep(19 * time.Second); leads() {
					t.Fatal("it has not waited")
				}
				if time.Sleep(3 * time.Second); !leads() {
					t.Error("it does not lead")
				}
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

// campaign runs a candidate until stop is called.
func campaign(t *testing.T, client rest.Interface, identity string) (stop func()) {
	t.Helper()
	e, err := election.New(election.Config{Lock: mustNew(t, client), Candidate: locks.Candidate{Identity: identity}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() {
		over <- e.Run(ctx, func(ctx context.Context, _ election.Term) error { <-ctx.Done(); return nil })
	}()
	return func() { cancel(); <-over }
}

// campaignByClientGo runs client-go's elector until stop is called.
func campaignByClientGo(t *testing.T, server *apiServer, identity string) (stop func()) {
	t.Helper()
	client, err := coordinationclient.NewForConfigAndClient(
		&rest.Config{Host: "http://apiserver.test", ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		&http.Client{Transport: apitest.Transport(server)},
	)
	if err != nil {
		t.Fatal(err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lock"}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan bool)
	go func() { e.Run(logr.NewContext(ctx, logr.Discard())); over <- true }()
	return func() { cancel(); <-over }
}
