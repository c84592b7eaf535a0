// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestS2TheMachinesClockIncludesSuspension. In a time namespace, the boot-time clock is ahead of the
// monotonic one as after a suspension. This very test is the process in there, too.
func TestS2TheMachinesClockIncludesSuspension(t *testing.T) {
	const inside = "ZONELECT_TEST_SUSPENDED"
	if os.Getenv(inside) != "" {
		if got := suspended(); got.most < 100*time.Second {
			t.Errorf("after a suspension of 100 s it counts %v", got.most)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--fork", "--time", "--boottime=100", os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), inside+"=1")
	if out, err := cmd.CombinedOutput(); strings.Contains(string(out), t.Name()) {
		t.Errorf("%v: %s", err, out)
	} else if err != nil {
		t.Logf("there are no time namespaces here: %v: %s", err, out)
	}
}
