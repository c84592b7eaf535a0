// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderservice

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
)

// refuse answers requests with 503 while refusing says so. The message differs each time.
func (w *world) refuse(refusing func(verb, path string) bool) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	n := 0
	w.Before = func(verb, path string) (int, apitest.Object) {
		if !refusing(verb, path) {
			return 0, nil
		}
		n++
		return http.StatusServiceUnavailable, apitest.Status(http.StatusServiceUnavailable, "ServiceUnavailable", "from port "+strconv.Itoa(40000+n), "", "")
	}
}

// TestAWriteThatATermGaveUpDoesNotLandLater: the server has it, and is slow.
func TestAWriteThatATermGaveUpDoesNotLandLater(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, time.Now)()
		land, late := make(chan struct{}), atomic.Bool{}
		w.wire = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && late.CompareAndSwap(false, true) {
				<-land
			}
			w.ServeHTTP(rw, r)
		})
		w.keep("10.0.0.2", 9, time.Now)()
		close(land)
		synctest.Wait()
		w.pointsTo("")
	})
}

func TestATermThatCouldNotWriteStillTakesItsPredecessorOutInTheEnd(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, time.Now)
		down := true
		w.refuse(func(string, string) bool { return down })
		end := w.keep("10.0.0.2", 9, time.Now)
		w.Mu.Lock()
		down = false
		w.Mu.Unlock()
		end()
		w.pointsTo("")
	})
}

// TestADeadLeaderOfAnotherAddressFamilyIsTakenOut, though the slice cannot have the new address.
func TestADeadLeaderOfAnotherAddressFamilyIsTakenOut(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, func() time.Time { return time.Time{} })
		defer w.keep("fd00::2", 9, time.Now)()
		w.pointsTo("")
		w.saw("delete the slice")
	})
}
