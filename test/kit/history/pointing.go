// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Pointing is one version of the EndpointSlice of a Service that points to the leader.
type Pointing struct {
	Version uint64 // its resourceVersion
	// Seen is when somebody outside first saw it.
	Seen time.Time
	// Token is that of the term that wrote it; 0 if somebody else did, or it is gone.
	Token uint64 `json:",omitempty"`
	// Addresses are all that the Service points to.
	Addresses []string `json:",omitempty"`
	// Gone means that the EndpointSlice was deleted.
	Gone bool `json:",omitempty"`
}

// PointingOf reads one version of an EndpointSlice.
func PointingOf(slice *discoveryv1.EndpointSlice, seen time.Time) Pointing {
	p := Pointing{Seen: seen}
	p.Version, _ = strconv.ParseUint(slice.ResourceVersion, 10, 64)                 // empty in what etcd stores
	p.Token, _ = strconv.ParseUint(slice.Annotations["zonelect.dev/token"], 10, 64) // else it is of nobody's
	for _, e := range slice.Endpoints {
		p.Addresses = append(p.Addresses, e.Addresses...)
	}
	return p
}

// To is the address that the Service points to; empty for none.
func (p Pointing) To() string {
	if len(p.Addresses) == 0 {
		return ""
	}
	return p.Addresses[0]
}

// Pointings are all versions of an EndpointSlice, in their order.
type Pointings []Pointing

// Wrong says which versions must not be: one with two addresses; one of an earlier term after one
// of a later term; and one with an address that is not that of the term's leader. leaders has the
// address of the leader of each term, by its token. A term may be missing, because its leader was
// killed before it could print anything.
func (all Pointings) Wrong(leaders map[uint64]string) (wrong []string) {
	latest := Pointing{}
	for _, p := range all {
		if len(p.Addresses) > 1 {
			wrong = append(wrong, fmt.Sprintf("version %d points to %v", p.Version, p.Addresses))
		}
		if p.Gone {
			continue
		}
		if p.Token < latest.Token {
			wrong = append(wrong, fmt.Sprintf("version %d points to %q of term %d, after version %d did to %q of term %d",
				p.Version, p.To(), p.Token, latest.Version, latest.To(), latest.Token))
		} else {
			latest = p
		}
		if leader, known := leaders[p.Token]; p.To() != "" && known && !slices.Contains(p.Addresses, leader) {
			wrong = append(wrong, fmt.Sprintf("version %d points to %v, and %s led in its term %d", p.Version, p.Addresses, leader, p.Token))
		}
	}
	return wrong
}

// At is the last version that had been seen by then. It is zero if there was none.
func (all Pointings) At(when time.Time) (last Pointing) {
	for _, p := range all {
		if !p.Seen.After(when) {
			last = p
		}
	}
	return last
}

// First returns when the Service was first seen to point to the leader of a term.
func (all Pointings) First(token uint64) (at time.Time, seen bool) {
	for _, p := range all {
		if p.Token == token && p.To() != "" {
			return p.Seen, true
		}
	}
	return time.Time{}, false
}

// LeadersOf returns the addresses of the leaders of all terms that candidates printed, by their
// tokens. addresses are those of the candidates.
func LeadersOf(printed Printed, addresses map[string]string) map[uint64]string {
	leaders := map[uint64]string{}
	for who, all := range printed {
		for _, e := range all {
			if e.Event == "leading" {
				leaders[e.Token] = addresses[who]
			}
		}
	}
	return leaders
}
