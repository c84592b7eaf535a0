// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestAProcessIsReadAsItIs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	open, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const sent = 1 << 20
	go func() {
		_, _ = near.Write(make([]byte, sent))
		near.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{far}); err != nil {
		t.Fatal(err)
	}
	now, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	used := now.Since(before)
	if used.RSS <= 0 || now.CPU < before.CPU || open.Connections != before.Connections+2 {
		t.Errorf("it used %+v with both ends open, and %+v now; before %+v", open, now, before)
	}
	if used.Bytes < 2*sent {
		t.Errorf("%d bytes were read and written, want %d at least", used.Bytes, 2*sent)
	}
	if _, err := Of(0); err == nil {
		t.Error("there is a process 0")
	}
}

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
