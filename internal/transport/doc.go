// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport opens the connections on which elections talk to the API
// server. An election must learn within seconds that its connection is dead,
// while client-go's shared HTTP/2 connection may take 45 s to notice and a
// request that timed out leaves it in the pool. So an election has connections
// of its own, and:
//
//   - They speak HTTP/1.1: one request at a time on each, and a request that
//     times out takes its connection with it.
//   - A dial is a race. The first dial starts at once, another in parallel
//     after every DialInterval, until one has finished its TLS handshake. Behind
//     a Service VIP the next dial may reach another API server; with several
//     server addresses, dial k goes to server k modulo their number.
//   - Every TCP connection has SO_LINGER 0: closing it discards what the kernel
//     has not delivered yet, so that the write of a term that is over is not
//     delivered later. What is on the wire by then cannot be called back.
//   - A request whose context asks for it (election.WithFreshConnection) is
//     served on a connection that is opened for it.
//
// There is no rate limit and no retry. Authentication is client-go's: bearer
// tokens and token files, exec plugins, client certificates, impersonation,
// wrappers. Certificate authorities and client certificates in files are read
// anew at each dial, and an answer 401 makes the next request dial.
package transport
