// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// TestWhatARecordSaysOfACandidateReadsBackAsItIs: else its leader would mend the record after each
// acquisition.
func TestWhatARecordSaysOfACandidateReadsBackAsItIs(t *testing.T) {
	for name, pod := range map[string]locks.Pod{
		"none": {}, "whole": {Name: "op-0", UID: "u"}, "without POD_UID": {Name: "op-0"}, "without a name": {UID: "u"},
	} {
		said := DetailsOf(locks.Candidate{Identity: "op-0_1", Zone: "za", Node: "n", Pod: pod, Container: "op"})
		lease := record.Write(nil, locks.Record{Holder: "op-0_1", Details: said})
		if read := record.Read(lease).Details; read.Pod != said.Pod {
			t.Errorf("%s: %+v reads as %+v", name, said.Pod, read.Pod)
		}
	}
}
