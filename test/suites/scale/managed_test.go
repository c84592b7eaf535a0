// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/usage"
)

// BenchmarkAWriteOnAServer compares what a real API server and etcd spend on a renewal that leaves the
// Lease's managed fields to the API server, as client-go does, with one that clears them. The metrics
// that begin with x are ratios of this run.
func BenchmarkAWriteOnAServer(b *testing.B) {
	if testing.Short() {
		b.Skip("needs a real control plane: run without -short")
	}
	const zone = "za"
	bed, err := testbed.Start(b.Context(), testbed.Config{Zones: []string{zone}, Network: testbed.Links, WithoutControllers: true, WithoutNodes: true})
	if err != nil {
		b.Fatal(err)
	}
	defer bed.Close()
	client, err := kubernetes.NewForConfig(bed.Cluster.RESTConfig(zone))
	if err != nil {
		b.Fatal(err)
	}
	leases := client.CoordinationV1().Leases("default")
	spent := func() (all time.Duration) {
		b.Helper()
		for _, part := range []testbed.Part{testbed.APIServer, testbed.Etcd} {
			pid, err := bed.Parts.PID(part, zone)
			if err != nil {
				b.Fatal(err)
			}
			used, err := usage.Of(pid)
			if err != nil {
				b.Fatal(err)
			}
			all += used.CPU
		}
		return all
	}

	now := time.Now()
	r := locks.Record{
		Holder: "pod-7f9c_4711_0123456789abcdef", LeaseDuration: 15 * time.Second, AcquireTime: now, RenewTime: now,
		Details: locks.Details{Zone: zone, Node: "node-1", Token: 4711},
	}
	var kept, keptSize float64
	for _, way := range []string{"managed fields kept", "managed fields cleared"} {
		b.Run(way, func(b *testing.B) {
			write := func(base *coordinationv1.Lease) *coordinationv1.Lease {
				r.RenewTime = r.RenewTime.Add(time.Second)
				lease := record.Write(base, r)
				if way == "managed fields kept" {
					lease.ManagedFields = nil
				}
				var err error
				if base == nil {
					lease.GenerateName = "lock-"
					lease, err = leases.Create(b.Context(), lease, metav1.CreateOptions{})
				} else {
					lease, err = leases.Update(b.Context(), lease, metav1.UpdateOptions{})
				}
				if err != nil {
					b.Fatal(err)
				}
				return lease
			}
			lease := write(write(nil))
			before := spent()
			for b.Loop() {
				lease = write(lease)
			}
			each, size := float64(spent()-before)/float64(time.Millisecond)/float64(b.N), float64(lease.Size())
			b.ReportMetric(each, "server-ms/op")
			b.ReportMetric(size, "bytes")
			if kept == 0 {
				kept, keptSize = each, size
				return
			}
			b.ReportMetric(each/kept, "x-server")
			b.ReportMetric(size/keptSize, "x-bytes")
		})
	}
}
