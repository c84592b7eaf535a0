// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
)

func TestATwinLockIsOnAnElectionRecord(t *testing.T) {
	for kind, fits := range map[LegacyKind]bool{LegacyConfigMap: true, LegacyEndpoints: true, LegacyLeaderForLife: false, "": false} {
		lock, err := TwinLock(&rest.Config{Host: "https://apiserver.test"}, election.Timing{}, Self{}, "ns", "lock", MigrationOptions{LegacyKind: kind}, LockOptions{})
		switch {
		case !fits && (err == nil || !strings.Contains(err.Error(), "use configmap or endpoints")):
			t.Errorf("the legacy kind %q gives %v", kind, err)
		case fits && err != nil:
			t.Errorf("the legacy kind %q: %v", kind, err)
		case fits:
			lock.CloseConnections()
		}
	}
}
