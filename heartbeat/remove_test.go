// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/locks/lease"
)

// remove ends a process in good order, and removes its heartbeat as package operator does.
func (p *process) remove() error {
	p.quit()
	p.electors.Wait()
	p.common.heart.settle(context.Background())
	p.endHeart()
	p.beating.Wait()
	return p.common.heart.remove(context.Background())
}

func TestTheHeartbeatOfAProcessThatEndsInGoodOrderIsDeleted(t *testing.T) {
	scenario(t, func(w *world) {
		a, b := w.process("a", true), w.process("b", true)
		a.campaign(5)
		elapse(10 * time.Second)
		b.campaign(5)
		elapse(10 * time.Second)
		if err := a.remove(); err != nil {
			t.Error(err)
		}
		if l := w.lease("heart-a"); l != nil {
			t.Errorf("it is %v", l)
		}
		elapse(time.Second)
		if n := b.leads(); n != 5 {
			t.Errorf("a second after the release b leads %d of 5", n)
		}
	})
}

// TestL4AHeartbeatThatALockStillNamesIsNotDeleted: its waiters would wait longer.
func TestL4AHeartbeatThatALockStillNamesIsNotDeleted(t *testing.T) {
	t.Run("unfinished work", func(t *testing.T) {
		scenario(t, func(w *world) {
			a, b := w.process("a", true), w.process("b", true)
			a.campaign(3)
			lock, err := a.common.lock("slow")
			if err != nil {
				t.Fatal(err)
			}
			e := a.elector(lock)
			a.electors.Go(func() {
				_ = e.Run(a.ctx, func(ctx context.Context, _ election.Term) error {
					<-ctx.Done()
					return election.ErrUnfinished
				})
			})
			elapse(10 * time.Second)
			b.campaignFor("slow")
			elapse(10 * time.Second)
			ended := time.Now()
			if err := a.remove(); err != nil || w.lease("heart-a") == nil {
				t.Errorf("it is %v, with %v", w.lease("heart-a"), err)
			}
			for b.leads() == 0 && time.Since(ended) < time.Minute {
				elapse(100 * time.Millisecond)
			}
			if took := time.Since(ended); took > w.Timing.LeaseDuration+time.Second {
				t.Errorf("b leads %v after the end of a", took)
			}
		})
	})
	t.Run("a note that could not be written on the locks", func(t *testing.T) {
		leavingOf(t, func(w *world, a *process) {
			w.Before = func(verb, path string) (int, apitest.Object) {
				if verb == "update" && strings.HasPrefix(path, all+"lock-") {
					return http.StatusServiceUnavailable, apitest.Status(http.StatusServiceUnavailable, "ServiceUnavailable", "try later", "", "")
				}
				return 0, nil
			}
			if err := a.remove(); err != nil {
				t.Error(err)
			}
			if l := w.lease("heart-a"); l == nil {
				t.Error("it is deleted")
			}
		})
	})
	t.Run("not released", func(t *testing.T) {
		scenario(t, func(w *world) {
			a := w.process("a", true)
			elapse(10 * time.Second)
			if err := a.common.heart.remove(w.Context()); err != nil || w.lease("heart-a") == nil {
				t.Errorf("while it beats it is %v, with %v", w.lease("heart-a"), err)
			}
		})
	})
}

// TestAHeartbeatThatMayNotBeDeletedSaysSo.
func TestAHeartbeatThatMayNotBeDeletedSaysSo(t *testing.T) {
	scenario(t, func(w *world) {
		a := w.process("a", true)
		a.campaign(1)
		elapse(10 * time.Second)
		w.Before = func(verb, path string) (int, apitest.Object) {
			if verb == "delete" {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		if err := a.remove(); !errors.Is(err, locks.ErrForbidden) || w.lease("heart-a") == nil {
			t.Errorf("it is %v, with %v", w.lease("heart-a"), err)
		}
	})
}

// TestAHeartbeatThatIsDeletedAgainAndAgainLosesItsOwner, in case the owner is why.
func TestAHeartbeatThatIsDeletedAgainAndAgainLosesItsOwner(t *testing.T) {
	scenario(t, func(w *world) {
		owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: "uid-a"}}
		w.heart = func(c *lease.Config) {
			c.Owners = func(context.Context) []metav1.OwnerReference { return owner }
		}
		w.process("a", true).campaign(1)
		for i, want := range []int{1, 1, 0, 0} {
			elapse(10 * time.Second)
			l := w.lease("heart-a")
			if l == nil || len(l.OwnerReferences) != want {
				t.Fatalf("when it was deleted %d times it is %v", i, l)
			}
			w.Delete(all + "heart-a")
		}
	})
}

// TestAHeartbeatThatIsDeletedAgainAndAgainIsMadeAnewAtTheRateOfHeartbeats.
func TestAHeartbeatThatIsDeletedAgainAndAgainIsMadeAnewAtTheRateOfHeartbeats(t *testing.T) {
	scenario(t, func(w *world) {
		w.process("a", true).campaign(1)
		elapse(10 * time.Second)
		made := map[string]bool{}
		const span = 5 * time.Minute
		for began := time.Now(); time.Since(began) < span; elapse(20 * time.Millisecond) {
			if l := w.lease("heart-a"); l != nil {
				made[string(l.UID)] = true
				w.Delete(all + "heart-a")
			}
		}
		if n, most := len(made), int(span/w.Timing.RenewInterval)+20; n > most {
			t.Errorf("it was made %d times in %v", n, span)
		}
		elapse(30 * time.Second)
		if holder := w.holder("lock-0"); holder != "a" {
			t.Errorf("in the end %q leads", holder)
		}
	})
}
