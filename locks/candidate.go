// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

// Candidate identifies a process that campaigns for a lock.
type Candidate struct {
	// Identity must be different each time a process starts, because a restarted
	// process must not continue its predecessor's term. Required.
	Identity string
	Zone     string // the failure domain it runs in; empty if unknown
	// Node and Pod are stored in the record, for people. Optional; a Pod without its name or its UID is not stored.
	Node string
	Pod  Pod
}

// Pod identifies a pod. The zero Pod is unknown.
type Pod struct{ Name, UID string }

// String returns "name/uid", or nothing for the zero Pod.
func (p Pod) String() string {
	if p == (Pod{}) {
		return ""
	}
	return p.Name + "/" + p.UID
}

// Peer describes a candidate as it reports itself to the others.
type Peer struct {
	Candidate
	// Unhealthy says why the candidate should not lead; empty if it is healthy.
	Unhealthy string
}
