// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport opens the connections on which elections talk to the API server. An
// election must learn within seconds that its connection is dead, while client-go's shared
// HTTP/2 connection may take 45 s to notice, and stays in the pool after a request on it has
// timed out. So an election has connections of its own, with these rules:
//
//   - They speak HTTP/1.1: one request at a time on each. A request that times
//     out takes its connection with it.
//   - Dials compete. The first starts at once, the second after DialInterval, or later
//     if the last dial was slow. Behind a Service VIP the second may reach another API server.
//     If the name does not resolve, the address that answered last is dialed.
//   - A request whose context asks for it (package live) goes on a connection on which the server was
//     heard from since a given time, or on a new one. A read goes also on the connections that are kept,
//     if the new one is not usable after a DialInterval, and the first answer counts. So does the next
//     read after a request that timed out, after a refusal (429, or 5xx), and after a 401, because a
//     client certificate belongs to its connection. A write goes once.
//   - The connections on which the server was heard from last are kept until it was heard from on others.
//     A refusal costs them, because another server may be well. Further ones do so after pauses that
//     grow from half an AttemptTimeout to a Patience: each handshake loads the server.
//   - Every TCP connection has SO_LINGER 0: closing it discards what the kernel
//     has not delivered yet, so that the write of a term that is over is not
//     delivered later. What is on the wire by then cannot be called back.
//
// There is no rate limit and no retry. Authentication is client-go's: bearer tokens and token
// files, exec plugins, client certificates, impersonation, wrappers. Certificate authorities
// and client certificates in files are reread at each dial.
package transport
