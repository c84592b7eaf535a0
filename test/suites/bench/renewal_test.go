// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/environment"
	"github.com/zonelect/zonelect/locks"
)

// echo answers every write with what was written, so that only the client's own allocations
// differ.
type echo struct{ version int }

// RoundTrip implements http.RoundTripper.
func (e *echo) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	e.version++
	version := `"resourceVersion":"` + strconv.Itoa(1000000+e.version) + `"`
	if i := bytes.Index(body, []byte(`"resourceVersion":"`)); i >= 0 {
		copy(body[i:], version)
	} else {
		body = bytes.Replace(body, []byte(`"metadata":{`), []byte(`"metadata":{`+version+`,"uid":"0f6b5a52-3c5e-4d0e-9f0d-6d6a3f0c9b11",`), 1)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/2.0", ProtoMajor: 2, Request: req,
		Header: http.Header{"Content-Type": {req.Header.Get("Content-Type")}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func echoing() *rest.Config {
	cfg := &rest.Config{Host: "http://127.0.0.1:1", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	e := &echo{}
	cfg.Wrap(func(http.RoundTripper) http.RoundTripper { return e })
	return cfg
}

// cost is what one call costs.
type cost struct{ allocs, bytes, ns float64 }

// measured runs b's loop and returns what one call costs.
func measured(b *testing.B, call func()) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for b.Loop() {
		call()
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	n := float64(b.N)
	return cost{float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n, float64(took) / n}
}

// BenchmarkARenewal compares a renewal with a bare PUT by client-go's client. The metrics
// that begin with x are ratios of this run.
func BenchmarkARenewal(b *testing.B) {
	var put cost
	now := metav1.NowMicro()
	holder, seconds := "pod-7f9c_4711_0123456789abcdef", int32(15)
	b.Run("bare PUT of client-go", func(b *testing.B) {
		b.ReportAllocs()
		client, err := kubernetes.NewForConfig(echoing())
		if err != nil {
			b.Fatal(err)
		}
		leases := client.CoordinationV1().Leases("default")
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "default", UID: "0f6b5a52-3c5e-4d0e-9f0d-6d6a3f0c9b11", ResourceVersion: "1000000"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
		}
		put = measured(b, func() {
			var err error
			if lease, err = leases.Update(context.Background(), lease, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("renewal", func(b *testing.B) {
		b.ReportAllocs()
		lock, err := (&environment.Environment{Config: echoing(), Namespace: "default", Timing: election.Timing{}.WithDefaults()}).LeaseLock("lock")
		if err != nil {
			b.Fatal(err)
		}
		defer lock.Capabilities().CloseConnections()
		r := locks.Record{Holder: holder, LeaseDuration: 15 * time.Second, AcquireTime: now.Time, RenewTime: now.Time}
		s, err := lock.Write(context.Background(), locks.Version{}, r)
		if err != nil {
			b.Fatal(err)
		}
		renewal := measured(b, func() {
			r.RenewTime = r.RenewTime.Add(time.Microsecond)
			if s, err = lock.Write(context.Background(), s.Version, r); err != nil {
				b.Fatal(err)
			}
		})
		if put.allocs > 0 {
			b.ReportMetric(renewal.allocs/put.allocs, "x-allocs")
			b.ReportMetric(renewal.bytes/put.bytes, "x-bytes")
			b.ReportMetric(renewal.ns/put.ns, "x-time")
		}
		if renewal.allocs > 2*put.allocs {
			b.Errorf("a renewal makes %.0f allocations, and a bare PUT %.0f: want twice as many at most", renewal.allocs, put.allocs)
		}
	})
}
