// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/electiontest"
	"github.com/zonelect/zonelect/election/status"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lockstest"
	"github.com/zonelect/zonelect/locks/memory"
)

// The number of electors, and of elections.
const (
	churnSeats = 50
	churnLocks = 5
)

var churnTiming = election.Timing{
	LeaseDuration: 3 * time.Second, RenewDeadline: 1600 * time.Millisecond, RenewInterval: 800 * time.Millisecond,
	Exclusive: true,
}

func TestFiftyElectorsThatComeAndGoNeverLeadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
		held := make([]*memory.Lock, churnLocks)
		for i := range held {
			held[i] = memory.New(fmt.Sprint("lock-", i))
		}
		churn(t, 5*time.Minute, held)
	})
}

// churn makes electors start, resign, lose the API and end at random for that long.
func churn(t *testing.T, length time.Duration, held []*memory.Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	histories := make([]electiontest.History, churnLocks)
	var lost, resigned atomic.Int64
	var seats sync.WaitGroup
	for i := range churnSeats {
		dice := rand.New(rand.NewPCG(uint64(i), 3))
		n := i % churnLocks
		seats.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				link := lockstest.NewFaulty(held[n])
				e, err := election.New(election.Config{Lock: link, Candidate: locks.Candidate{Identity: fmt.Sprintf("c%d-%d", i, life)}, Timing: churnTiming})
				if err != nil {
					t.Error(err)
					return
				}
				live(t, ctx, e, link, dice, &histories[n], &lost, &resigned)
			}
		})
	}
	seats.Wait()
	terms := 0
	for i := range histories {
		if err := histories[i].Check(); err != nil {
			t.Errorf("lock %d: %v", i, err)
		}
		terms += len(histories[i].Terms())
	}
	t.Logf("%d terms in %v: %d lost, %d resigned", terms, length, lost.Load(), resigned.Load())
	if seconds := int64(length / time.Second); int64(terms) < seconds || lost.Load() < seconds/5 || resigned.Load() < seconds/5 {
		t.Errorf("this tests not much: %d terms, %d lost, %d resigned", terms, lost.Load(), resigned.Load())
	}
}

// live is one elector from its start to its end.
func live(t *testing.T, ctx context.Context, e *election.Elector, link *lockstest.Faulty, dice *rand.Rand, history *electiontest.History, lost, resigned *atomic.Int64) {
	running, end := context.WithCancel(ctx)
	slow := time.Duration(dice.Int64N(int64(e.Timing().StopGrace / 2)))
	over := make(chan error)
	go func() {
		over <- e.Run(running, history.Lead(func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			switch cause := context.Cause(ctx); {
			case errors.Is(cause, election.ErrLost):
				lost.Add(1)
			case errors.Is(cause, election.ErrResigned):
				resigned.Add(1)
			}
			time.Sleep(slow)
			return ctx.Err()
		}))
	}()
	news := e.Subscribe(running)
	go func() {
		for range news { // readers run too
		}
	}()
	for acting := true; acting; {
		time.Sleep(time.Duration(dice.Int64N(int64(2 * time.Second))))
		leads := e.Status().State == status.StateLeader
		switch luck := dice.IntN(10); {
		case ctx.Err() != nil:
			acting = false
		case leads && luck < 4:
			_ = e.Resign(running)
		case leads && luck < 8:
			link.Set(lockstest.Fault{Hang: true})
		case luck == 9:
			acting = false
		default:
			link.Set(lockstest.Fault{})
		}
	}
	end()
	link.Set(lockstest.Fault{})
	if err := <-over; err != nil {
		t.Errorf("Run: %v", err)
	}
}
