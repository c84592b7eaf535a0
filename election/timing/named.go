// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package timing

import "time"

// Fast returns the timing for a failover in less than four seconds: a LeaseDuration of 3 s, a
// RenewDeadline of 2.5 s and a RenewInterval of 500 ms. The default takes about five times as
// long. All candidates for the lock must use it.
//
// It costs more than the default:
//
//   - Each leader writes twice a second, four times as often.
//   - A leader survives less. At round trips of 10 ms it surely keeps its term if etcd takes
//     1.7 s to elect a leader and its API server is lost as well. etcd takes 1 to 2 s at its
//     default election timeout. It also survives an API that does not answer for a second. The
//     default survives 5 s of either.
//   - The work must stop within 470 ms once its term is lost. A pause of the process, such as
//     that of a throttled CPU, counts against these 470 ms if trust ends during it: if it is
//     longer, two leaders may work until the process runs again and its work has stopped.
//     A pause of 2 s may also end the term.
//
// Do not use it in these cases:
//
//   - A client-go candidate shares the lock. It compares times in whole seconds, so the lock
//     must be Exclusive.
//   - etcd has a longer election timeout than 1 s, or its disk makes it elect a leader now
//     and then. Each election costs a term if it takes too long.
//   - Round trips to the API often take more than 100 ms, or the work needs more than 470 ms to
//     stop.
//
// AttemptTimeout is half a RenewInterval, and not all of it as by default: while etcd elects
// a leader, it loses writes that were forwarded to the old one. The sooner a read overtakes
// such a write, the longer an outage the term survives.
func Fast() Timing {
	return Timing{
		LeaseDuration:  3 * time.Second,
		RenewDeadline:  2500 * time.Millisecond,
		RenewInterval:  500 * time.Millisecond,
		AttemptTimeout: 250 * time.Millisecond,
		Exclusive:      true,
	}.WithDefaults()
}

// Patient returns the timing for those who would rather wait than stop, such as an operator with
// one replica: a LeaseDuration of 60 s, a RenewDeadline of 54 s and a RenewInterval of 6 s. All
// candidates for the lock should use it.
//
// At round trips of up to 50 ms, a leader keeps its term if the API is unavailable for 45 s, at
// whatever moment that begins. It writes once in 6 s, a third as often as by default. A leader that
// stops in good order, and one whose container is proven to have ended, are followed as soon as by
// default, because nobody waits for their leases. One that disappears with its node is followed 45 s
// later.
func Patient() Timing {
	return Timing{
		LeaseDuration:  60 * time.Second,
		RenewDeadline:  54 * time.Second,
		RenewInterval:  6 * time.Second,
		AttemptTimeout: 2 * time.Second,
	}.WithDefaults()
}
