// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
)

// chaos is what can go wrong, at random.
type chaos struct {
	*world
	random *rand.Rand
}

func (c *chaos) one() *process { return c.processes[c.random.IntN(len(c.processes))] }
func (c *chaos) heart() string { return "heart-" + c.one().id }
func (c *chaos) lock() string  { return fmt.Sprintf("lock-%d", c.random.IntN(4)) }
func (c *chaos) within(most time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(most)))
}

func (p *process) links(do func(*link)) { do(p.link); do(p.heartLink) }

func (p *process) heal() {
	p.links(func(l *link) { l.cut(false); l.silence(false); l.intercept(nil, nil) })
}

// slow has each answer of some links come late.
func (c *chaos) slow(p *process, most time.Duration) {
	late := func(r *http.Request) {
		select {
		case <-time.After(most):
		case <-r.Context().Done():
		}
	}
	switch c.random.IntN(3) {
	case 0:
		p.links(func(l *link) { l.intercept(late, nil) })
	case 1:
		p.links(func(l *link) { l.intercept(nil, late) })
	default:
		p.link.intercept(late, nil)
	}
}

// strike does one thing that can go wrong.
func (c *chaos) strike() string {
	p := c.one()
	switch c.random.IntN(19) {
	case 0:
		p.cut(true)
		return "cut " + p.id
	case 1:
		p.heartLink.cut(true)
		return "cut the heart of " + p.id
	case 2:
		p.link.cut(true)
		return "cut the locks of " + p.id
	case 3, 4:
		p.links(func(l *link) { l.silence(true) })
		return "silence " + p.id
	case 5:
		most := c.within(9 * time.Second)
		c.slow(p, most)
		return fmt.Sprintf("slow %s by %v", p.id, most)
	case 6:
		lose := func(r *http.Request) {
			if r.Method != http.MethodGet {
				<-r.Context().Done()
			}
		}
		p.links(func(l *link) { l.intercept(nil, lose) })
		return "lose the answers to writes of " + p.id
	case 7:
		name := c.heart()
		c.Delete(all + name)
		return "delete " + name
	case 8:
		name := c.heart()
		c.edit(name, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = apitest.Ptr("") })
		return "empty " + name
	case 9:
		name := c.heart()
		c.edit(name, func(l *coordinationv1.Lease) { *l = *withdraw(l, epochOf(l)) })
		return "withdraw " + name
	case 10:
		name := c.lock()
		c.edit(name, func(l *coordinationv1.Lease) { delete(l.Annotations, record.AnnotationHeartbeat) })
		return "remove the annotation of " + name
	case 11:
		name := c.lock()
		c.edit(name, func(l *coordinationv1.Lease) { l.Annotations[record.AnnotationHeartbeat] = "gar bage" })
		return "spoil the annotation of " + name
	case 12:
		name := c.lock()
		c.edit(name, func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{"by": "hand" + strconv.Itoa(c.random.Int())}
		})
		return "label " + name
	case 13:
		name := c.heart()
		c.edit(name, func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{"by": "hand" + strconv.Itoa(c.random.Int())}
		})
		return "label " + name
	case 14:
		name := c.lock()
		c.Delete(all + name)
		return "delete " + name
	case 15, 16:
		c.Compact()
		return "compact"
	default:
		p.heal()
		return "heal " + p.id
	}
}

// TestNothingThatGoesWrongMakesTwoLeadNorLeavesALockAlone: however links fail and hands
// meddle, no two lead together, and every lock is led soon after all is well.
func TestNothingThatGoesWrongMakesTwoLeadNorLeavesALockAlone(t *testing.T) {
	eachSeed(t, "CHAOS", 8, chaosOf)
}

// eachSeed runs a test with seeds from 1 on, or as the variables KIND_SEEDS and KIND_FIRST say.
func eachSeed(t *testing.T, kind string, seeds int, test func(t *testing.T, seed uint64)) {
	first := 1
	if n, err := strconv.Atoi(os.Getenv(kind + "_SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.Atoi(os.Getenv(kind + "_FIRST")); err == nil {
		first = n
	}
	for seed := first; seed < first+seeds; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { test(t, uint64(seed)) })
	}
}

func chaosOf(t *testing.T, seed uint64) {
	scenario(t, func(w *world) {
		c := &chaos{world: w, random: rand.New(rand.NewPCG(seed, 1))}
		w.lingers = true
		for i, id := range []string{"a", "b", "c"} {
			w.process(id, i < 2 || c.random.IntN(2) == 0).campaign(4)
			elapse(c.within(3 * time.Second))
		}
		for range 60 {
			w.note("%s", c.strike())
			elapse(c.within(12 * time.Second))
		}
		for _, p := range w.processes {
			p.heal()
		}
		elapse(90 * time.Second)
		w.eachIsLedOnce(4)
	})
}
