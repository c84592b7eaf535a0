// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proof proves that the process which holds a lock is dead, so that its
// lease need not run out. There are two proofs, and all else proves nothing:
//
//   - Its seat is free. A candidate that knows its pod's UID has a socket of an
//     abstract name, made of that UID and the lock, until its process ends. The
//     kernel alone frees it. The holder notes that it has the seat, and in which
//     boot and network namespace. Who is of the same pod, finds itself in the
//     same place, and gets the seat, follows a process that is no more: its own
//     former self, in most cases. A second copy in the same pod does not get the
//     seat while the first one lives.
//   - The kubelet has reported the end of its container. The holder notes the ID
//     of the container instance that it runs in; see [Terminated] and
//     [OwnContainer] for what is believed.
//
// Proven is the end of the process, and no more than that: what it sent before
// may land later, and its children may live on. See docs/design.md.
//
// # Permissions
//
// In a Role of the candidates' pods' namespace; without it the second proof is
// not there, and the log says so:
//
//	apiGroups: [""]
//	resources: [pods]
//	verbs: [get, watch]
package proof
