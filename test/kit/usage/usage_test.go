// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOnlyAuditedRequestsSinceThenCount(t *testing.T) {
	log := filepath.Join(t.TempDir(), "apiserver.log")
	err := os.WriteFile(log, []byte(`I1123 09:00:00.000000 1 server.go:1] a line of the server's own
{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"update","objectRef":{"resource":"leases","namespace":"default","name":"lock-1"},"responseStatus":{"code":409},"stageTimestamp":"2026-11-23T09:00:01.000001Z"}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"list","objectRef":{"resource":"leases","namespace":"default"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-23T09:00:02.000001Z"}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Audited(time.Time{}, log)
	if err != nil || len(all) != 2 || all[0].Name != "lock-1" || all[0].Code != 409 {
		t.Errorf("audited %+v, %v", all, err)
	}
	if all, err := Audited(time.Date(2026, 11, 23, 9, 0, 2, 0, time.UTC), log); err != nil || len(all) != 1 || all[0].Verb != "list" {
		t.Errorf("since then %+v, %v", all, err)
	}
}
