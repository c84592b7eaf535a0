// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package election elects one leader among candidates that share a record.
//
// An [Elector] campaigns for a [locks.Lock], and calls the work for each [Term] that
// it wins. The work gets a context that ends with the term, and the lock is
// released when the work has returned, not before. This package knows nothing
// of Kubernetes: package operator makes an elector for an operator in one call,
// package lease has the lock on a Lease, and a lock of your own needs four
// methods and passes the suite in package lockstest.
//
// # What keeps two from leading
//
// A leader trusts its term for RenewDeadline after it sent the last renewal that
// was acknowledged. A timer ends the work's context then, whatever request
// hangs, and the work has StopGrace to return. A candidate leaves the record
// alone for LeaseDuration after it first saw the last renewal. So nobody takes
// over before the work has stopped, as long as
//
//	RenewDeadline + StopGrace + LeaseDuration x MaxClockDrift <= LeaseDuration
//
// which [New] checks: see [Timing]. Only elapsed time counts, no wall clock.
//
// # What does not
//
// Work that overstays its time, or a process that was paused in the middle of a
// write, may write when another leads. [Term.Guard] refuses such writes, and
// cuts off those that are on their way. What has left the process only the
// receiver can refuse: each term has a Token larger than all before it, for the
// receiver to compare.
//
// # How a term ends
//
// [context.Cause] of the work's context tells: [ErrLost], if trust ran out or
// another has the lock; [ErrResigned], [ErrStopped] or [ErrWithdrawn], if the
// stop was wanted. If it was, the lock is kept while the work stops, for up to
// StopTimeout, and the next candidate leads a moment after the release.
package election

// The states
//
// Run goes through these states. Each is a type in the file of its name, which says
// what is due in it and how it answers an event; loop.go has the loop around them. A
// test holds this table against the transitions that all tests make.
//
//	from       to         when
//	idle       following  Run is called
//	following  verifying  it won the lock by a record that it created, and somebody else may have had the lock in between
//	following  adopting   it won the lock, which has a guardian
//	following  leading    it won the lock
//	following  idle       the context of Run ended, or the guardian returned
//	verifying  adopting   nobody else can lead any longer, and the lock has a guardian
//	verifying  leading    nobody else can lead any longer
//	verifying  stopping   a stop is wanted
//	verifying  lost       trust ran out, or the lock is another's
//	adopting   leading    the guardian permits the work
//	adopting   stopping   a stop is wanted
//	adopting   lost       trust ran out, the lock is another's, or the guardian returned
//	leading    stopping   a stop is wanted, or the work returned
//	leading    lost       trust ran out, the lock is another's, or the guardian returned
//	stopping   lost       trust ran out, the lock is another's, or the guardian returned
//	stopping   following  the work has returned, and the lock was given up or is left to run out
//	stopping   idle       the same, and Run is to return
//	lost       following  the work has returned
//	lost       idle       the same, and Run is to return
//
// The goroutines
//
// Run itself is the loop, which owns all state. These functions start the others; a
// test holds the list against the code. Run waits for all of them but those that say
// otherwise.
//
//	run.startGuardian         the guardian; until it returns, which the end of Run makes it do
//	run.watchPeers            Config.Peers; until it returns, which the end of Run makes it do
//	run.watchHealth           calls the health check at its interval; until the end of Run
//	Health.watch              one call of Health.Check; until it returns, and Run does not wait for that
//	run.probeDeath            Config.Dead for one holder; until it returns, which another holder or the end of the candidacy makes it do
//	watcher.start             one watch of the lock; until it returns, which the next watch or the end of Run makes it do
//	requester.send            one request of the lock; until its answer, or its limit
//	newTrust                  ends the work's context when trust runs out; a timer, which the end of the term stops
//	leadership.startAdoption  the guardian's part in a term; until it returns, which the end of the work makes it do
//	leadership.startWork      sees whether the work stops in time; until the work has returned, or is late
//	leadership.startWork      the work; until it returns, which the loop waits for
//	leadership.reportOverrun  Config.OnOverrun; until it returns
//	board.subscribe           hands transitions to one subscriber; until the subscriber's context ends, and Run does not wait for that
//	guard.RoundTrip           cuts a write off when the term's trust ends; none before that, and Run does not wait for it
