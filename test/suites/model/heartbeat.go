// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// Two processes and one lock, or two. SLOWTAKE and SLOWBEAT say whose requests
// land at any time; to keep the quick cases small, the others' are answered at once.
const (
	oneLock  = "NL=1 NE=2 "
	twoLocks = "NL=2 NE=2 "
	hand     = "E_HAND=1 "
	prompt   = "SLOWTAKE=0 " // acquisitions are answered at once
)

// Worlds of heartbeat.pml in which nothing may go wrong.
var heartbeatWorlds = []world{
	{name: "one lock", macros: oneLock},
	{name: "one lock, a hand", macros: oneLock + hand + prompt},
	{name: "one lock, a hand, slow acquisitions", macros: oneLock + hand + "SLOWTAKE=1 SLOWBEAT=1", long: true},
	{name: "one lock, a hand puts it back", macros: oneLock + hand + prompt + "E_BACK=1", long: true},
	{name: "one lock, a hand puts an old one back", macros: oneLock + hand + prompt + "E_BACK=2", long: true},
	{name: "two locks of one holder", macros: twoLocks + "HOLDS=2", long: true},
	{name: "two locks, slow acquisitions", macros: twoLocks + "SLOWTAKE=1 SLOWBEAT=1 BEATS=1 BEGINS=1 E_RELEASE=0", long: true},
	{name: "two locks of one holder, a hand", macros: twoLocks + hand + prompt + "HOLDS=2 SLOWBEAT=1 BEATS=1"},
	{name: "two locks, one each", macros: "NL=2 NE=1 OWNER=1 BEGINS=0 SLOWBEAT=1 E_RELEASE=0 E_LOST=0 " + prompt},
	{name: "two locks, one each, a hand", macros: "NL=2 NE=1 OWNER=1 BEGINS=0 SLOWBEAT=0 E_RELEASE=0 " + hand + prompt},

	// Process 0, or both, release by notes.
	{name: "one lock, notes", macros: oneLock + "SLOWTAKE=1 SLOWBEAT=1 E_RELEASE=0 E_NOTE=1"},
	{name: "one lock, notes of both", macros: oneLock + prompt + "SLOWBEAT=1 E_RELEASE=0 E_NOTE=3"},
	{name: "one lock, notes, a hand", macros: oneLock + hand + prompt + "SLOWBEAT=1 E_RELEASE=0 E_NOTE=1"},
	{name: "one lock, notes, a hand puts it back", macros: oneLock + hand + prompt + "SLOWBEAT=0 E_RELEASE=0 E_NOTE=1 E_BACK=2"},
	{name: "two locks of one holder, notes", macros: twoLocks + prompt + "HOLDS=2 SLOWBEAT=1 BEATS=1 E_RELEASE=0 E_NOTE=1"},

	// When faults end, somebody leads each lock again.
	{name: "notes, a hand, a crash", macros: "NL=1 E_CRASH=1 CALM=1 SLOWBEAT=0 E_RELEASE=0 E_NOTE=1 " + hand + prompt, long: true},
	{name: "an elector is given up", macros: "NL=1 E_GIVEUP=1 CALM=1 SLOWBEAT=0 " + prompt},
	{name: "an elector is given up, hands put it back", macros: "NL=1 E_GIVEUP=1 CALM=1 SLOWBEAT=0 E_BACK=2 " + hand + prompt},
	{name: "a holder crashes, a hand", macros: "NL=1 E_CRASH=1 CALM=1 SLOWBEAT=1 " + hand + prompt, long: true},

	{name: "one lock, a hand, late detachments", macros: oneLock + hand + "SLOWTAKE=1 SLOWBEAT=1 E_LATE=1", long: true},
	{name: "one lock, a hand, all slow", macros: oneLock + hand + "BEATS=1 E_RELEASE=0 E_LOST=0", long: true},
	{name: "one lock, two hands put it back", macros: oneLock + prompt + "SLOWBEAT=1 E_HAND=2 E_BACK=1 E_RELEASE=0", long: true},
	{name: "two locks, one each, next epochs", macros: twoLocks + "OWNER=1 SLOWBEAT=1 E_RELEASE=0 E_LOST=0 " + prompt, long: true},
	{name: "an elector is given up, all slow", macros: "NL=1 E_GIVEUP=1 CALM=1", long: true},
}

