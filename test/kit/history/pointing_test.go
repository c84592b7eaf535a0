// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/test/kit/events"
)

// twoTerms is a Service that a led until it stopped in good order, and b leads now.
func twoTerms() Pointings {
	return Pointings{
		{Version: 1, Seen: time.Unix(1, 0), Token: 10, Addresses: []string{"a"}},
		{Version: 2, Seen: time.Unix(2, 0), Token: 10},
		{Version: 3, Seen: time.Unix(3, 0), Token: 20, Addresses: []string{"b"}},
	}
}

func TestAServicePointsToOneLeaderAndNeverBack(t *testing.T) {
	for name, c := range map[string]struct {
		more []Pointing
		want string // empty for nothing wrong
	}{
		"one after the other":                         {nil, ""},
		"to nobody":                                   {[]Pointing{{Version: 4, Token: 20}}, ""},
		"it is deleted, and made again":               {[]Pointing{{Version: 4, Gone: true}, {Version: 5, Token: 20, Addresses: []string{"b"}}}, ""},
		"a leader that printed nothing":               {[]Pointing{{Version: 4, Token: 30, Addresses: []string{"c"}}}, ""},
		"to two":                                      {[]Pointing{{Version: 4, Token: 20, Addresses: []string{"b", "a"}}}, "points to [b a]"},
		"to the former leader":                        {[]Pointing{{Version: 4, Token: 10, Addresses: []string{"a"}}}, `"a" of term 10, after version 3 did to "b" of term 20`},
		"to nobody, by the former leader":             {[]Pointing{{Version: 4, Token: 10}}, `"" of term 10, after`},
		"to the former one once it is deleted":        {[]Pointing{{Version: 4, Gone: true}, {Version: 5, Token: 10, Addresses: []string{"a"}}}, "of term 10, after"},
		"to the former one with the next one's token": {[]Pointing{{Version: 4, Token: 20, Addresses: []string{"a"}}}, "and b led in its term 20"},
		"by a hand":                                   {[]Pointing{{Version: 4, Addresses: []string{"x"}}}, "of term 0, after"},
	} {
		wrong := append(twoTerms(), c.more...).Wrong(map[uint64]string{10: "a", 20: "b"})
		if c.want == "" && len(wrong) > 0 || c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.want)) {
			t.Errorf("%s: found %q, want %q", name, wrong, c.want)
		}
	}
}

func TestAServicePointsWhereItWasLastSeenToPoint(t *testing.T) {
	all := twoTerms()
	for at, want := range map[int64]uint64{0: 0, 1: 1, 2: 2, 9: 3} {
		if got := all.At(time.Unix(at, 0)); got.Version != want {
			t.Errorf("at %d it is version %d, want %d", at, got.Version, want)
		}
	}
	if at, seen := all.First(20); !seen || !at.Equal(time.Unix(3, 0)) {
		t.Errorf("term 20: %v, %v", at, seen)
	}
	if _, seen := append(all, Pointing{Token: 30}).First(30); seen {
		t.Error("a term that points to nobody was seen to point")
	}
}

func TestAPointingIsReadFromAnEndpointSlice(t *testing.T) {
	p := PointingOf(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{"zonelect.dev/token": "20"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"a"}}, {Addresses: []string{"b"}}},
	}, time.Unix(1, 0))
	if p.Version != 7 || p.Token != 20 || len(p.Addresses) != 2 || p.To() != "a" || p.Seen.IsZero() {
		t.Errorf("%+v", p)
	}
	led := LeadersOf(Printed{"one": {events.Event{Event: "leading", Token: 20}, events.Event{Event: "stopped"}}}, map[string]string{"one": "a"})
	if len(led) != 1 || led[20] != "a" {
		t.Errorf("%v", led)
	}
}
