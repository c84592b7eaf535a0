// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testbed runs a real Kubernetes control plane in zones whose power
// and network a test can take away. It runs etcd, kube-apiserver and
// kube-controller-manager, and the programs under test inside the zones. Nodes
// and pods are real objects; a goroutine plays their kubelet.
//
//	bed, err := testbed.Start(ctx, testbed.Config{})
//	...
//	defer bed.Close()
//	pod, err := bed.Cluster.AddPod(ctx, "za", "candidate-a", "default", nil)
//	candidate, err := bed.StartProcess("za", testbed.ProcessSpec{
//		Name: "candidate-a", Path: path,
//		Args: []string{"--kubeconfig", bed.Cluster.Kubeconfig("za"), "--pod-uid", string(pod.UID)},
//	})
//	err = bed.CutPower(ctx, "za")
//
// A Testbed itself has zones, their power and the programs in them. Its field
// Network has what happens between the zones, Parts the control plane in each of
// them, and Cluster the Kubernetes API: how to reach it, its pods, and whose
// requests it rejects.
//
// # Zones
//
// Every zone has one etcd member and one
// apiserver that knows only that member, so an apiserver fails with its zone.
// Programs in a zone reach the API through a virtual IP, as through the
// kubernetes Service: each new connection goes to an apiserver at random, and
// stays there even if that apiserver dies. A dead apiserver gets its share of new
// connections for another EndpointLease.
//
// # Networks
//
// Namespaces gives each zone its own network namespace, routed by the host. It
// needs root on Linux with iproute2 and nftables, and is the real thing: a cut
// link is silence, below TCP.
//
// Links needs nothing but loopback: all traffic between zones, including that of
// etcd's members, runs through TCP relays in the test process that can swallow
// it. It has limits. The kernel still answers for a zone that is cut off: it
// accepts a new connection that in reality would not even open, and acknowledges
// bytes that are sent into the cut. Programs under test are cut off only where
// they use the zone's virtual IP; nothing keeps them from connecting to another
// port of this machine.
//
// In both networks the test process is outside the zones: Cluster.RESTConfig
// reaches every zone that has power, through any partition.
//
// # Programs
//
// The control plane is built from the repository. Config.Programs may name others: Found returns
// those that envtest uses, without a kube-controller-manager, and Embedded an API server in memory
// with a front end in each zone.
//
// # Faults
//
//   - A zone loses its power: CutPower, Restore.
//   - It loses its connection to other zones, in one direction or both:
//     Network.PartitionOneWay, PartitionFromAll, Heal.
//   - Connections to the API go silent: Network.SilenceConnections.
//   - A part of the control plane stands still or dies: Parts.Pause, Resume,
//     Kill, Start.
//   - A program stands still or dies: see Process.
//
// # Controllers
//
// One kube-controller-manager runs outside the zones too, without leader
// election, as a client of one zone's apiserver. If that zone loses power or is
// partitioned from all others, the testbed starts it again as a client of another
// zone. If only a part of that zone is paused or killed, it does so after
// EndpointLease.
package testbed
