// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package election elects one leader among candidates that share a record.
//
// An [Elector] campaigns for a [locks.Lock] and calls your function, the work, for
// each [Term] that it wins. The work gets a context that ends with the term. The
// lock is released after the work has returned, and never before.
//
// This package knows nothing of Kubernetes. Package operator builds an elector for
// an operator in one call, and package lease has the lock on a Lease. A lock of
// your own needs five methods and passes the tests in package lockstest.
//
// # What keeps two from leading
//
// A leader trusts its term for RenewDeadline after it sent the last renewal that
// was acknowledged. Then a timer ends the work's context, even if a request hangs,
// and the work has StopGrace to return. Every other candidate leaves the record
// alone for LeaseDuration after it first saw the last renewal. So nobody takes over
// before the work has stopped, as long as
//
//	RenewDeadline + StopGrace + LeaseDuration x MaxClockDrift <= LeaseDuration
//
// which [New] checks, see [Timing]. Only elapsed time counts. Wall clocks do not.
//
// # What does not
//
// Work that does not stop in time may still write when another candidate leads. So
// may a process that was paused in the middle of a write. [Term.Guard] refuses such
// writes and cuts off those that are on their way. Once a write has left the
// process, only its receiver can refuse it: the Token of each term is larger than
// all earlier ones, so that the receiver can compare.
//
// # How a term ends
//
// [context.Cause] of the work's context says why. [ErrLost] means that trust ran
// out or that somebody else has the lock. Any other cause, such as [ErrResigned],
// [ErrStopped], [ErrHandedOver], [ErrUnhealthy] or [ErrWithdrawn], is a wanted stop:
// the elector keeps the lock for up to StopTimeout while the work stops, and the
// next candidate leads a moment after the release.
package election

// The states
//
// Run goes through these states. Each is a type, which says what is due in it and how it answers
// an event: following in following.go, adopting in guardian.go, verifying and leading in
// leading.go, stopping and lost in ending.go. loop.go has the loop around them. A test compares
// this table with the transitions that all tests make.
//
//	from       to         when
//	idle       following  Run is called
//	following  verifying  it won the lock by a record that it created, and somebody else may have had the lock in between
//	following  adopting   it won the lock, which has a guardian
//	following  leading    it won the lock
//	following  idle       the context of Run ended, or the guardian returned
//	verifying  adopting   nobody else can lead now, and the lock has a guardian
//	verifying  leading    nobody else can lead now
//	verifying  stopping   a stop is wanted
//	verifying  lost       trust ran out, or somebody else has the lock
//	adopting   leading    the guardian permits the work
//	adopting   stopping   a stop is wanted
//	adopting   lost       trust ran out, somebody else has the lock, or the guardian returned
//	leading    stopping   a stop is wanted, or the work returned
//	leading    lost       trust ran out, somebody else has the lock, or the guardian returned
//	stopping   lost       trust ran out, somebody else has the lock, or the guardian returned
//	stopping   following  the work has returned, and the lock was given up or is left to run out
//	stopping   idle       the same, and Run is to return
//	lost       following  the work has returned
//	lost       idle       the same, and Run is to return
//
// The goroutines
//
// Run itself is the loop, which owns all state. These functions start the others; a test
// compares the list with the code. Run waits for all of them except those that say
// otherwise. For those that say "a while" it waits until a StopTimeout after its end began,
// because they may not obey their context.
//
//	guardian.go   run.startGuardian         the guardian; until it returns, at the end of Run, which waits a while
//	peers.go      watched                   Config.WatchPeers, WatchZone or the health checks; the same
//	health.go     Health.watch              says that a check is late; none before that, and Run does not wait for it
//	watcher.go    watcher.start             one watch of the lock; the same, or until the next watch says something
//	requester.go  run.send                  one request of the lock; until its answer, or its limit, and Run waits a while
//	loop.go       run.await                 waits for these at the end of Run; until they have returned, and Run waits a while
//	term.go       newTrust                  ends the work's context when trust runs out; a timer, which the end of the term stops
//	guardian.go   leadership.startAdoption  the guardian's part in a term; until it returns, at the end of the work, and Run waits a while
//	leading.go    leadership.startWork      the work; until it returns, which the loop waits for
//	watchdogs.go  workWatchdog.watch        sets the timer below when the work is to stop; none before that, and Run does not wait for it
//	watchdogs.go  workWatchdog.watch        the same when the trust is over
//	watchdogs.go  workWatchdog.grace        the same again after a suspension; a timer, and Run does not wait for it
//	watchdogs.go  workWatchdog.within       Config.OnOverrun if the work has not stopped in time; a timer, which the return of the work stops
//	ending.go     leadership.reportOverrun  Config.OnOverrun; until it returns, and Run waits a while
//	report.go     Elector.Subscribe         hands transitions to one reader; until its context ends, and Run does not wait for that
//	guard.go      guard.RoundTrip           cuts a write off when the term's trust ends; none before that, and Run does not wait for it
//	guard.go      guard.RoundTrip           closes an upgraded connection when the trust ends or its owner has closed it; the same

