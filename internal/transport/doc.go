// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport opens the connections on which elections talk to the API server. An
// election must learn within seconds that its connection is dead, while client-go's shared
// HTTP/2 connection may take 45 s to notice, and stays in the pool after a request on it has
// timed out. So an election has connections of its own, with these rules:
//
//   - They speak HTTP/1.1: one request at a time on each. A request that times
//     out takes its connection with it, and the idle ones that were as silent.
//   - Dials compete, at most two to a server at a time. The first starts at once,
//     the second after DialInterval, or later while handshakes are known to be
//     slow. Behind a Service VIP the second may reach another API server; with
//     several server addresses the nearest is dialed first. A dial to which no
//     kernel answers soon makes room for the next one, and each gets more time
//     than the one before.
//   - A server that refuses a request (429, or 5xx) loses the connection, and all others to its
//     address, because another server behind that may be well. While refusals go on, they cost
//     connections less and less often, down to once in three times Patience: each handshake loads
//     the server. Of several addresses, those come first that have refused nothing lately.
//     Connections that an exec plugin wraps so that they cannot be recognized stay.
//   - A slow server is not a dead one. A dial whose handshake is slow goes on when
//     its request has ended, and serves the next request.
//   - Every TCP connection has SO_LINGER 0: closing it discards what the kernel
//     has not delivered yet, so that the write of a term that is over is not
//     delivered later. What is on the wire by then cannot be called back.
//   - A request whose context asks for it (internal/live) is served
//     on a connection on which the server was heard from since a given time, such
//     as one that is opened for it.
//
// There is no rate limit and no retry. Authentication is client-go's: bearer tokens and token
// files, exec plugins, client certificates, impersonation, wrappers. Certificate authorities
// and client certificates in files are reread at each dial, and an answer 401 makes the next
// request dial.
package transport
