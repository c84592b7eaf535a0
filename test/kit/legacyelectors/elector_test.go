// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacyelectors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/events"
)

// The settings of all electors here.
const (
	ownLease  = 15 * time.Second
	deadline  = 10 * time.Second
	retry     = 2 * time.Second
	stopDelay = 3 * time.Second
)

// mostPoll is the longest time between a follower's polls.
const mostPoll = retry + time.Duration(AcquireJitter*float64(retry))

var recordKinds = []Kind{ConfigMap, Endpoints, MultiConfigMap, MultiEndpoints}

// elect starts an elector. The returned function stops it and waits for its
// end.
func (s *stage) elect(k Kind, release bool) (stop func()) {
	s.t.Helper()
	l, err := NewLock(s.client, k, "default", "lock", "me")
	if err != nil {
		s.t.Fatal(err)
	}
	e := &Elector{
		Lock: l, Lease: ownLease, Deadline: deadline, Retry: retry, Release: release, Print: s.print,
		Work: func(ctx context.Context, _ uint64) {
			s.print(events.Event{Event: "leading"})
			<-ctx.Done()
			time.Sleep(stopDelay)
		},
	}
	return s.run(e.Run)
}

// heldFor is a ConfigMap with the record of another candidate, with a lease of that many seconds.
func heldFor(seconds int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "default", Annotations: map[string]string{
		annotationKey: recordOf("you", seconds, "1999-12-31T00:00:00Z", "1999-12-31T00:00:00Z", 4),
	}}}
}

// recordOf is a record as client-go writes it.
func recordOf(holder string, seconds int, acquired, renewed string, transitions int) string {
	return fmt.Sprintf(`{"holderIdentity":%q,"leaseDurationSeconds":%d,"acquireTime":%q,"renewTime":%q,"leaderTransitions":%d}`,
		holder, seconds, acquired, renewed, transitions)
}

// record is the annotation of the legacy object.
func (s *stage) record(k Kind) string {
	s.t.Helper()
	if strings.HasSuffix(string(k), string(ConfigMap)) {
		return s.lock().Annotations[annotationKey]
	}
	object, err := s.client.CoreV1().Endpoints("default").Get(s.t.Context(), "lock", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return object.Annotations[annotationKey]
}

func TestTheRecordIsWhatClientGoWroteByteForByte(t *testing.T) {
	for _, k := range recordKinds {
		t.Run(string(k), func(t *testing.T) {
			scenario(t, func(s *stage) {
				stop := s.elect(k, true)
				time.Sleep(2*retry + retry/2) // a bubble begins with the year 2000
				want := recordOf("me", 15, "2000-01-01T00:00:00Z", "2000-01-01T00:00:04Z", 0)
				if got := s.record(k); got != want {
					t.Errorf("held: %s\nwant: %s", got, want)
				}
				stop()
				want = recordOf("", 1, "2000-01-01T00:00:08Z", "2000-01-01T00:00:08Z", 0)
				if got := s.record(k); got != want {
					t.Errorf("released: %s\nwant:     %s", got, want)
				}
			})
		})
	}
}

func TestAnElectorJudgesByItsOwnLeaseWhateverTheRecordSays(t *testing.T) {
	for _, seconds := range []int{0, 1, 3600} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			scenario(t, func(s *stage) {
				start := time.Now()
				defer s.elect(ConfigMap, false)()
				time.Sleep(ownLease + mostPoll)
				if led := s.terms(); len(led) != 1 || led[0].Before(start.Add(ownLease)) {
					t.Errorf("led at %v, want one term %v after %v at least", led, ownLease, start)
				}
				if r := s.record(ConfigMap); !strings.Contains(r, `"leaderTransitions":5`) {
					t.Errorf("want one transition more: %s", r)
				}
			}, heldFor(seconds))
		})
	}
}