// Where to look
//
// A test checks that each function is in its file. The rules, S1 to S12, are in
// docs/design.md.
//
// Why a follower may take the lock, and when:
//
//	internal/rules/free.go      Observer.Free        every case in one switch: all wait for a lease, except the four below
//	internal/rules/free.go      Observer.freeEmpty   early: the holder released the lock
//	internal/rules/free.go      Observer.freeAbsent  early: there never was a record, unless Config.WaitOnAbsent is set
//	internal/rules/death.go     Observer.died        early: this process has the process lock that the holder had
//	internal/rules/observer.go  Observer.MayReclaim  early: the record is this candidate's own
//	internal/rules/observer.go  Observer.accept      from when the wait counts: the first sight of the last renewal
//	claim.go                    run.free             what delays it: takeover delay, a named successor, an outage, health
//	guardian.go                 run.waitsFor         what forbids it: the phase of a migration (Snapshot.Barred)
//	../locks/lease/lock.go      Lock.snapshot        where a Lease is barred
//	following.go                following.next       what a follower does next: wait, read or claim
//
// What delays a takeover beyond that:
//
//	peers.go                  run.takeoverDelay    Config.TakeoverDelay, which comes after a named successor's precedence
//	../zone/order.go          Order.TakeoverDelay  that of operators: by zone
//	health.go                 run.healthyFirst     an unhealthy candidate waits a lease longer
//	internal/rules/outage.go  Outage.Over          after an outage the former leader comes first
//
// How a term is kept:
//
//	claim.go       following.answeredClaim  the answer to an acquisition
//	leadership.go  run.begin                a term that was won
//	leadership.go  leadership.keep          whether a renewal is due
//	leadership.go  leadership.renew         what it says
//	requester.go   run.received             its answer comes back to the loop
//	leadership.go  leadership.answered      the answer to a renewal or a read
//	leadership.go  leadership.renewed       an acknowledged renewal extends the trust
//	exchange.go    exchange.trustedFrom     from when that trust counts
//	leadership.go  leadership.inspect       checks a record that was seen during a term
//	leadership.go  leadership.mend          writes again what somebody changed
//
// Where trust ends, and what ends it:
//
//	term.go        newTrust                  its timer runs out
//	leadership.go  leadership.keep           the loop finds that it ran out, before it does anything else
//	leadership.go  leadership.inspect        somebody else has the lock, or emptied the record
//	guardian.go    leadership.startAdoption  the guardian returned
//	ending.go      leadership.lose           all losses of a term come here
//	ending.go      leadership.conclude       the term has ended
//
// What a process that stood still does when it goes on. Its clocks say at once that the term is over:
//
//	guard.go              guard.RoundTrip             refuses each request of the work
//	../operator/guard.go  guardedConn.Write           refuses each packet
//	term.go               newTrust                    cuts off writes on their way, and ends the work, if its timer is first
//	ending.go             leadership.lose             does both if the loop is first
//	watchdogs.go          workWatchdog.graceLeft      100 ms, because StopGrace counts from the end of trust
//
// What happens when somebody deletes the record:
//
//	leadership.go             leadership.inspect   its holder makes it anew, and leads on
//	leadership.go             leadership.perform   with what
//	internal/rules/free.go    Observer.Free        the others wait as if it were there
//	internal/rules/origin.go  Observer.findOrigin  who makes it anew does not know who had it before
//	leading.go                leadership.verify    so its work waits until that is known
//
// How a term ends in good order:
//
//	ending.go                leadership.stopWork       every wanted stop begins here
//	handover.go              leadership.handOver       a handover, and to whom
//	ending.go                leadership.reportOverrun  the work did not stop in time
//	watchdogs.go             workWatchdog.timeOver     the same, even if the loop hangs; it calls Config.OnOverrun
//	../operator/election.go  Election.exitOnOverrun    what OnOverrun does for an operator with ExitOnOverrun
//	ending.go                leadership.giveUp         whether to release
//	ending.go                run.release               the release itself
//
// How the lock is given to a successor:
//
//	handover.go                        run.chooseSuccessor  to whom, when it is asked for and again when the work has stopped
//	internal/rules/records.go          Release              the name on the record
//	../internal/record/annotations.go  formatHandover       the same on a Lease
//	internal/rules/free.go             Observer.handover    how long the others hold back
//
// When the watch is lost:
//
//	watcher.go              watcher.end             when the next begins, and from which version
//	following.go            following.handle        a watch that ended with an error: a read
//	following.go            following.silentAt      when a watch that says nothing is asked about
//	claim.go                following.mayWatchAnew  another watch while that read is not answered
//	leadership.go           leadership.watchIsDeaf  a leader's
//	internal/rules/free.go  Observer.Free           knows nothing of watches: no loss shortens a wait
//
// Where requests are sent:
//
//	requester.go   run.send            all requests
//	leadership.go  leadership.perform  renewals, and reads where the state of the record is unclear
//	exchange.go    exchange.next       when the next is due, and when a read overtakes (hedges) a slow request
//	exchange.go    exchange.askWhen    when a read is to date a write that lands late
//	exchange.go    exchange.waitAgain  whether a write that has not landed is repeated
//	claim.go       following.perform   acquisitions and reads of a follower
//	claim.go       following.overtake  a follower's read overtakes a slow request
//	ending.go      run.settle          what of them may land after the term, so that nothing is released
//
// The way of a request to a Lease, after run.send:
//
//	../locks/lease/requests.go          Lock.Write           what is written
//	../internal/record/write.go         Check                what a Lease cannot hold is refused
//	../internal/rawapi/rawapi.go        Object.Update        the request of client-go's REST client
//	../internal/transport/transport.go  Transport.RoundTrip  the connection
//	../internal/transport/lane.go       lane.RoundTrip       which of them
//	../internal/record/shows.go         Shows                whether the answer shows the write
//	loop.go                             run.wait             where the loop gets the answer, for leadership.answered
//
// How an option of an operator gets there:
//
//	../operator/options.go       Options.flags     flags and variables
//	../operator/election.go      Election.prepare  from Options to Config
//	elector.go                   New               the defaults, and the law of the timing
//	leadership.go                run.begin         a RenewDeadline, for the trust; leadership.renewed extends it
//	leadership.go                leadership.renew  a LeaseDuration, to the record
//	../internal/record/write.go  Write             from the record to the Lease
//
// How a candidate's zone gets known:
//
//	../internal/environment/self.go  WhoAmI                 option, variable, label of the node
//	../internal/environment/zone.go  Environment.WatchZone  asks again
//	../operator/election.go          Election.zones         tells the elector
//
// What ends with a term of a lasting manager:
//
//	../operator/ctrlruntime/lasting.go  Lasting.lead  the term
//	../operator/ctrlruntime/term.go     term.run      its context, and with that its controllers
//	../operator/ctrlruntime/term.go     term.close    its handlers of events
//
// What a phase of a migration does stands in ../locks/multilock/doc.go.
//
// Which reads etcd answers, and which a cache may:
//
//	../locks/lease/requests.go      Lock.Read      etcd: a GET without a resourceVersion
//	../internal/rawapi/list.go      Object.list    a list: the cache if Query.Cached, which sends the oldest version that will do
//	../internal/presence/roster.go  roster.follow  the cache: who campaigns is advice
//
// What others see:
//
//	guard.go                      guard.RoundTrip     writes of the work are refused or cut off
//	elector.go                    Elector.Status      Status as it is read
//	../internal/inspect/lease.go  LeaderOf            who leads and since when, as tools read it from the Lease
//	../internal/inspect/lease.go  Election.State      the STATE of status; Status.checkWork says waiting
//	../internal/inspect/outlook.go  Status.vacancy    whether its LEADER is nobody
//	report.go                     newReporter         all that an elector says: status, log, metrics, spans
//	report.go                     board.publish       Status and its transitions as they are made
//	watchdogs.go                  loopWatchdog.late   what Alive returns
//	telemetry.go                  telemetry.failover  the span of a takeover
//	telemetry.go                  telemetry.observe   what the metrics say at each collection
