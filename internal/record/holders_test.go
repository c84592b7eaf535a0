// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"testing"
)

// TestM9WhoHeldTheLegacyLockStaysKnown: labels are not forgotten, and what does not fit is somebody
// whose labels nobody knows.
func TestM9WhoHeldTheLegacyLockStaysKnown(t *testing.T) {
	labels := map[string]string{"app": "op"}
	all := WithHolder(WithHolder(WithHolder(nil, LegacyHolder{Name: "a"}), LegacyHolder{"a", labels}), LegacyHolder{Name: "a"})
	if got := ReadLegacyHolders(WriteLegacyHolders(nil, all)); fmt.Sprint(got) != fmt.Sprint([]LegacyHolder{{"a", labels}}) {
		t.Errorf("read back %v", got)
	}
	for i := range 2 * mostHolders {
		all = WithHolder(all, LegacyHolder{fmt.Sprint(i), labels})
	}
	if last := all[len(all)-1]; len(all) != mostHolders || len(last.Labels) > 0 {
		t.Errorf("%d holders, the last is %v", len(all), last)
	}
}
