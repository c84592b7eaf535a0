// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"strings"

	"github.com/zonelect/zonelect/internal/record"
)

// OwnDelay says that a program finds its takeover delay in a way of its own.
const OwnDelay = "own"

// byZones begins the text of a candidate that finds its takeover delay by a zone.Order.
const byZones = "zones"

// ByZones is the text of a candidate that finds its takeover delay by a zone.Order with these
// preferred zones.
func ByZones(preferred []string) string {
	text := strings.TrimSpace(byZones + " " + strings.Join(preferred, ","))
	if len(text) > record.MaxText {
		return OwnDelay // cut, it would say something else
	}
	return text
}
