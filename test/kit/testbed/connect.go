// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// peerDomain is the made-up domain of etcd's members in links mode. It is never
// resolved: each member has a proxy of its own that knows the names. So the
// proxy knows which member talks to which, which a port alone would not tell.
const peerDomain = "etcd.zonelect.test"

// tunnel is a chooser for an HTTP CONNECT proxy to the etcd members.
func tunnel(peers map[string]string) chooser {
	return func(conn *net.TCPConn) (target, error) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return target{}, fmt.Errorf("read a CONNECT request: %w", err)
		}
		name, _, _ := strings.Cut(request.Host, ":")
		zone, ok := strings.CutSuffix(name, "."+peerDomain)
		addr := peers[zone]
		if request.Method != http.MethodConnect || !ok || addr == "" {
			return target{}, fmt.Errorf("%s %s: only CONNECT to an etcd member is served", request.Method, request.Host)
		}
		return target{to: zone, addr: addr, greeting: "HTTP/1.1 200 Connection established\r\n\r\n"}, nil
	}
}
