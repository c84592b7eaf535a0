// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderservice

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/live"
	"github.com/zonelect/zonelect/internal/sleep"
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

// first reports true for the first n requests with that verb for slices.
func first(n int, verb string) func(string, string) bool {
	return func(v, path string) bool {
		if n > 0 && v == verb && strings.Contains(path, "/endpointslices") {
			n--
			return true
		}
		return false
	}
}

func TestAFailedWriteAtATakeoverIsRepeatedSoon(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, time.Now)()
		w.refuse(first(1, "update"))
		end := w.keep("10.0.0.2", 9, time.Now)
		defer end()
		time.Sleep(time.Second)
		w.pointsTo("10.0.0.2")
	})
}

func TestAFailedWriteAtTheEndOfATermIsRepeated(t *testing.T) {
	inABubble(t, func(w *world) {
		end := w.keep("10.0.0.1", 7, time.Now)
		w.refuse(first(2, "update"))
		end()
		w.pointsTo("")
	})
}

// hang gives no answer to the next n requests, as a connection that died with a zone does.
func (w *world) hang(n int32) {
	left := atomic.Int32{}
	left.Store(n)
	w.wire = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if left.Add(-1) >= 0 {
			<-r.Context().Done()
			return
		}
		w.ServeHTTP(rw, r)
	})
}

func TestAConnectionThatDiedDelaysTheServiceForLessThanASecond(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, time.Now)()
		w.hang(1)
		end := w.keep("10.0.0.2", 9, time.Now)
		time.Sleep(time.Second)
		w.pointsTo("10.0.0.2")
		w.hang(1)
		ended := time.Now()
		end()
		if took := time.Since(ended); took > time.Second {
			w.Errorf("the term ended after %v", took)
		}
		w.pointsTo("")
	})
}

func TestATermUsesNoConnectionThatMayHaveDiedWithTheFormerLeader(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, time.Now)()
		var died atomic.Pointer[time.Time] // when all connections did
		dies := func() { now := time.Now(); died.Store(&now) }
		w.wire = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if since, wants := live.Wanted(r.Context()); !wants || since.Before(*died.Load()) {
				<-r.Context().Done()
				return
			}
			w.ServeHTTP(rw, r)
		})
		time.Sleep(time.Second)
		dies()
		end := w.keep("10.0.0.2", 9, time.Now)
		synctest.Wait()
		w.pointsTo("10.0.0.2")
		time.Sleep(time.Second)
		dies()
		ended := time.Now()
		end()
		if took := time.Since(ended); took != soon {
			w.Errorf("the term ended after %v, want %v", took, soon)
		}
		w.pointsTo("")
	})
}

func TestAServerThatTakesSecondsForEachAnswerIsWaitedFor(t *testing.T) {
	for _, each := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
		inABubble(t, func(w *world) {
			w.keep("10.0.0.1", 7, time.Now)()
			w.wire = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if sleep.For(r.Context(), each) == nil {
					w.ServeHTTP(rw, r)
				}
			})
			end := w.keep("10.0.0.2", 9, time.Now)
			time.Sleep(time.Minute)
			w.pointsTo("10.0.0.2")
			end()
			if each < trust/4 { // else a RenewDeadline is over before a try has enough time
				w.pointsTo("")
			}
		})
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

func TestAServerThatIsDownIsLoggedOnce(t *testing.T) {
	inABubble(t, func(w *world) {
		requests := 0
		w.refuse(func(string, string) bool { requests++; return true })
		end := w.keep("10.0.0.1", 7, time.Now)
		time.Sleep(100 * again)
		w.mu.Lock()
		if len(w.logged) != 1 {
			t.Errorf("%d lines: %q", len(w.logged), w.logged)
		}
		w.mu.Unlock()
		w.Mu.Lock()
		if requests > 220 {
			t.Errorf("%d requests to a server that is down", requests)
		}
		w.Mu.Unlock()
		end()
	})
}

func TestAMissingServiceIsNotAskedForInARow(t *testing.T) {
	inABubble(t, func(w *world) {
		w.Delete(servicePath)
		requests := 0
		w.Before = func(string, string) (int, apitest.Object) { requests++; return 0, nil }
		defer w.keep("10.0.0.1", 7, time.Now)()
		time.Sleep(100 * time.Millisecond)
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if requests != 1 {
			t.Errorf("%d requests", requests)
		}
	})
}

func TestAnInventedTokenIsReplacedWithinALease(t *testing.T) {
	inABubble(t, func(w *world) {
		defer w.keep("10.0.0.1", 7, time.Now)()
		tokenBecomes("18446744073709551615")(w)
		time.Sleep(again)
		if s := w.stored(); tokenOf(s) != 7 {
			t.Errorf("%+v", s)
		}
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

// TestACreateThatATermGaveUpDoesNotLandLater, where there was no slice that it could replace.
func TestACreateThatATermGaveUpDoesNotLandLater(t *testing.T) {
	inABubble(t, func(w *world) {
		land, late := make(chan struct{}), atomic.Bool{}
		w.wire = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && late.CompareAndSwap(false, true) {
				<-land
			}
			w.ServeHTTP(rw, r)
		})
		w.keep("10.0.0.1", 7, time.Now)()
		close(land)
		synctest.Wait()
		w.pointsTo("")
	})
}

func TestATermThatEndsWhileTheServerIsDownIsTakenOutWhenThatIsBack(t *testing.T) {
	inABubble(t, func(w *world) {
		end := w.keep("10.0.0.1", 7, time.Now)
		down := true
		w.refuse(func(string, string) bool { return down })
		time.AfterFunc(trust/2, func() {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			down = false
		})
		end()
		w.pointsTo("")
	})
}

func TestATermThatMayNotWriteEndsAtOnce(t *testing.T) {
	inABubble(t, func(w *world) {
		w.Before = func(verb, path string) (int, apitest.Object) { return apitest.Forbidden(verb, path) }
		end := w.keep("10.0.0.1", 7, time.Now)
		began := time.Now()
		end()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAServerThatStaysDownHoldsAnEndedTermForARenewDeadline(t *testing.T) {
	inABubble(t, func(w *world) {
		end := w.keep("10.0.0.1", 7, time.Now)
		w.refuse(func(string, string) bool { return true })
		began := time.Now()
		end()
		if took := time.Since(began); took != trust {
			t.Errorf("it took %v", took)
		}
		w.saw("may go on pointing to this process")
	})
}
