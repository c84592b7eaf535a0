// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proof proves that the process that holds a lock has ended, so that its
// lease need not run out. There are two proofs. Nothing else proves anything:
//
//   - Its process lock is free. A candidate that knows its pod's UID binds a socket
//     with an abstract name, made of that UID and the lock, and keeps it until its
//     process ends. Only the kernel frees it. The holder notes which socket it has:
//     its boot, its network namespace and its name. If a candidate of the same pod
//     gets that very socket, the process that it follows has ended: its own
//     predecessor, in most cases. A second copy in the same pod does not get the
//     socket while the first one lives. If the holder is the first process of a PID
//     namespace, only what comes after it in its container has proof.
//   - The kubelet has reported the end of its container. The holder notes the ID
//     of the container instance that it runs in; see [Terminated] and
//     [OwnContainer] for what counts.
//
// Only the end of the process is proven: what it sent before may land later, and its
// children may live on. See docs/design.md.
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
