// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// mutants are the breakages, by the rule of docs/design.md that they break, or
// by the part of it where that has no number.
var mutants = []mutant{
	{"S1", "trust counts from the answer, not from when the request was sent",
		"election/courier.go", `a.end = time.Now()`, `a.end, a.sent = time.Now(), c.clock.now()`,
		"election/TestS1TrustEndsARenewDeadlineAfterTheLastAcknowledgedRenewalWasSent"},
	{"S1", "a renewal without an answer extends the trust",
		"election/lead.go", `case a.err != nil:
		l.renewAt`, `case a.err != nil && a.op == opRead:
		l.renewAt`,
		"election/TestS1AnAnswerThatNeverComesDoesNotKeepTheTerm"},
	{"S1", "no timer ends the work when trust runs out",
		"election/term.go", `			t.finish()
			expired()`, `			t.finish()
			_ = expired`,
		"election/TestS1TheWorkEndsWithTheTrustThoughTheElectorHangs"},
	{"S1", "an overrun is told by the elector's loop alone, which may hang",
		"election/watchdog.go", `				close(w.late)
				w.tell()`, `				close(w.late)`,
		"election/TestS1NothingThatHangsHidesTheEndOfTrust"},
	{"S1", "the status says what the elector's loop said last, though it hangs",
		"election/elector.go", `if (s.State == StateLeader || s.State == StateAdopting) && s.Term.TrustedFor() <= 0 {`, `if false {`,
		"election/TestS1NothingThatHangsHidesTheEndOfTrust"},
	{"S1", "the status knows of an overrun only once the elector's loop does",
		"election/elector.go", `s.Overrun = s.Overrun || e.dog.Load().overdue()`, ``,
		"election/TestS1NothingThatHangsHidesTheEndOfTrust"},
	{"S1", "work that is lost while it stops has the time of a stop in good order",
		"election/watchdog.go", `within(w.timing.StopGrace)`, `within(w.timing.StopTimeout)`,
		"election/TestALossShortensTheTimeToStop"},
	{"S1", "a process that is to end at an overrun waits for its log",
		"operator/election.go", `max(leastToLog, min(term.TrustedFor(), time.Second))`, `max(leastToLog, term.TrustedFor(), time.Hour)`,
		"operator/TestAnOverrunEndsTheProcessThoughItsLogBlocks"},
	{"S1", "trust that ran out comes back with a late answer",
		"election/term.go", `case t.until.CompareAndSwap(until, 0):`, `case true:`,
		"election/TestS1TrustThatRanOutDoesNotComeBack"},
	{"S1", "work begins though trust has run out already",
		"election/lead.go", `if l.trust.left() <= 0 || l.work.Err() != nil { // this`, `if false { // this`,
		"election/TestWorkDoesNotBeginOnceTrustIsOver"},

	{"S2", "time in which the machine was suspended does not count",
		"election/clock.go", `m.awake.Sub(earlier.awake) + max(0, m.asleep.most-earlier.asleep.least)`, `m.awake.Sub(earlier.awake)`,
		"election/TestS2SuspensionCountsForTheHolder"},
	{"S2", "a clock that is slow to read is read until it is fast",
		"election/clock.go", `for range mostTries {`, `for {`,
		"election/TestS2ReadingTheClockEndsHoweverSlowItIs"},
	{"S2", "an unsure reading counts as less time at the end of a span",
		"election/clock.go", `m.asleep.most-earlier.asleep.least)`, `m.asleep.least-earlier.asleep.least)`,
		"election/TestS2WhereTheClockIsUnsureTimeCountsAsElapsed"},
	{"S2", "an unsure reading counts as less time at the start of a span",
		"election/clock.go", `m.asleep.most-earlier.asleep.least)`, `m.asleep.most-earlier.asleep.most)`,
		"election/TestS2WhereTheClockIsUnsureTimeCountsAsElapsed"},
	{"S2", "an unsure renewal extends the trust by more than is certain",
		"election/clock.go", `max(0, m.asleep.least-earlier.asleep.most)`, `max(0, m.asleep.most-earlier.asleep.least)`,
		"election/TestS2WhereTheClockIsUnsureTimeCountsAsElapsed"},
	{"S2", "of slow readings the last one counts, not the most exact one",
		"election/clock.go", `if fastest < 0 || took < fastest {`, `if fastest < 0 || took >= exact {`,
		"election/TestS2TheMostExactOfSlowReadingsCounts"},
	{"S2", "the work hears of a suspension at its trust's end only",
		"election/lead.go", `timing.RenewInterval/4, func()`, `timing.RenewDeadline, func()`,
		"election/TestS2SuspensionCountsForTheHolder"},
	{"S2", "a lease runs out by the wall clock",
		"election/judge.go", `at := j.seen.Add(j.durationOf(j.renewal))`, `at := j.renewal.RenewTime.Add(j.durationOf(j.renewal))`,
		"election/TestTimesInARecordCountForNothingElse"},
	{"S2", "wall clocks count though nothing is known of them",
		"election/judge.go", `if j.maxSkew <= 0 || `, `if `,
		"election/TestTimesInARecordCountForNothingElse"},
	{"S2", "wall clocks count for more than the first record",
		"election/judge.go", `if first {`, `if first || true {`,
		"election/TestOnlyTheFirstRecordIsWaitedForByItsOwnTimes"},
	{"S2", "wall clocks are taken to agree, whatever MaxClockSkew says",
		"election/judge.go", `min(j.maxSkew, longest)`, `min(0, longest)`,
		"election/TestAStaleRecordAtTheStartIsWaitedForByItsOwnTimesUpToMaxClockSkew"},
	{"S2", "the law leaves no room for the drift of clocks",
		"election/timing.go", `need := t.RenewDeadline + t.StopGrace + t.drift()`, `need := t.RenewDeadline + t.StopGrace`,
		"election/TestTimingThatBreaksTheLawIsRefusedWithTheNumbers"},
	{"S2", "the default StopGrace leaves no room for the drift of clocks",
		"election/timing.go", `t.LeaseDuration-t.RenewDeadline-t.drift()-t.sharedSecond()`, `t.LeaseDuration-t.RenewDeadline-t.sharedSecond()`,
		"election/TestTheDefaultsAreTheLawfulOnesOfClientGo"},

	{"S3", "a lease is taken after nine tenths of it",
		"election/judge.go", `at := j.seen.Add(j.durationOf(j.renewal))`, `at := j.seen.Add(j.durationOf(j.renewal) * 9 / 10)`,
		"election/TestS3ANewcomerWaitsInFullFromItsFirstSight"},
	{"S3", "a lease is not waited for",
		"election/judge.go", `at := j.seen.Add(j.durationOf(j.renewal))`, `at := j.seen`,
		"election/TestS3ANewcomerWaitsInFullFromItsFirstSight"},
	{"S3", "a renewal does not start the wait anew",
		"election/lock.go", `r.RenewTime.UnixMicro() == o.RenewTime.UnixMicro()`, `true`,
		"election/TestS3ANewSpecStartsTheWaitAnew"},
	{"S3", "a renewal may have the time of the one that it replaces",
		"election/records.go", `if before.UnixMicro() == wall.UnixMicro()`, `if false`,
		"election/TestS3ARenewalDiffersFromTheOneThatItReplaces"},
	{"S3", "whoever waits goes by its own lease, not by the record's",
		"election/judge.go", `if r.LeaseDuration <= 0 {`, `if true {`,
		"election/TestGarbageInTheRecordNeverMakesTwoLeaders"},
	{"S3", "a record that somebody else emptied counts as given up",
		"election/judge.go", `if j.renewal.released() || j.clearedItsOwn() {`, `if true {`,
		"election/TestS3ALeaseThatAnotherClearedIsNotGivenUp"},
	{"S3", "the release of any term counts for the last one",
		"election/judge.go", `d.Token != 0 && d.Released == d.Token`, `d.Released != 0`,
		"election/TestGarbageInTheRecordNeverMakesTwoLeaders"},
	{"S3", "a holder goes on under a record that somebody emptied",
		"election/lead.go", `case holder == "":
		r.loseTerm(l, &LostError{Reason: "the record was emptied by somebody else"})`, `case holder == "":`,
		"election/TestS3AClearedHolderEndsItsTermAndMayTakeItsOwnLeaseBack"},
	{"S3", "what a restored backup says does not start the wait anew",
		"election/judge.go", `j.exists && !j.startOver && `, `j.exists && `,
		"election/TestAHistoryThatWentBackStartsTheWaitAnew"},
	{"S3", "silence is not answered by a read in time",
		"election/timing.go", `return t.RenewInterval * 3 / 2`, `return t.RenewInterval * 5 / 2`,
		"election/TestS3ARenewalThatGotLostDelaysTheTakeoverByHalfAnInterval"},
	{"S3", "silence is not answered by a read on a fresh connection",
		"internal/transport/transport.go", `wants && !p.open.closeIdle(since) {`, `wants && false {`,
		"internal/transport/TestAFreshConnectionIsOpenedOnDemand"},
	{"S3", "durations are cut to whole seconds on the record",
		"internal/record/write.go", `r.LeaseDuration%time.Second != 0 || `, ``,
		"internal/record/TestCheckRefusesWhatWouldBeCut"},
	{"S3", "the law takes durations that the record cuts",
		"election/timing.go", `t.LeaseDuration%time.Second == 0 && `, ``,
		"election/TestTimingThatBreaksTheLawIsRefusedWithTheNumbers"},

	{"S3", "a record without times shows no renewal",
		"election/lock.go", `return !o.RenewTime.IsZero() && r.Holder`, `return r.Holder`,
		"election/TestS3WithoutTimesEachVersionIsARenewal"},
	{"S4", "deleted is released",
		"election/judge.go", `j.freeing(j.seen.Add(j.durationOf(j.renewal)), CauseDeleted)`, `j.freeing(j.seen, CauseDeleted)`,
		"election/TestS4DeletedIsNotReleased"},
	{"S4", "who learns only by a read that the record is gone does not wait a whole lease",
		"election/judge.go", `j.seen, j.gap = now, true`, `_ = now`,
		"election/TestS4WhoLearnsByAReadThatTheRecordIsGoneWaitsAWholeLease"},
	{"S4", "the holder makes a deleted record anew at its next renewal only",
		"election/lead.go", `making it anew", "token", l.term.Token)
		l.renewAt = time.Now()`, `making it anew", "token", l.term.Token)`,
		"election/TestS4TheHolderMakesADeletedRecordAnewAndKeepsItsTerm"},
	{"S4", "work begins under a record made anew before its past is known",
		"election/lead.go", `if r.judge.unproven(time.Now()) {
		r.hold(l)`, `if false {
		r.hold(l)`,
		"election/TestS4WhoMakesADeletedRecordAnewWaitsUntilItKnowsThatNobodyElseDid"},
	{"S4", "who had the record in between is forgotten",
		"election/origin.go", `if !e.Bookmark && s.Record.Holder != "" && s.Record.Holder != j.identity {`, `if false {`,
		"election/TestS4WhoMakesADeletedRecordAnewWaitsUntilItKnowsThatNobodyElseDid"},
	{"S4", "a watch that may have left something out proves the past",
		"election/origin.go", ` && after <= o.before`, ``,
		"election/TestS4AWatchThatBeganAnewProvesNothingOfBefore"},
	{"S4", "a deletion after a release is a release, whatever a watch has left out",
		"election/origin.go", `if news && !e.Gapless && !e.Snapshot.Version.Exists() {`, `if false {`,
		"election/TestS4ADeletionAfterAReleaseIsNoReleaseWhereAWatchLeavesThingsOut"},
	{"S4", "a record made anew is given up before its past is known",
		"election/release.go", `if r.judge.unproven(time.Now()) {`, `if false {`,
		"election/TestS4ALockThatOthersMayHaveIsNotGivenUp"},
	{"S4", "what was given up before its past was known is reclaimed at once",
		"election/judge.go", `if j.origin.number != 0 {`, `if false {`,
		"election/TestS4WhoGivesUpAWaitingLockLeavesItAlone"},
	{"S4", "a newcomer does not wait where it was told to",
		"election/judge.go", `if j.waitOnAbsent {`, `if false {`,
		"election/TestS4WaitOnAbsentMakesANewcomerWait"},

	{"S5", "a release does not check the holder",
		"election/judge.go", `return j.newest.Record.Holder == j.identity && !j.twin()`, `return j.newest.Version.Exists()`,
		"election/TestS7AnotherHolderEndsTheTermAtOnce"},
	{"S5", "a release takes another term of the same name for its own",
		"election/judge.go", `return j.newest.Record.Holder == j.identity && !j.twin()`, `return j.newest.Record.Holder == j.identity`,
		"election/TestS5ATermOfAnotherProcessBySameNameIsNotReleasedNorReclaimed"},
	{"S5", "the lock is released before the work has returned",
		"election/lead.go", `r.endTerm(l, cause, r.config.Timing.StopTimeout)`, `r.endTerm(l, cause, r.config.Timing.StopTimeout)
		r.giveUp(l, false)`,
		"election/TestS5TheLeaseIsReleasedOnlyAfterTheWorkHasStopped"},
	{"S5", "the lock is released after work that took too long",
		"election/lead.go", `if l.overrun || r.courier.busy || !r.judge.holds() {`, `if r.courier.busy || !r.judge.holds() {`,
		"election/TestS5WorkThatOverrunsItsStopIsNeverReleasedFor"},
	{"S5", "the lock is released though something of the work goes on",
		"election/lead.go", `if (l.unfinished() || closed(l.dog.late)) && !l.overrun {`, `if closed(l.dog.late) && !l.overrun {`,
		"election/TestS5WorkThatReturnsUnfinishedIsNotReleasedFor"},
	{"S5", "a term that overran is reclaimed by its own candidate at once",
		"election/judge.go", `return !j.forfeit && !j.twin()`, `return !j.twin()`,
		"election/TestS5AnOverrunTermIsNotReclaimed"},
	{"S5", "the elector that hung while its work was late takes that for in time",
		"election/lead.go", `if (l.unfinished() || closed(l.dog.late)) && !l.overrun {`, `if l.unfinished() && !l.overrun {`,
		"election/TestS5WorkThatWasLateIsNotReclaimedThoughTheElectorHungMeanwhile"},
	{"S5", "the next Run reclaims a term that overran",
		"election/elector.go", `e.forfeit.Load(),`, `false,`,
		"election/TestS5AProcessMayCampaignAfterUnfinishedWorkIfThatIsWanted"},
	{"S5", "a process campaigns again beside its unfinished work",
		"election/lead.go", `case l.unfinished() && !r.config.CampaignUnfinished:`, `case l.unfinished() && !l.returned:`,
		"election/TestS5AfterUnfinishedWorkThisProcessDoesNotCampaign"},
	{"S5", "the next Run campaigns beside unfinished work",
		"election/elector.go", `if e.remains.Load() && !e.config.CampaignUnfinished {`, `if false {`,
		"election/TestS5AfterUnfinishedWorkThisProcessDoesNotCampaign"},
	{"S5", "work that ended its goroutine counts as having returned",
		"election/lead.go", `err := errGoexit`, `var err error`,
		"election/TestWorkThatEndsItsGoroutineEndsItsTerm"},
	{"S5", "Resign has the lock released though it was not",
		"election/handover.go", `	if l.released {
		return nil
	}`, `	if l.released || f.to == nil {
		return nil
	}`,
		"election/TestResignSaysWhetherTheLockWasReleased"},
	{"S5", "a write does not carry the version that it replaces",
		"internal/rawapi/rawapi.go", `return o.send(ctx, apierror.Update, `, `object.SetResourceVersion("")
	return o.send(ctx, apierror.Update, `,
		"locks/lease/TestAWriteCarriesUIDAndVersion"},
	{"S5", "a write by bare name is sent",
		"internal/rawapi/rawapi.go", `if object.GetUID() == "" || object.GetResourceVersion() == "" {`, `if false {`,
		"internal/rawapi/TestAWriteByBareNameIsNotSent"},

	{"S6", "a renewal does not wait for the request before it",
		"election/lead.go", `if r.courier.busy || l.overrun {`, `if l.overrun {`,
		"election/TestS6OneRequestAtATime"},
	{"S6", "a release does not wait for the renewal on its way",
		"election/lead.go", `if a, ok := r.courier.settle(); ok {
		r.answeredRelease(a)
	}
	if l.overrun || r.courier.busy ||`, `if l.overrun ||`,
		"election/TestS6OneRequestAtATime"},
	{"S6", "an acquisition whose answer was lost counts as won",
		"election/campaign.go", `if a.err == nil {
		r.observe(a.snapshot, now)
		return true`, `if !a.conflict() {
		r.observe(a.snapshot, now)
		return true`,
		"election/TestS6ATermBeginsWithTheAnswerToAWrite"},
	{"S6", "no read settles what became of a write",
		"election/lead.go", `case a.conflict():
		l.unsure`, `case a.conflict():
		l.renewAt = now.Add(r.config.Timing.RenewInterval)
	case false:
		l.unsure`,
		"election/TestS6AReadSettlesWhatBecameOfAWrite"},

	{"S7", "another holder does not end the term",
		"election/lead.go", `case holder != l.term.Holder:
		r.loseTerm`, `case false:
		r.loseTerm`,
		"election/TestS7AnotherHolderEndsTheTermAtOnce"},
	{"S7", "a newer token does not end the term",
		"election/lead.go", `case r.judge.twin():`, `case false:`,
		"election/TestS7ANewerTokenEndsTheTermAtOnce"},

	{"S8", "the token stays the same",
		"election/lead.go", `cmp.Or(last.snapshot.Version.Token, last.snapshot.Version.Number)`, `cmp.Or[uint64](1)`,
		"election/TestS8TokensGrowAcrossDeletionAndForTheSameHolder"},
	{"S8", "the token is the number of transitions, which begins anew",
		"election/lead.go", `cmp.Or(last.snapshot.Version.Token, last.snapshot.Version.Number)`, `cmp.Or(uint64(last.record.Transitions) + 1)`,
		"election/TestS8TokensGrowAcrossDeletionAndForTheSameHolder"},
	{"S8", "the token is not noted",
		"election/lead.go", `details.Token, details.Trace, details.Refused = l.term.Token, `, `details.Token, details.Trace, details.Refused = 0, `,
		"election/TestS8TheTokenIsNotedWithTheNextRenewal"},

	{"S9", "a restarted process has its predecessor's identity",
		"operator/self.go", `append(parts, hex.EncodeToString(nonce))`, `append(parts, hex.EncodeToString(nonce[:0]))`,
		"operator/TestNoTwoStartsHaveOneIdentity"},

	{"S10", "a head start may hasten",
		"election/peers.go", `return max(0, r.config.HeadStart(t))`, `return r.config.HeadStart(t)`,
		"election/TestS10AHeadStartOnlyDelays"},
	{"S10", "a precedence may last for ever",
		"election/judge.go", `min(max(0, h.Precedence), j.lease)`, `max(0, h.Precedence)`,
		"election/TestAPrecedenceIsNeverLongerThanALease"},
	{"S10", "who was named takes a lease that was not given up",
		"election/judge.go", `if j.renewal.released() || j.clearedItsOwn() {`, `if j.renewal.Details.Handover.To == j.identity || j.renewal.released() || j.clearedItsOwn() {`,
		"election/TestAHandoverIsNotBelievedInALeaseThatWasNotGivenUp"},

	{"S11", "a takeover keeps what is said of the holder before",
		"election/records.go", `Details:       me.details(),`, `Details:       base.Details,`,
		"election/TestS11ATakeoverReplacesAllThatIsSaidAboutTheHolder"},
	{"S11", "what is said of another holder is believed",
		"election/judge.go", `if r.Details.Holder != r.Holder {
		return r.Holder, Details{Holder: r.Holder}
	}`, ``,
		"election/TestS11DetailsOfAnotherHolderAreNotBelieved"},
	{"S11", "a takeover believes what is said of another holder",
		"election/judge.go", `if last.Details.Holder == last.Holder {`, `if true {`,
		"election/TestS11ATakeoverBelievesNothingThatIsSaidOfAnotherHolder"},

	{"S12", "connections close in good order, and the kernel delivers what was sent",
		"internal/transport/conns.go", `return l.SetLinger(0)`, `return l.SetLinger(-1)`,
		"internal/transport/TestCloseConnectionsEndsRequestsAndDials"},
	{"S12", "the guard does not look at trust before a write",
		"election/guard.go", `if term.TrustedFor() <= 0 {`, `if false {`,
		"election/TestS12AGuardRefusesWritesOnceTheTermIsNotTrusted"},
	{"S12", "the guard lets a write go on after the term",
		"election/guard.go", `cancel(term.untrusted(true)) })`, `})`,
		"election/TestS12AWriteThatIsOnItsWayIsCutOffAtTheTermsEnd"},
	{"S12", "the guard takes an upgrade for a read",
		"election/guard.go", `return req.Header.Get("Upgrade") == ""`, `return true`,
		"election/TestS12AGuardRefusesWritesOnceTheTermIsNotTrusted"},
	{"S12", "the guard does not look at trust before a packet",
		"operator/guard.go", `if c.current().TrustedFor() <= 0 {`, `if false {`,
		"operator/TestS12NoPacketLeavesAConnectionAfterTheTerm"},
	{"S12", "a guarded connection closes in good order",
		"operator/guard.go", `return l.SetLinger(seconds)`, `_ = l
		return nil`,
		"operator/TestS12AGuardedConnectionIsReset"},

	{"M1", "a candidate campaigns without a presence",
		"locks/multilock/rules.go", `case s.me == ownerref.Owner{}:
		return election.Clearance`, `case false:
		return election.Clearance`,
		"locks/multilock/TestM1WithoutAPresenceNothingIsDone"},
	{"M1", "a candidate touches the shield before it has a presence",
		"locks/multilock/rules.go", `case s.me == ownerref.Owner{}:
		return step`, `case false:
		return step`,
		"locks/multilock/TestM1WithoutAPresenceNothingIsDone"},
	{"M1", "a presence does not belong to its pod",
		"internal/presence/lease.go", `Name: o.Pod.Name, UID: o.Pod.UID,`, `Name: o.Pod.Name, UID: lease.UID,`,
		"internal/presence/TestAPresenceBelongsToItsPodAndSaysWhoItIs"},
	{"M1", "a presence has the name of its pod",
		"internal/presence/lease.go", `return shortened(lock+"."+pod.Name, validation.DNS1123SubdomainMaxLength, ".", hash(lock+"/"+string(pod.UID)))`, `return pod.Name`,
		"internal/presence/TestASuccessorOfTheSameNameHasItsOwn"},
	{"M1", "a presence of its name is taken for its own, whoever's it is",
		"internal/presence/presence.go", `owner.UID != o.Pod.UID {`, `owner.Name != o.Pod.Name {`,
		"internal/presence/TestWhatBelongsToAnotherIsLeftAlone"},

	{"M2", "a candidate that does not hold the Lease does not join the shield",
		"locks/multilock/rules.go", `s.record.Shield.Has(s.me) || s.stage.Phase == record.PhaseLegacy {`, `true {`,
		"locks/multilock/TestM2EachCandidateKeepsItsPresenceAmongTheShieldsOwners"},
	{"M2", "a member leaves it to the others to put it in",
		"locks/multilock/rules.go", `turn := s.turn(); now.Before(turn) {`, `turn := s.turn(); turn.After(s.outside) {`,
		"locks/multilock/TestM2AMemberJoinsWhenItsTurnComes"},
	{"M2", "a member lets all others go first, however many",
		"locks/multilock/rules.go", `min(slot, 2*s.recheck/time.Duration(missing+1))`, `slot`,
		"locks/multilock/TestM2NobodyWaitsForLongToJoin"},
	{"M2", "the Lease's holder waits for its turn to join",
		"locks/multilock/rules.go", `case !shield.Has(s.me):
		return step{do: join}`, `case !shield.Has(s.me):
		return s.asMember(now)`,
		"locks/multilock/TestM2AMemberJoinsWhenItsTurnComes"},
	{"M2", "whoever joins takes out those that it does not know",
		"locks/multilock/rules.go", `shield = shield.With(s.me)`, `shield.Presences = []ownerref.Owner{s.me}`,
		"locks/multilock/TestM2WhoeverJoinsPutsInTheOthersToo"},
	{"M2", "a leader does not put its presence back",
		"locks/multilock/rules.go", `case !shield.Has(s.me):`, `case !shield.Has(s.me) && s.duty != leading:`,
		"locks/multilock/TestM2EachCandidateKeepsItsPresenceAmongTheShieldsOwners"},

	{"M3", "any candidate's hand is on the shield",
		"locks/multilock/rules.go", `case s.duty == member:
		return s.asMember(now)`, `case false:
		return s.asMember(now)`,
		"locks/multilock/TestM3AMemberOnlyJoins"},
	{"M3", "what a holder sends outlives its term",
		"locks/multilock/keeper.go", `limit = min(limit, k.term.term.TrustedFor())`, `ctx = context.WithoutCancel(ctx)`,
		"locks/multilock/TestM3WhatAHolderSendsEndsWithItsTerm"},

	{"M4", "the shield goes up beside legacy pods",
		"locks/multilock/rules.go", `case len(s.census.standing) > 0:`, `case false:`,
		"locks/multilock/TestM4TheShieldGoesUpOnlyWhenNoLegacyPodIsLeft"},
	{"M4", "legacy pods are counted once, and not again after the ConfigMap has changed",
		"locks/multilock/rules.go", `return !c.at.IsZero() && c.of == s.record.Number && c.uid == s.record.UID, c.at`, `return !c.at.IsZero(), c.at`,
		"locks/multilock/TestM4TheShieldGoesUpOnlyWhenNoLegacyPodIsLeft"},
	{"M4", "legacy owners that were met are forgotten",
		"locks/multilock/rules.go", `s.owners = s.owners.Remember(r.Owner)`, `_ = r.Owner`,
		"locks/multilock/TestM4LegacyOwnersThatWereMetAreCountedToo"},
	{"M4", "owners are told by bare name",
		"locks/ownerref/shield.go", `return other.UID == o.UID })
}

func with(`, `return other.Name == o.Name })
}

func with(`,
		"locks/ownerref/TestTwoOfOneNameAreTwo"},
	{"M4", "a pod is told by bare name",
		"locks/ownerref/judge.go", `case pod.UID != owner.UID:`, `case pod.Name != owner.Name:`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M4", "whether a legacy owner is left is looked up by bare name",
		"locks/ownerref/census.go", `|| err == nil && pod.UID != o.UID {`, `{`,
		"locks/ownerref/TestLegacyOwnersMustBeGoneByUID"},
	{"M4", "the ConfigMap is removed by bare name",
		"internal/rawapi/rawapi.go", `options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}`, `options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}`,
		"internal/rawapi/TestADeleteCarriesItsPreconditions"},
	{"M4", "the ConfigMap is removed whatever became of it meanwhile",
		"locks/ownerref/configmap.go", `m.object.Delete(ctx, base.UID, base.object.ResourceVersion)`, `m.object.Delete(ctx, base.UID, "")`,
		"locks/ownerref/TestAWriteHitsTheVersionThatWasJudgedOrNone"},
	{"M4", "a pod that terminates is gone",
		"locks/ownerref/judge.go", `case pod == nil:`, `case pod == nil || pod.DeletionTimestamp != nil:`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M4", "a pod whose container has ended is gone",
		"locks/ownerref/judge.go", `case pod == nil:`, `case pod == nil || !runs(pod) && reported(pod):`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M4", "a pod that is Failed is gone, whoever says so",
		"locks/ownerref/judge.go", `case !s.lives():`, `case false:`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M4", "a pod that is Failed is gone while a container of it runs",
		"locks/ownerref/judge.go", `case runs(pod):`, `case false:`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M4", "an old kubelet's Failed counts before it has killed",
		"locks/ownerref/judge.go", `case !reported(pod) && s.FinishedFor`, `case false && s.FinishedFor`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M4", "a pod of the own revision is no legacy pod, though it ran",
		"locks/ownerref/census.go", `pod.Status.Phase == corev1.PodPending && !everRan(pod)`, `true`,
		"locks/ownerref/TestAPodThatNeverStartedIsNotLegacyIfItIsOfTheOwnRevision"},
	{"M4", "a legacy owner with a presence does not count",
		"locks/ownerref/census.go", `delete(candidates, o.UID)`, `_ = o.UID`,
		"locks/ownerref/TestLegacyOwnersMustBeGoneByUID"},

	{"M5", "the shield is armed without a count",
		"locks/multilock/rules.go", `case !fresh:
		return step{do: count}`, `case !fresh:
		return step{do: arm}`,
		"locks/multilock/TestM5TheShieldIsArmedByACountThatCameAfterIt"},
	{"M5", "the shield is armed at a version that came after the count",
		"locks/multilock/rules.go", `c.of == s.record.Number && `, ``,
		"locks/multilock/TestM5TheShieldIsArmedByACountThatCameAfterIt"},
	{"M5", "the shield is armed though a pod is left",
		"locks/multilock/rules.go", `case len(s.census.standing) == 0:
		return step{do: arm}`, `case true:
		return step{do: arm}`,
		"locks/multilock/TestM5TheShieldIsArmedByACountThatCameAfterIt"},
	{"M5", "a shield beside a legacy pod is not taken down",
		"locks/multilock/rules.go", `	return step{do: remove}
}

// underSeal`, `	return step{why: "one is left"}
}

// underSeal`,
		"locks/multilock/TestM5TheShieldIsArmedByACountThatCameAfterIt"},
	{"M5", "a leader takes its shield down",
		"locks/multilock/rules.go", `case s.duty == leading:
		return s.await(`, `case false:
		return s.await(`,
		"locks/multilock/TestM5ALeaderKeepsAnUnarmedShieldUp"},
	{"M5", "the shield is put up armed",
		"locks/ownerref/configmap.go", `if s.Armed {
		return errors.New`, `if false {
		return errors.New`,
		"locks/ownerref/TestWhatMustNotBeIsNotSent"},
	{"M5", "a copy of an armed shield is armed",
		"locks/ownerref/shield.go", `cm.Annotations[AnnotationArmed] == string(cm.UID)`, `len(cm.Annotations[AnnotationArmed]) > len(unarmed)`,
		"locks/ownerref/TestACopyOfAnArmedShieldIsNotArmed"},

	{"M6", "work begins under a shield that is not armed",
		"locks/multilock/rules.go", `case !shield.Armed:`, `case false:`,
		"locks/multilock/TestM6WorkBeginsOnlyUnderAnArmedShieldWithTheOwnPresenceReadLive"},
	{"M6", "work begins under a shield without the own presence",
		"locks/multilock/rules.go", `case !shield.Has(s.me):`, `case false:`,
		"locks/multilock/TestM6WorkBeginsOnlyUnderAnArmedShieldWithTheOwnPresenceReadLive"},
	{"M6", "work begins by what was read before the Lease was won",
		"locks/multilock/rules.go", `case s.readAt.Before(s.since):`, `case false:`,
		"locks/multilock/TestM6WorkBeginsOnlyUnderAnArmedShieldWithTheOwnPresenceReadLive"},
	{"M6", "work begins where the ConfigMap may not be watched",
		"locks/multilock/rules.go", `case (s.unheard || s.deaf != "") &&`, `case false &&`,
		"locks/multilock/TestACandidateThatMayNotWatchTheConfigMapDoesNotLeadAndSaysSo"},

	{"M7", "an old collector is not waited for",
		"locks/multilock/rules.go", `now.Before(s.settled):`, `false:`,
		"locks/multilock/TestM7WorkWaitsUntilAnOldCollectorHasSettled"},
	{"M7", "the shield is not read again after the wait",
		"locks/multilock/rules.go", `s.readAt.Before(s.settled):`, `false:`,
		"locks/multilock/TestM7WorkWaitsUntilAnOldCollectorHasSettled"},
	{"M7", "who did not write its presence itself does not wait",
		"locks/multilock/rules.go", `s.inside, s.outside, s.settled = inside, now, now.Add(s.settle)
	}`, `if s.met {
			s.settled = now.Add(s.settle)
		}
		s.inside, s.outside = inside, now
	}`,
		"locks/multilock/TestM7EachProcessWaitsWhoeverPutItsPresenceIn"},
	{"M7", "who was put in by another before it had the Lease does not wait",
		"locks/multilock/rules.go", `s.inside, s.outside, s.settled = inside, now, now.Add(s.settle)
	}`, `s.inside, s.outside = inside, now
		if s.duty != member {
			s.settled = now.Add(s.settle)
		}
	}`,
		"locks/multilock/TestM7WhoIsPutInByAnotherWaitsFromWhenItSeesThat"},
	{"M7", "a shield made anew with the own presence in it is not waited for",
		"locks/multilock/rules.go", `if r.UID != s.record.UID || inside != s.inside {`, `if inside != s.inside {`,
		"locks/multilock/TestM7AShieldMadeAnewIsWaitedForAgain"},
	{"M7", "a presence made anew that another put in is not waited for",
		"locks/multilock/rules.go", `s.me, s.outside, s.inside = me, now, false`, `s.me, s.outside = me, now`,
		"locks/multilock/TestM7AShieldMadeAnewIsWaitedForAgain"},
	{"M7", "that the own presence was out does not count once it is in again",
		"locks/multilock/rules.go", `case r.UID == s.record.UID && !r.Shield.Has(s.me):`, `case false:`,
		"locks/multilock/TestM7AShieldMadeAnewIsWaitedForAgain"},
	{"M7", "a server of whom no version is known is taken for a new one",
		"locks/multilock/version.go", `if err != nil || minor < PreconditionsSince {`, `if minor < PreconditionsSince && err == nil {`,
		"locks/multilock/TestM7WhoseVersionIsOldOrNotKnownIsWaitedFor"},
	{"M7", "an old server is taken for a new one",
		"locks/multilock/version.go", `PreconditionsSince = 35`, `PreconditionsSince = 34`,
		"locks/multilock/TestM7WhoseVersionIsOldOrNotKnownIsWaitedFor"},

	{"M8", "a legacy ConfigMap does not end the term",
		"locks/multilock/rules.go", `case ownerref.Legacy:
		return fmt.Errorf("%w: legacy pod %s has made`, `case "":
		return fmt.Errorf("%w: legacy pod %s has made`,
		"locks/multilock/TestM8EveryEventCountsWhileLeading"},
	{"M8", "the latest state alone counts",
		"locks/multilock/rules.go", `if r.Number <= s.floor {`, `if r.Number < s.record.Number {`,
		"locks/multilock/TestM8EveryEventCountsWhileLeading"},
	{"M8", "a shield that somebody else made counts as the own",
		"locks/multilock/rules.go", `if !s.ours[r.UID] {`, `if false {`,
		"locks/multilock/TestM8EveryEventCountsWhileLeading"},
	{"M8", "a shield that was stripped of all is not known any more",
		"locks/multilock/rules.go", `case r.Bare:`, `case false:`,
		"locks/multilock/TestM8AShieldIsKnownByItsUID"},
	{"M8", "any ConfigMap without marks counts as the shield",
		"locks/multilock/rules.go", `case r.UID != s.marked || r.UID == "":`, `case r.UID == "":`,
		"locks/multilock/TestM8AShieldIsKnownByItsUID"},
	{"M8", "a shield that became something else meanwhile is known by its UID",
		"locks/multilock/rules.go", `s.marked = ""`, `break`,
		"locks/multilock/TestM8AShieldIsKnownByItsUID"},
	{"M8", "a silent watch is doubted only while the work runs",
		"locks/multilock/keeper.go", `if k.duty != member {`, `if k.duty == leading {`,
		"locks/multilock/TestWatchesThatFellSilentBeforeTheWorkBeganAreNotTrustedAfterIt"},
	{"M8", "the term ends only once the elector's goroutine gets to it",
		"election/guardian.go", `if lost {`, `if lost && false {`,
		"election/TestATermThatTheGuardianLosesEndsWhateverKeepsTheElector"},
	{"M8", "work begins in a term that the guardian has lost",
		"election/lead.go", ` || l.work.Err() != nil {`, ` {`,
		"election/TestWorkDoesNotBeginOnceTheGuardianHasLostTheTerm"},
	{"M8", "a ConfigMap that vanished is not made again at once",
		"locks/multilock/rules.go", `return step{do: putUp} // M8: at once`, `return s.withoutShield(now)`,
		"locks/multilock/TestM8EveryEventCountsWhileLeading"},
	{"M8", "the term goes on where the ConfigMap cannot be made again",
		"locks/multilock/keeper.go", `if r.do == putUp && k.duty == leading && !conflict {`, `if false {`,
		"locks/multilock/TestM8ATermEndsWhereTheShieldCannotBeMadeAgain"},
	{"M8", "a gap in the watch does not matter",
		"locks/multilock/rules.go", `if gap && s.duty == leading`, `if gap && false`,
		"locks/multilock/TestM8AfterAGapOnlyTheConfigMapThatWasShownLastCounts"},
	{"M8", "what happens between the read of M6 and the work's begin does not count",
		"locks/multilock/rules.go", `if s.duty == adopting {
		s.floor = r.Number
	}`, `s.floor = r.Number`,
		"locks/multilock/TestM8AReadWhileLeadingHidesNoEvent"},
	{"M8", "a leader that may not watch does not read",
		"locks/multilock/watch.go", `if err != nil && !k.watch.stopped {
		k.known = false`, `if err != nil && !k.watch.stopped {`,
		"locks/multilock/TestALeaderThatMayNotWatchTheConfigMapAnyMoreLooksEveryRenewInterval"},
	{"M8", "a leader whose pod is gone goes on",
		"locks/multilock/attendance.go", `case object.Name().Absent(err):
		return fmt.Errorf("%w: %s", ErrPodGone, a.who.pod)`, `case object.Name().Absent(err):
		return nil`,
		"locks/multilock/TestACandidateWhosePodIsGoneStops"},

	{"M9", "a shield is sealed that is not armed",
		"locks/ownerref/configmap.go", `case r.Kind == Shield && len(s.Presences) == 0 && !r.Shield.Armed:`, `case false:`,
		"locks/ownerref/TestWhatMustNotBeIsNotSent"},
	{"M9", "a leader seals before it has armed",
		"locks/multilock/rules.go", `case !shield.Armed:
		return s.unarmed(now)`, `case !shield.Armed && s.stage.Phase == record.PhaseSealed:
		return step{do: seal}
	case !shield.Armed:
		return s.unarmed(now)`,
		"locks/multilock/TestM9OnlyAnArmedShieldIsSealed"},
	{"M9", "whoever made a sealed shield anew, the leader goes on",
		"locks/multilock/rules.go", `case ownerref.Shield, ownerref.Sealed:
		if`, `case ownerref.Shield:
		if`,
		"locks/multilock/TestM8EveryEventCountsWhileLeading"},
	{"M9", "the phase on the ConfigMap does not count",
		"locks/multilock/rules.go", `s.stage = s.stage.Later(r.Shield.Stage)`, `_ = r.Shield.Stage`,
		"locks/multilock/TestM9TheLaterPhaseOfLeaseAndConfigMapCounts"},
	{"M9", "the earlier step counts",
		"internal/record/stage.go", `case other.Phase == "" || s.Step > other.Step:`, `case other.Phase == "" || s.Step < other.Step:`,
		"internal/record/TestTheLaterChangeCounts"},

	{"M10", "a sealed shield is not given back",
		"locks/multilock/rules.go", `case s.stage.Phase == record.PhaseDual:
		return step{do: unseal}`, `case false:
		return step{do: unseal}`,
		"locks/multilock/TestM10TheLeaderGivesASealedShieldBackToThePresences"},
	{"M10", "a candidate in mode lease becomes an owner of the shield",
		"locks/multilock/attendance.go", `if Mode(o.Mode).check() == nil {`, `if true {`,
		"locks/multilock/TestARollbackGivesTheShieldBackToAllPresencesThatKeepOne"},
	{"M10", "candidates campaign in phase legacy",
		"locks/multilock/phased.go", `case stage.Phase == record.PhaseLegacy:`, `case false:`,
		"locks/multilock/TestM10InPhaseLegacyTheShieldGoesWithItsLeader"},
	{"M10", "a leader leaves its shield in phase legacy",
		"locks/multilock/rules.go", `if s.stage.Phase == record.PhaseLegacy && s.isOurs() {`, `if false {`,
		"locks/multilock/TestM10InPhaseLegacyTheShieldGoesWithItsLeader"},
	{"M10", "the shield goes while the work still stops",
		"locks/multilock/rules.go", `case s.stage.Phase == record.PhaseLegacy && s.duty == adopting:`, `case s.stage.Phase == record.PhaseLegacy:`,
		"locks/multilock/TestM10WhoeverLeadsInPhaseLegacyKeepsTheShieldUntilItsWorkHasStopped"},
	{"M10", "who takes down what a dead leader left leads",
		"locks/multilock/rules.go", `	return step{why: why}
}

// asLeaving`, `	return s.granted()
}

// asLeaving`,
		"locks/multilock/TestM10AShieldThatIsLeftInPhaseLegacyIsTakenDownByWhoeverGetsTheLease"},
	{"M10", "nobody campaigns to take down what a dead leader left",
		"locks/multilock/rules.go", `case s.stage.Phase == record.PhaseLegacy && s.isLeftOver():`, `case false:`,
		"locks/multilock/TestM10AShieldThatIsLeftInPhaseLegacyIsTakenDownByWhoeverGetsTheLease"},
	{"M10", "work begins under a shield of an earlier phase",
		"locks/multilock/rules.go", `case s.isOurs() && s.record.Shield.Stage != s.stage:`, `case false:`,
		"locks/multilock/TestM10WorkBeginsOnlyUnderAShieldThatCarriesThePhase"},

	{"M11", "a legacy pod counts as gone before the grace is over",
		"locks/ownerref/judge.go", `s.SilentFor >= s.Grace && s.OthersBeat`, `s.SilentFor >= s.Grace/2 && s.OthersBeat`,
		"locks/ownerref/TestAPodOfASilentNodeCountsAsGoneAfterTheGraceOnly"},
	{"M11", "silence counts though the grace is negative",
		"locks/ownerref/judge.go", `return s.Grace > 0 && s.HeartKnown`, `return s.HeartKnown`,
		"locks/ownerref/TestEachPodIsJudgedByWhatProvesItsEnd"},
	{"M11", "silence counts where most nodes are silent",
		"locks/ownerref/sight.go", `case beating*2 < total:`, `case false:`,
		"locks/ownerref/TestWhereMostNodesAreSilentTheRuleDoesNotApply"},
	{"M11", "silence runs on while nothing was heard of the API",
		"locks/ownerref/census.go", `c.last.IsZero() || time.Since(c.last) > gap`, `c.last.IsZero()`,
		"locks/ownerref/TestTheSilenceStartsAnewAfterEveryGap"},
	{"M11", "silence runs on after a count that failed",
		"locks/ownerref/census.go", `c.last = time.Time{}`, `_ = c.last`,
		"locks/ownerref/TestTheSilenceStartsAnewAfterEveryGap"},
	{"M11", "a pod that was presumed gone and is heard of does not end the term",
		"locks/multilock/rules.go", `p != nil && s.duty == leading {`, `p != nil && false {`,
		"locks/multilock/TestM11APodThatWasPresumedGoneAndIsHeardOfEndsTheTermAndTheShield"},
	{"M11", "the shield stays though a pod that was presumed gone is heard of",
		"locks/multilock/rules.go", `case s.census.heard(shield.Presumed) != nil:`, `case false:`,
		"locks/multilock/TestM11APodThatWasPresumedGoneAndIsHeardOfEndsTheTermAndTheShield"},
	{"M11", "a shield is sealed beside a pod that is presumed gone",
		"locks/multilock/rules.go", `case s.stage.Phase == record.PhaseSealed && len(shield.Presumed) == 0:`, `case s.stage.Phase == record.PhaseSealed:`,
		"locks/multilock/TestM11NothingIsSealedWhileAPodIsPresumedGone"},
	{"M11", "who comes after does not look for pods that are presumed gone",
		"locks/multilock/rules.go", `case len(shield.Presumed) > 0 && s.duty == adopting && s.census.at.IsZero():`, `case false:`,
		"locks/multilock/TestM11AHolderCountsBeforeItLeadsBesidePodsThatArePresumedGone"},
	{"M11", "the shield does not name the pods that are presumed gone",
		"locks/ownerref/shield.go", `	writePods(cm.Annotations, AnnotationPresumed, s.Presumed)
`, ``,
		"locks/ownerref/TestM11TheShieldNamesThePodsThatArePresumedGone"},

	{"M12", "a candidate on the Lease alone campaigns in phase dual",
		"locks/multilock/leaseonly.go", `case stage.Phase == record.PhaseLegacy || stage.Phase == record.PhaseDual:`, `case stage.Phase == record.PhaseLegacy:`,
		"locks/multilock/TestM12ACandidateThatKnowsTheLeaseAloneDoesNotMix"},
	{"M12", "a candidate on the Lease alone does not look for a legacy ConfigMap",
		"locks/multilock/leaseonly.go", `case r.Kind == ownerref.Legacy:`, `case false:`,
		"locks/multilock/TestM12ACandidateThatKnowsTheLeaseAloneDoesNotMix"},
	{"M12", "a candidate on the Lease alone does not wait for the seal",
		"locks/multilock/leaseonly.go", `case r.Kind == ownerref.Shield:`, `case false:`,
		"locks/multilock/TestM12ACandidateThatKnowsTheLeaseAloneWaitsUntilTheShieldIsSealed"},
	{"M12", "a candidate on the Lease alone writes faster than it hears of the phase",
		"locks/multilock/leaseonly.go", `if err := mayTake(mayMix(record.StageOf(base), record.LegacyOf(base)), base, r); err != nil {`, `if err := error(nil); err != nil {`,
		"locks/multilock/TestM12NobodyOnTheLeaseAloneTakesItAtAVersionThatForbidsIt"},

	{"twin", "the Lease is written before the legacy record",
		"locks/multilock/both.go", `legacy, err := b.legacy.Write(ctx, at, r)
	if err != nil {
		return election.Snapshot{}, fmt.Errorf("the legacy lock: %w", err)
	}
	governing, err := b.governing.Write(ctx, from.governing.Version, r)`, `governing, err := b.governing.Write(ctx, from.governing.Version, r)
	if err != nil {
		return election.Snapshot{}, fmt.Errorf("the legacy lock: %w", err)
	}
	legacy, err := b.legacy.Write(ctx, at, r)`,
		"locks/multilock/TestTheLegacyLockIsWrittenFirst"},
	{"twin", "half a renewal is one",
		"locks/multilock/both.go", `return election.Snapshot{}, &halfError{b.legacy.Describe(), err}`, `return b.state(governing, legacy).snapshot(legacy.Version.Number), nil`,
		"locks/multilock/TestHalfAWriteIsAnErrorAndNoRenewal"},
	{"twin", "two holders read as the governing one",
		"locks/multilock/twinstate.go", `return s.disputed(), false`, `return g, false`,
		"locks/multilock/TestWhatTwoRecordsReadAs"},
	{"twin", "one free side makes both free",
		"locks/multilock/twinstate.go", `case g.Holder == "":
		return l, true`, `case g.Holder == "":
		return g, true`,
		"locks/multilock/TestWhatTwoRecordsReadAs"},
	{"twin", "a legacy object that was deleted is released",
		"locks/multilock/twinstate.go", `return unreleased(g), false`, `return g, false`,
		"locks/multilock/TestALegacyObjectThatIsDeletedIsNotReleased"},
	{"twin", "what is left of an own record is reclaimed at once",
		"election/judge.go", `if !j.newest.Partial || j.prior.Holder == ""`, `if true || j.prior.Holder == ""`,
		"locks/multilock/TestWhatIsLeftOfAnOwnTermIsNotReclaimedWhileALegacyElectorMayLead"},
	{"twin", "what was written alone counts alone, whatever the phase is by then",
		"locks/multilock/both.go", `if !b.alone(governing) {`, `if s := (&twinState{governing: governing, alone: true}); s.alone {
		return b.wrote(s)
	} else {`,
		"locks/multilock/TestWhatIsWrittenAloneIsNoRenewalWhereBothCount"},
	{"twin", "the lock is taken in phase legacy",
		"locks/multilock/phased.go", `if c.Granted || r.Holder == "" || r.Holder == record.HolderOf(lease) {`, `if true {`,
		"locks/multilock/TestNobodyIsMadeTheHolderInAPhaseThatForbidsIt"},
	{"twin", "what stands on the legacy object frees a Lease that was deleted",
		"locks/multilock/twinstate.go", `case !s.governing.Version.Exists() && isReleasedByOurs(l):`, `case false:`,
		"locks/multilock/TestWhatTwoRecordsReadAs"},
	{"twin", "a record is taken off that counts again",
		"locks/multilock/twin.go", `!t.alone(governing) || `, ``,
		"locks/multilock/TestNothingIsTakenOffThatCounts"},

	{"guardian", "work begins before the guardian allows it",
		"election/guardian.go", `case !c.Granted:
		r.waiting(c.Why)`, `case false:`,
		"election/TestWorkBeginsOnlyWhenTheGuardianAllowsItAndTheLeaseIsKeptMeanwhile"},
	{"guardian", "a term begins whose clearance was withdrawn meanwhile",
		"election/lead.go", `r.obey(l)    // it may`, `r.inspect(l) // it may`,
		"election/TestALockThatIsWonAfterTheClearanceWasWithdrawnIsGivenBack"},
	{"guardian", "a candidate campaigns before its guardian has said anything",
		"election/guardian.go", `r.clearances = make(chan Clearance, 1)
	r.left`, `r.clearance.Granted, r.clearances = true, make(chan Clearance, 1)
	r.left`,
		"election/TestACandidateDoesNotCampaignBeforeItsGuardianAllowsIt"},
	{"guardian", "a term goes on that the guardian has lost",
		"election/guardian.go", `	r.loseTerm(l, unguarded(err))
}`, `}`,
		"election/TestATermThatTheGuardianLosesEndsAtOnce"},
	{"guardian", "the lock is released before the guardian has finished",
		"election/lead.go", `l.cause != nil && !l.working && l.adoption.ended`, `l.cause != nil && !l.working`,
		"election/TestTheLockIsReleasedOnlyAfterTheGuardianHasFinished"},

	{"outage", "after an outage a lease that ran out is taken at once",
		"election/outage.go", `o.until = now.Add(o.precedence)`, `_ = o.precedence`,
		"election/TestAfterAnOutageTheFormerLeaderLeadsAgain"},
	{"outage", "a bookmark ends an outage",
		"election/campaign.go", `return // a watch that lives is no sign`, `r.outage.hear(now)
		return // a watch that lives is no sign`,
		"election/TestABookmarkDoesNotEndAnOutage"},

	{"proof", "the proof of one term counts for another",
		"election/death.go", `return suspected && tenureOf(j.newest.Record) == j.dead`, `return suspected && j.dead != tenure{}`,
		"election/TestAProofIsOfOneTermAlone"},
	{"proof", "a holder is dead of whom others' details are read",
		"election/death.go", ` || r.Details.Holder != r.Holder`, ``,
		"election/TestNobodyAsksAboutAHolderWhoseDetailsAreNotBelieved"},
	{"proof", "a holder of a part of the lock is dead",
		"election/death.go", `j.newest.Partial || `, ``,
		"election/TestADeadHolderOfAPartOfTheLockProvesNothing"},
	{"proof", "the death of who waits for another is proof",
		"election/death.go", ` || r.Details.Waits != ""`, ``,
		"election/TestS4TheDeathOfWhoWaitsForAnotherProvesNothing"},
	{"proof", "a record that came back is of a dead holder",
		"election/death.go", `|| j.broken ||`, `||`,
		"election/TestARecordThatCameBackEndsByTimeAlone"},
	{"proof", "a pod that was deleted by force is proof",
		"internal/proof/proof.go", `case e.Type == watch.Deleted:
					return errGone`, `case e.Type == watch.Deleted:
					return errReported`,
		"internal/proof/TestAPodThatIsGoneOrAnotherProvesNothing"},
	{"proof", "the end of another pod of the same name is proof",
		"internal/proof/proof.go", `return string(pod.UID) == uid && Terminated(`, `return Terminated(`,
		"internal/proof/TestAPodThatIsGoneOrAnotherProvesNothing"},
	{"proof", "the end of another instance of the container is proof",
		"internal/proof/verdict.go", `end.ContainerID == containerID && `, ``,
		"internal/proof/TestOnlyAReportOfThatVeryEndIsProof"},
	{"proof", "an end before the lock was acquired is proof",
		"internal/proof/verdict.go", ` && !end.FinishedAt.Time.Before(acquired)`, ``,
		"internal/proof/TestOnlyAReportOfThatVeryEndIsProof"},
	{"proof", "a former instance is taken for the own",
		"internal/proof/verdict.go", `if running.StartedAt.Time.Before(start.Truncate(time.Second)) {`, `if false {`,
		"internal/proof/TestAnInstanceIsOwnOnlyIfItIsNotOlderThanTheProcess"},
	{"proof", "a seat that the holder still has is proof",
		"internal/proof/proof.go", `switch taken, _ := w.sit(); taken {`, `switch _, taken := w.sit(); taken {`,
		"internal/proof/TestWhoGetsTheSeatOfTheHolderHasProof"},

	{"handover", "a term is handed over to somebody who is not there",
		"election/handover.go", `if len(fit) == 0 {
		return "", unfit
	}`, `if len(fit) == 0 && unfit != nil {
		return to.Identity, nil
	}`,
		"election/TestARefusedHandoverChangesNothing"},
	{"handover", "a request to another holder counts",
		"election/handover.go", `err == nil && request.Holder != r.config.Candidate.Identity`, `false`,
		"election/TestARequestToAnotherHolderIsVoid"},
	{"handover", "a request is taken for a sign of life",
		"election/lock.go", `r.Transitions == o.Transitions
`, `r.Transitions == o.Transitions && r.Details.Request == o.Details.Request
`,
		"election/TestS3ARequestOnADeadLeadersLeaseDoesNotLengthenTheWait"},
	{"handover", "a successor that did not come is chosen again",
		"election/handover.go", `now.Before(r.noShows[p.Identity].until)`, `false`,
		"election/TestASuccessorThatNeverComesCostsLessAndLess"},

	{"evacuation", "a leader hands over into an evacuated zone",
		"election/handover.go", `to.Identity == "" && slices.Contains(away, p.Zone)`, `false`,
		"election/TestWhoWouldComeFirstIsHandedOverTo"},
	{"evacuation", "a leader leaves an evacuated zone though nobody else is there",
		"election/evacuation.go", `if r.met != nil {
		err = r.handOver`, `if true {
		err = r.handOver`,
		"election/TestALeaderStaysInAnEvacuatedZoneWhereNobodyElseIs"},
	{"evacuation", "an evacuation ends with the term",
		"election/records.go", `Evacuated:     base.Evacuated,`, ``,
		"election/TestEvacuatedZonesOutliveTermsAndTheRecord"},
	{"evacuation", "who is in an evacuated zone goes as early as others",
		"zone/order.go", `if p.evacuated && !queue[0].evacuated {`, `if false {`,
		"zone/TestWhoIsWantedMoreGoesFirst"},
}
