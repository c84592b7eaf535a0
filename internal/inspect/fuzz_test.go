// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/inspect"
)

// FuzzElections reads any three Leases of a namespace as locks. What is said of each fits together,
// can be written and read as JSON, does not depend on the order of the Leases, and is the same when
// only that lock was asked for and when what nobody looks at was removed.
func FuzzElections(f *testing.F) {
	seed := func(name string) string {
		text, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		return string(text)
	}
	lock, other, presence, released := seed("lock"), seed("other"), seed("presence"), seed("released")
	f.Add([]byte(lock), []byte(presence), []byte(other), int64(0), int64(0), false)
	f.Add([]byte(lock), []byte(other), []byte(presence), int64(time.Hour), int64(16*time.Second), true)
	f.Add([]byte(released), []byte(presence), []byte(`{}`), int64(20*time.Second), int64(0), false)
	f.Add([]byte(strings.ReplaceAll(lock, "15", "-15")), []byte(`{}`), []byte(other), int64(-1)<<62, int64(time.Second), true)
	for _, year := range []string{"0000-01-01T00:00:00.000000+14:00", "9999-12-31T23:59:59.000000-14:00"} {
		// By UTC these years have no four digits.
		odd := strings.NewReplacer("1999-12-31T23:59:00.000000Z", year, "1999-12-31T23:59:59.000000Z", year, "2000-01-01T01:00:00Z", year)
		f.Add([]byte(odd.Replace(lock)), []byte(presence), []byte(`{}`), int64(0), int64(0), false)
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte, after, watched int64, renewed bool) {
		all := make([]coordinationv1.Lease, 3)
		names := map[string]bool{}
		for i, text := range [][]byte{a, b, c} {
			if json.Unmarshal(text, &all[i]) != nil || names[all[i].Name] {
				t.Skip("no Leases, or two of one name")
			}
			all[i].Namespace, names[all[i].Name] = key.Namespace, true
		}
		at := now.Add(time.Duration(after))
		look := func(e inspect.Election) string {
			if watched > 0 {
				e.Watched = inspect.Watched{For: time.Duration(watched), Renewed: renewed}
			}
			fits(t, e, at)
			return written(t, e.Status(at))
		}
		said := map[string]string{}
		for _, e := range inspect.Among(all) {
			said[e.Name] = look(e)
		}
		slices.Reverse(all)
		found := inspect.Among(all)
		for _, e := range found {
			if now := look(e); now != said[e.Name] {
				t.Errorf("in another order it is\n%s\nbefore\n%s", now, said[e.Name])
			}
		}
		if len(found) != len(said) {
			t.Errorf("%d locks are found, and %d before", len(found), len(said))
		}
	})
}

// fits says what does not fit together in what is said of a lock whose legacy lock nobody looked at.
func fits(t *testing.T, e inspect.Election, at time.Time) {
	t.Helper()
	s := e.Status(at)
	r := e.Snapshot().Record
	leads := s.State == inspect.Held || s.State == inspect.Waiting
	named := leads || s.State == inspect.Stale || s.State == inspect.Expired
	if named != (s.Leader != nil) || named != (r.Holder != "") || (s.State == inspect.Absent) != (e.Lease == nil) {
		t.Errorf("%s has the leader %+v, by %+v", s.State, s.Leader, r)
	}
	vacant := s.State == inspect.Expired || s.State == inspect.Released || s.State == inspect.Free
	if v := s.Vacancy; leads != (v == nil) || v != nil && !v.Uncertain && !vacant {
		t.Errorf("%s has the vacancy %+v", s.State, v)
	}
	expired := e.Watched.For >= r.LeaseDuration && r.LeaseDuration > 0
	if e.Watched.Renewed && r.Holder != "" && !leads || s.State == inspect.Expired && !expired {
		t.Errorf("%s after %+v, by %+v", s.State, e.Watched, r)
	}
	present := map[string]bool{}
	for _, c := range e.Candidates {
		if c.UID == "" || present[c.Presence] {
			t.Errorf("%+v is a candidate", c)
		}
		present[c.Presence] = true
	}
	if f := s.LastFailover; f != nil && (s.Leader == nil || f.NobodyLedMilliseconds != nil && *f.NobodyLedMilliseconds < 0) {
		t.Errorf("%+v is the last failover, by %+v", f, r)
	}
}

// written is a value as JSON, which must be readable.
func written[T any](t *testing.T, v T) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return string(text)
}
