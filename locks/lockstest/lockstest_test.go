// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

func TestMemoryHoldsTheLaws(t *testing.T) {
	lockstest.RunSuite(t, lockstest.Suite{
		New:    func(t *testing.T) locks.Lock { return memory.New(t.Name()) },
		Delete: func(_ *testing.T, l locks.Lock) { l.(*memory.Lock).Delete() },
	})
}

func TestAFaultyLockWithoutFaultsHoldsTheLaws(t *testing.T) {
	lockstest.RunSuite(t, lockstest.Suite{
		New:          func(t *testing.T) locks.Lock { return lockstest.NewFaulty(memory.New(t.Name())) },
		StoreNothing: func(_ *testing.T, l locks.Lock) { l.(*lockstest.Faulty).Set(lockstest.Fault{Unstored: true}) },
	})
}

func TestAFaultyLockHoldsRequestsUntilTheFaultChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockstest.NewFaulty(memory.New("lock"))
		l.Set(lockstest.Fault{Hold: true, LoseWrites: true})
		time.AfterFunc(time.Second, func() { l.Set(lockstest.Fault{}) })
		begun := time.Now()
		lost, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		wrote := make(chan error)
		go func() {
			_, err := l.Write(lost, locks.Version{}, locks.Record{Holder: "lost"})
			wrote <- err
		}()
		now, err := l.Read(t.Context())
		if took := time.Since(begun); err != nil || took != time.Second {
			t.Errorf("the read was answered after %v: %v", took, err)
		}
		if err := <-wrote; !errors.Is(err, context.DeadlineExceeded) || now.Version.Exists() {
			t.Errorf("the lost write returned %v, the record is %+v", err, now)
		}
		l.Set(lockstest.Fault{Hold: true})
		time.AfterFunc(time.Second, func() { l.Set(lockstest.Fault{}) })
		if _, err := l.Write(t.Context(), now.Version, locks.Record{Holder: "queued"}); err != nil {
			t.Errorf("the queued write: %v", err)
		}
	})
}
