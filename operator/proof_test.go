// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/rand"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/proof"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestNoElectionProvesTheDeathOfALiveOneInItsPod: each kind of election stands beside each other
// one in a process, for one lock. Those that share no process lock have one each, and prove
// nothing by it.
func TestNoElectionProvesTheDeathOfALiveOneInItsPod(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no process locks")
	}
	plain := func(ctx context.Context, o Options) (*Election, error) { return New(ctx, "lock", o) }
	shared := func(name string) func(context.Context, Options) (*Election, error) {
		return func(ctx context.Context, o Options) (*Election, error) {
			s, err := NewGroup(ctx, name, o)
			if err != nil {
				return nil, err
			}
			return s.New("lock")
		}
	}
	kinds := []struct {
		name, seat string // elections of one seat share a process lock
		make       func(context.Context, Options) (*Election, error)
	}{
		{"an election", "plain", plain},
		{"a Group of the lock's name", "shared lock", shared("lock")},
		{"a Group", "shared one", shared("one")},
		{"a Group of another name", "shared two", shared("two")},
	}
	for _, leads := range kinds {
		for _, asks := range kinds {
			t.Run(leads.name+" leads beside "+asks.name, func(t *testing.T) {
				server, o := inPod(t)
				t.Setenv("POD_UID", rand.Text())
				leader, err := leads.make(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				asker, err := asks.make(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				err = leader.Run(t.Context(), func(context.Context, election.Term) error {
					server.Mu.Lock()
					lease := apitest.Clone(server.Objects[strings.TrimSuffix(leasePath, "op")+"lock"])
					server.Mu.Unlock()
					noted := map[string]string{}
					for key, value := range lease["metadata"].(map[string]any)["annotations"].(map[string]any) {
						noted[key] = value.(string)
					}
					holder := locks.Suspect{Details: record.ReadDetails(noted), Acquired: time.Now(), Early: true}
					at, own := holder.Details.ProcessLock, asker.proves().ProcessID().ProcessLock
					if at == "" || at == own || (own == "") != (leads.seat == asks.seat) {
						t.Errorf("the leader has the process lock %q, and who asks %q", at, own)
					}
					ended, cancel := context.WithCancel(t.Context())
					cancel()
					if asker.proves().Dead(ended, holder) == nil {
						t.Error("TWO LEADERS: the leader is declared dead")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func (e *Election) proves() *proof.Witness {
	if e.group != nil {
		return e.group.witness
	}
	return e.witness
}
