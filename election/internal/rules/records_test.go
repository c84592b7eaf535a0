// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestWhatARecordSaysOfACandidateReadsBackAsItIs: else its leader would mend the record after each
// acquisition.
func TestWhatARecordSaysOfACandidateReadsBackAsItIs(t *testing.T) {
	for name, pod := range map[string]locks.Pod{
		"none": {}, "whole": {Name: "op-0", UID: "u"}, "without POD_UID": {Name: "op-0"}, "without a name": {UID: "u"},
	} {
		said := DetailsOf(locks.Candidate{Identity: "op-0_1", Zone: "za", Node: "n", Pod: pod})
		lease := record.Write(nil, locks.Record{Holder: "op-0_1", Details: said})
		if read := record.Read(lease).Details; read.Pod != said.Pod {
			t.Errorf("%s: %+v reads as %+v", name, said.Pod, read.Pod)
		}
	}
}

// TestS6AnEarlierReadRevivesNoDeletedRecord: of two reads that were sent while there was a record, the second
// found none, and was answered first.
func TestS6AnEarlierReadRevivesNoDeletedRecord(t *testing.T) {
	o, now := NewObserver(Self{Identity: "me", Lease: time.Second}), time.Unix(0, 0)
	there := locks.Snapshot{
		Version: locks.Version{Number: 10, UID: "1", Opaque: true},
		Record:  locks.Record{Holder: "you", LeaseDuration: time.Second},
	}
	o.Observe(there, now)
	gone := locks.Snapshot{}
	o.ObserveRead(gone, there.Version, false, now)
	renewed, anew := there, there
	renewed.Version.Number, anew.Version.Number, anew.Version.UID = 11, 12, "2"
	for _, s := range []locks.Snapshot{there, renewed} {
		for _, asOf := range []locks.Version{{}, {Number: 8}, there.Version} {
			if o.ObserveRead(s, asOf, false, now) || o.Newest().Version.Exists() {
				t.Errorf("version %d is there again, by a read that was sent as of %+v", s.Version.Number, asOf)
			}
		}
	}
	created := *o
	if !created.ObserveRead(anew, there.Version, false, now) || created.Newest().Version != anew.Version {
		t.Error("one that was created since is not seen")
	}
	if !o.ObserveRead(there, o.Newest().Version, false, now) || !o.Newest().Version.Exists() {
		t.Error("a read that was sent later shows it in vain")
	}
}
