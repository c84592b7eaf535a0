// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/extension"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// TestM12AGroupLooksForALegacyLockAgainAfterAPhaseInWhichOneCounts, though the Lease that says so
// is deleted.
func TestM12AGroupLooksForALegacyLockAgainAfterAPhaseInWhichOneCounts(t *testing.T) {
	server := apitest.NewServer()
	legacy := errors.New("a legacy lock counts")
	var leads, looks int
	l := &groupLock{gate: extension.Gate{Lock: "op", Allow: func(context.Context, string) error {
		if looks++; looks > leads {
			return legacy
		}
		return nil
	}}}
	var err error
	l.Lock, err = lease.New(lease.Config{Client: apitest.Wire(t, server, coordinationv1.SchemeGroupVersion), Namespace: "ns", Name: "op", Observe: l.gate.Observe})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	takes := locks.Record{Holder: "a", LeaseDuration: 15 * time.Second, AcquireTime: now, RenewTime: now}
	leads = 1 // no legacy lock counts at the first look
	won, err := l.Write(t.Context(), locks.Version{}, takes)
	if err != nil {
		t.Fatal(err)
	}
	if won, err = l.Write(t.Context(), won.Version, takes); err != nil || looks != 1 {
		t.Fatalf("after %d looks: %v", looks, err)
	}
	server.Change(leasePath, func(o apitest.Object) {
		a, _ := o["metadata"].(apitest.Object)["annotations"].(apitest.Object)
		if a == nil {
			a = apitest.Object{}
			o["metadata"].(apitest.Object)["annotations"] = a
		}
		a["zonelect.dev/phase"], a["zonelect.dev/phase-step"] = "legacy", "2"
	})
	is, err := l.Read(t.Context())
	if err != nil || is.Barred == "" {
		t.Fatalf("in phase legacy: barred %q, %v", is.Barred, err)
	}
	ends := is.Record
	ends.Holder = ""
	if _, err := l.Write(t.Context(), is.Version, ends); err != nil || looks != 1 {
		t.Errorf("its release, after %d looks: %v", looks, err)
	}
	server.Delete(leasePath)
	if _, err := l.Write(t.Context(), locks.Version{}, takes); !errors.Is(err, legacy) {
		t.Errorf("it takes the lock beside a legacy one: %v", err)
	}
}
