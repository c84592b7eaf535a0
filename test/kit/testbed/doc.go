// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testbed runs a real Kubernetes control plane in zones whose power
// and network a test can take away: etcd, kube-apiserver and
// kube-controller-manager, nodes and pods with a kubelet that is played by a
// goroutine, and the programs under test inside the zones.
//
//	bed, err := testbed.Start(ctx, testbed.Config{})
//	...
//	defer bed.Close()
//	pod, err := bed.AddPod(ctx, "za", "candidate-a", "default", nil)
//	candidate, err := bed.StartProcess("za", testbed.ProcessSpec{
//		Name: "candidate-a", Path: path,
//		Args: []string{"--kubeconfig", bed.Kubeconfig("za"), "--pod-uid", string(pod.UID)},
//	})
//	err = bed.CutPower(ctx, "za")
//
// # Zones
//
// In the stacked topology, the default, every zone has one etcd member and one
// apiserver that knows only that member, so an apiserver is as well as its
// zone. Programs in a zone reach the API through a virtual IP, as through the
// kubernetes Service: each new connection goes to an apiserver at random, and
// stays there, also when that apiserver is dead. A dead apiserver gets its
// share of new connections for EndpointLease more, and then no longer.
//
// # Networks
//
// Namespaces gives each zone a network namespace of its own, routed by the
// host. It needs root on Linux with iproute2 and nftables, and is the real
// thing: a cut link is silence, below TCP.
//
// Links needs nothing but loopback: all traffic between zones, also that of
// etcd's members, runs through TCP relays in the test process that can swallow
// it. What it cannot do: the kernel still answers for a zone that is cut, so a
// new connection to it is accepted (and then never answered) where in reality
// it would not even open, and bytes sent into a cut are acknowledged. Programs
// under test are cut only where they use the zone's virtual IP; nothing keeps
// them from connecting to another port of this machine.
//
// In both networks the test process stands outside of the zones: RESTConfig
// reaches every zone that has power, through any partition.
//
// # Faults
//
// A zone can lose its power (CutPower, Restore) or its way to others, one way
// too (Partition, PartitionOneWay, PartitionFromAll, Heal), or have a bad one
// (SetWeather). A part of it can stand still or die (Pause, Resume, Kill, Start,
// and EtcdLeader says where it hurts), or wait for its disk (SlowDisk).
// Connections to the API can go silent (SilenceConnections), and apiservers can
// have too much to do for a user (Reject, Admit). A program can stand still, die,
// and have its clock stepped (see Process).
//
// # Controllers
//
// One kube-controller-manager runs outside of the zones too, without leader
// election, as a client of one zone's apiserver. When that zone loses power or
// is partitioned from all others it is started anew on another zone; when only
// a part of that zone is paused or killed, after EndpointLease.
package testbed
