// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Elected is the record that client-go kept on an annotation before there were Leases. The
// order of its fields matters: it is that of client-go's JSON.
type Elected struct {
	HolderIdentity       string      `json:"holderIdentity"`
	LeaseDurationSeconds int64       `json:"leaseDurationSeconds"`
	AcquireTime          metav1.Time `json:"acquireTime"`
	RenewTime            metav1.Time `json:"renewTime"`
	LeaderTransitions    int64       `json:"leaderTransitions"`
}

// electedKeys are those of client-go's record. The last two are newer than its locks on
// annotations, and say nothing about how long a holder leads.
var electedKeys = []string{
	"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaderTransitions",
	"strategy", "preferredHolder",
}

// ParseElected reads such a record. Other libraries keep records of their own on the same
// annotation, and some of them look like client-go's in part. So a key that client-go does not
// write is an error: nobody knows what it says about the holder, or whether its writer
// understands what client-go writes. JSON in Go does not mind the case of keys, but other
// libraries do.
func ParseElected(value string) (Elected, error) {
	var e Elected
	if err := json.Unmarshal([]byte(value), &e); err != nil {
		return Elected{}, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(value), &keys); err != nil {
		return Elected{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(electedKeys, key) {
			return Elected{}, fmt.Errorf("it has the key %.100q, which client-go does not write: "+
				"another library keeps its record there, which says in another way how long its leader may lead", key)
		}
	}
	return e, nil
}

// LeaseDuration returns the duration; zero if the record has none that makes sense.
func (e Elected) LeaseDuration() time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(max(0, e.LeaseDurationSeconds), most)) * time.Second
}
