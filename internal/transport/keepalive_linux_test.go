// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net"
	"reflect"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestTheKernelEndsASilentConnectionAfter15Seconds, and not after Go's 150 s: a watch of presences or of the shield
// would be deaf for as long when its server has lost its power.
func TestTheKernelEndsASilentConnectionAfter15Seconds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	tr := mustNew(t, &rest.Config{Host: "http://" + l.Addr().String()}, Options{})
	conn, err := tr.pool.dial.open.DialContext(t.Context(), "tcp", l.Addr().String())
	must(t, err)
	inner := reflect.ValueOf(conn).Elem().FieldByName("Conn").Interface().(*net.TCPConn) // client-go's rotation is around it
	raw, err := inner.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		get := func(option int) time.Duration {
			n, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option)
			must(t, err)
			return time.Duration(n)
		}
		idle, interval, count := get(syscall.TCP_KEEPIDLE), get(syscall.TCP_KEEPINTVL), get(syscall.TCP_KEEPCNT)
		if after := (idle + interval*count) * time.Second; after != 15*time.Second {
			t.Errorf("it ends after %v: idle %d, interval %d, count %d", after, idle, interval, count)
		}
	}))
}
