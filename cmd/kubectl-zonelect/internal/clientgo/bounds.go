// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clientgo says what follows from a timing for client-go's own elector.
package clientgo

import (
	"math"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/internal/plan"
)

const (
	// http2Patience is how long it takes to find client-go's connections dead: 30 s of
	// silence and a ping of 15 s, see SetTransportDefaults in
	// https://github.com/kubernetes/apimachinery/blob/master/pkg/util/net/http.go.
	http2Patience = 45 * time.Second
	// meanPause is the mean of a follower's pauses, in RetryPeriods: they are uniform between
	// 1 and 1 + JitterFactor.
	meanPause = 1 + leaderelection.JitterFactor/2
)

// Bounds is what follows from a timing for client-go's own elector, with ReleaseOnCancel,
// and with the request timeouts of resourcelock.NewFromKubeconfig. Its formulas differ from
// plan.BoundsOf's where client-go behaves differently:
//
//   - Followers do not watch. They read every RetryPeriod x [1, 2.2], so that a
//     renewal is seen by one read, and the end of its lease by another.
//   - Their connection outlives requests that time out, until HTTP/2 notices.
//   - RenewDeadline counts from the first renewal that fails: the leader stops a
//     RetryPeriod + RenewDeadline after the answer to the last that did not.
//   - The lock is released before the work has stopped.
//   - There is no proof of death, and no order.
//
// A leader that lost its term ends its process, so there is no recovery.
func Bounds(t election.Timing, r plan.Requirements) plan.Bounds {
	retry := t.RenewInterval
	trips := func(n int) plan.Addend { return plan.Addend{Times: n, Name: "RoundTrip", Each: r.RoundTrip} }
	lease := once("LeaseDuration", t.LeaseDuration)
	drift := once("clock drift", part(t.LeaseDuration, r.MaxClockDrift))
	read := func(n int) plan.Addend {
		return plan.Addend{Times: n, Name: "longest pause between reads", Each: part(retry, 1+leaderelection.JitterFactor)}
	}
	first := func(reads int) plan.Addend {
		return once("pauses of the follower that reads first", part(retry, firstOf(r.Candidates-1, reads)))
	}
	dead := once("until HTTP/2 finds the connection dead", http2Patience)
	away := once("until HTTP/2 finds the connection dead, or APIOutage", max(http2Patience, r.APIOutage))
	// Some faults come after a follower has read the last renewal.
	seen := 0.5 / meanPause
	one := firstOf(1, 1)

	b := plan.Bounds{
		Stop: plan.Bound{
			Mean:  plan.Sum{trips(4), first(1)},
			Worst: plan.Sum{trips(4), read(1)},
		},
		Kill: plan.Bound{
			Mean:  plan.Sum{lease, {Times: -1, Name: "half a RetryPeriod", Each: retry / 2}, first(2), trips(2)},
			Worst: plan.Sum{lease, drift, read(2), trips(5)},
		},
		DeadServer: plan.Bound{
			Mean: plan.Sum{dead, once("LeaseDuration, where the last renewal is only seen then", part(t.LeaseDuration, 1-seen)),
				once("what it lasts beyond that, where it was seen before", part(max(0, t.LeaseDuration-http2Patience), seen)),
				once("pauses between reads", part(retry, one+one*(1-seen))), trips(2)},
			Worst: plan.Sum{dead, lease, drift, read(2), trips(5)},
		},
		LossInOutage: plan.Bound{
			Mean:  plan.Sum{once("longest of LeaseDuration, APIOutage and HTTP/2's 45s", max(t.LeaseDuration, away.Each)), first(1), trips(2)},
			Worst: plan.Sum{away, lease, drift, read(2), trips(5)},
		},
		OutageSurvived: plan.Sum{once("RenewDeadline", t.RenewDeadline),
			{Times: -1, Name: "request that hangs", Each: max(time.Second, t.RenewDeadline/2, retry)}, trips(-6)},
		StopLeft: plan.Sum{lease, {Times: -1, Name: "RenewDeadline", Each: t.RenewDeadline},
			{Times: -1, Name: "RetryPeriod", Each: retry}, {Times: -1, Name: drift.Name, Each: drift.Each}, trips(-1)},
		WritesPerDay: int(24 * time.Hour / retry),
		ReadsPerDay:  int(24 * time.Hour / part(retry, meanPause)),
	}
	b.Proof = b.Kill
	b.LossInElection = plan.Bound{
		Mean:  b.DeadServer.Mean,
		Worst: append(slices.Clone(b.DeadServer.Worst), once("EtcdElection", r.EtcdElection)),
	}
	b.ElectionSurvived = b.OutageSurvived // for a write that etcd loses hangs as well
	return b
}

func once(name string, d time.Duration) plan.Addend {
	return plan.Addend{Times: 1, Name: name, Each: d}
}

func part(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// firstOf is the mean time, in RetryPeriods, until the first of some followers has got
// through that many pauses, the first of which is under way. The rest of a pause that is cut
// at random has the density rest(x)/meanPause, where rest(x) is the share of pauses longer
// than x. The end of a lease cuts the pause after it was seen, which is as good as random.
func firstOf(followers, pauses int) float64 {
	const step = 0.01
	cells := int(math.Ceil((1 + leaderelection.JitterFactor) / step))
	one := make([]float64, cells) // the chance of each length
	for i := range one {
		x := (float64(i) + 0.5) * step
		one[i] = step / meanPause * min(1, max(0, 1+leaderelection.JitterFactor-x)/leaderelection.JitterFactor)
	}
	all := []float64{1}
	for range pauses {
		next := make([]float64, len(all)+cells)
		for i, p := range all {
			for j, q := range one {
				next[i+j] += p * q
			}
		}
		all = next
	}
	mean, longer := 0.0, 1.0
	for _, p := range all {
		mean += step * math.Pow(max(0, longer), float64(max(1, followers)))
		longer -= p
	}
	return mean
}
