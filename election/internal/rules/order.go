// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/zonelect/zonelect/internal/requests"
	"github.com/zonelect/zonelect/locks"
)

// Share is a candidate's place in a crowd, evenly distributed from 0 to 1.
func Share(lock locks.Description, identity string) float64 {
	sum := sha256.Sum256([]byte(lock.String() + "\x00" + identity))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// Evacuated returns the zones that are evacuated at a time.
func Evacuated(listed string, now time.Time) []string {
	var zones []string
	for _, e := range requests.InForce(listed, now) {
		zones = append(zones, e.Zone)
	}
	return zones
}