// States that show that the model makes progress, and the law of timing.
var heartbeatLimits = []world{
	{name: "one process takes both locks", macros: twoLocks + "REACH=1", expect: reached},
	{name: "each process leads a lock", macros: twoLocks + "REACH=2", expect: reached},
	{name: "leads again in its second epoch", macros: twoLocks + "REACH=3", expect: reached},
	{name: "a note frees a lock at once", macros: oneLock + "E_RELEASE=0 E_LOST=0 E_NOTE=1 REACH=4", expect: reached},
	{name: "waits as short as trust", macros: oneLock + prompt + "T=1", expect: overlap},
}

// The rules, each left out in a world where that shows.
var heartbeatVariants = []variant{
	{"L1 the lock is not looked at", "L1VIEW=0", "one lock, a hand", overlap, false},
	{"L1 the view is behind the heartbeat", "L1REACH=0", "one lock, a hand", overlap, false},
	{"L1 trust from the answer", "L1SENT=0", "one lock, a hand", overlap, false},
	{"L1 any epoch's heartbeat; L5 terms run out", "L1EPOCH=0 L5=2", "one lock, a hand", overlap, false},
	{"L2 taken without a withdrawal", "L2WITHDRAW=0", "one lock, a hand", overlap, false},
	{"L2 no wait", "L2WAIT=0", "one lock, a hand", overlap, false},
	{"L2 withdrawn whatever the version", "L2CAS=0", "one lock, a hand", overlap, false},
	{"L3 emptied passes for withdrawn", "L3=2", "one lock, a hand", overlap, false},
	{"L4 deleted is withdrawn", "L4=0", "one lock, a hand", overlap, false},
	{"L4 another UID is the same Lease", "L4UID=0", "one lock, a hand puts it back", overlap, false},
	{"L5 terms go on in the next epoch", "L5=0", "one lock, a hand", overlap, false},
	{"L6 off", "L6=0", "an elector is given up", deadEnd, false},
	{"L6 off", "L6=0", "an elector is given up, hands put it back", deadEnd, false},
	{"L7 withdrawn locks are free at once", "L7=0", "two locks, slow acquisitions", overlap, false},
	{"L7 withdrawn locks are free at once", "L7=0", "one lock", overlap, false},
	{"L8 the note comes before the end of the term", "L8TERM=0", "one lock, notes", overlap, false},
	{"L8 the note names no version", "L8VERSION=0", "one lock, notes", overlap, false},

	// First versions of rules, with the faults that the model found.
	{"L4 emptied is not withdrawn", "L4NOTE=0", "one lock, a hand puts it back", overlap, false},
	{"L4 the same, the holder heeds foreign writes", "L4NOTE=0 L5=3", "one lock, a hand puts it back", overlap, false},
	{"L4 the same, the holder mends its epoch", "L4NOTE=0 L5NEW=0", "one lock, a hand, slow acquisitions", overlap, false},

	// Belt and braces: other rules hold without these, or they only save time.
	{"L1 any epoch's heartbeat", "L1EPOCH=0", "one lock, a hand", nothing, true},
	{"L2 withdrawn before the wait is over", "L2EARLY=0", "one lock, a hand", nothing, false},
	{"L3 no note, so each waits again", "L3=0", "one lock, a hand", nothing, true},
	{"L4 a deleted one is withdrawn too", "L4NOTE=2", "one lock, a hand puts it back", nothing, true},
	{"L4 not withdrawn, but nobody puts back", "L4NOTE=0", "one lock, a hand", nothing, true},
	{"L8 the note names no epoch", "L8EPOCH=0", "one lock, notes, a hand", nothing, false},
	{"L5 terms run out", "L5=2", "one lock, a hand", nothing, true},
	{"L5 the holder mends its epoch", "L5NEW=0", "one lock, a hand, slow acquisitions", nothing, true},
}
