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
	"github.com/zonelect/zonelect/internal/history"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// historyOn is the history in the Lease's annotation.
func historyOn(a *apiServer) string {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	text, _ := a.Objects[path]["metadata"].(object)["annotations"].(object)[record.AnnotationHistory].(string)
	return text
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

// TestTheHistorySurvivesClientGosElector, which keeps annotations, and notes its terms: the next
// zonelect candidate does. No write is sent for it.
func TestTheHistorySurvivesClientGosElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer()
		var stored []string // by writes that changed it
		writes := 0
		server.Stored = func(_ *http.Request, at string, _, now apitest.Object) {
			if at != path || now == nil {
				return
			}
			writes++
			text, _ := now["metadata"].(object)["annotations"].(object)[record.AnnotationHistory].(string)
			if h := text; len(stored) == 0 || h != stored[len(stored)-1] {
				stored = append(stored, h)
			}
		}
		client := apitest.Wire(t, server, coordinationv1.SchemeGroupVersion)
		stop := campaign(t, client, "a")
		time.Sleep(time.Minute)
		stop()
		if most := 1 + 30 + 1; writes > most { // the acquisition, renewals and the release
			t.Errorf("%d writes in a minute, not %d", writes, most)
		}
		stop = campaignByClientGo(t, server, "client-go_1")
		time.Sleep(time.Minute)
		if len(stored) != 1 || historyOn(server) != stored[0] {
			t.Errorf("while client-go leads there are %d histories: %s", len(stored), historyOn(server))
		}
		stopNext := campaign(t, client, "b")
		time.Sleep(time.Minute + 700*time.Millisecond) // a release at the time of a renewal would look like that
		stop()
		time.Sleep(time.Minute)
		stopNext()
		synctest.Wait()
		if len(stored) != 2 {
			t.Errorf("it changed with %d writes, not 2", len(stored))
		}
		all, err := history.Parse(historyOn(server))
		if err != nil || len(all) != 3 {
			t.Fatalf("the history is %+v, %v", all, err)
		}
		if a := all[0]; a.Holder != "a" || a.Token == 0 || a.Cause != "absent" {
			t.Errorf("the first term is %+v", a)
		}
		if x := all[1]; x.Holder != "client-go_1" || x.Cause != history.CauseOtherProgram || x.Acquired.Before(all[0].Acquired) {
			t.Errorf("client-go's is %+v", x)
		}
		if b := all[2]; b.Holder != "b" || b.Cause != "released" || b.NobodyLed == nil || *b.NobodyLed > time.Second {
			t.Errorf("the last is %+v", b)
		}
	})
}
