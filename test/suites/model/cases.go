// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// What a search may find.
const (
	nothing = "nothing"
	overlap = "overlap"  // two lead at once: a candidate and a legacy program
	lasting = "lasting"  // the same, though the candidate has seen all there is to see
	deadEnd = "dead end" // faults are over, nobody leads, and nothing can change
	circle  = "circle"   // faults are over, and nobody ever leads permanently
	reached = "reached"  // a state that a sound model must reach
)

// A world is a population and the faults that it meets: macros of docs/model/shield.pml.
// With all rules on, a world must hold what its
// expectation says before a rule switched off in it means anything.
type world struct {
	name   string
	macros string
	quick  string // more macros, which make it small, unless the long search is wanted
	expect string
	long   bool
	live   bool // search for circles too
}

// A variant is a world with a rule switched off, or in its first version.
type variant struct {
	rule   string
	macros string
	world  string
	expect string
	long   bool
}

// Slots are L (legacy), D (candidate) or S (candidate in mode lease).
const (
	ld  = "NSLOT=2 K2=DUAL K3=0 "
	lld = ""
	ldd = "K2=DUAL "
	lds = "K2=DUAL K3=LONE "
)

// Without crashes a population is less than half as large; its pods still end.
const calm = "E_CRASH=0"

// Worlds in which nothing may go wrong.
var worlds = []world{
	// A rolling update: three kinds of legacy programs, crashes, graceful
	// deletion, partitions of anybody.
	{name: "LLD original", macros: lld + "M11=0"},
	{name: "LLD stale", macros: lld + "V=1 M11=0", long: true},
	{name: "LLD notready", macros: lld + "V=2 E_NR=1 M11=0", long: true},
	{name: "LDD original", macros: ldd + "E_PART=0"},
	{name: "LDD notready", macros: ldd + "V=2 E_NR=2 E_PART=0 M11=0"},
	{name: "LDD original, partitions", macros: ldd, long: true},
	{name: "LDD notready, partitions", macros: ldd + "V=2 E_NR=1 M11=0", long: true},
	{name: "LLDD stale", macros: lld + "NSLOT=4 K4=DUAL E_PART=0 E_CRASH=0 V=1", long: true},

	// Collectors before Kubernetes 1.34, and one that deletes by name alone.
	{name: "LLD stale, UID collector", macros: lld + "E_PART=0 V=1 GCV=1"},
	{name: "LD, UID collector", macros: ld + "GCV=1"},
	{name: "LDD, UID collector", macros: ldd + "E_PART=0 GCV=1", long: true},
	{name: "LLD notready, UID collector", macros: lld + "V=2 E_NR=1 GCV=1 M11=0", long: true},
	{name: "LDD, bare collector", macros: ldd + "E_PART=0 GCV=2", long: true},
	{name: "LDD, UID collector, partitions", macros: ldd + "GCV=1", long: true},

	// Forward and back again, pod by pod; StatefulSets, whose pods inherit names.
	{name: "LD there and back", macros: ld + "E_LD=1"},
	{name: "LD there and back, StatefulSet", macros: ld + "E_LD=1 STS=1 V=1"},
	{name: "LLD stale, StatefulSet", macros: lld + "E_PART=0 STS=1 V=1"},
	{name: "LLD notready, StatefulSet", macros: lld + "E_PART=0 STS=1 V=2 E_NR=2 M11=0", quick: calm},
	{name: "LLD there and back", macros: lld + "E_PART=0 E_LD=1", long: true},
	{name: "LLD there, StatefulSet", macros: lld + "E_PART=0 STS=1 V=1 E_LD=2", long: true},

	// Pods that finish, pods marked Failed behind a partition, nodes without power.
	{name: "LD finished pods", macros: ld + "E_FIN=1 E_FAILED=1 E_NR=2 M11=0"},
	{name: "LLD finished pods", macros: lld + "E_PART=0 E_FIN=1 E_FAILED=1 E_NR=2 M11=0", long: true},
	{name: "LLD power loss", macros: lld + "E_PART=0 E_POWER=1"},
	{name: "LLD stale, power loss", macros: lld + "E_PART=0 E_POWER=1 V=1", long: true},
	{name: "LLD power loss, candidate cut off", macros: lld + "E_PART=2 E_POWER=1", long: true},
	{name: "LLD candidate cut off", macros: lld + "E_PART=2"},
	{name: "LD there, a candidate never starts", macros: ld + "E_LD=2 E_HELD=1"},

	// Seal and roll back, mode lease.
	{name: "LD seal, roll back, back", macros: ld + "E_SEAL=1 E_ROLL=1 E_DS=1 E_LD=1"},
	{name: "LLD stale, seal", macros: lld + "E_PART=0 V=1 E_SEAL=1 E_ROLL=1 E_DS=1"},
	{name: "LDS sealed, roll back", macros: lds + "E_PART=0 SEALED=1 E_SEAL=1 E_ROLL=1 E_LD=3"},
	{name: "LDS sealed, Lease deleted", macros: lds + "E_PART=0 SEALED=1 E_LEASEDEL=1"},
	{name: "LDS phase dual", macros: lds + "E_PART=0 PHASE=1"},
	{name: "LD seal, clean, selector astray", macros: ld + "E_PART=0 E_SEAL=2 E_CLEAN=1 E_MISS=1"},
	{name: "LLD seal, clean, selector astray", macros: lld + "E_PART=0 E_SEAL=2 E_CLEAN=1 E_MISS=1", long: true},

	// Phase legacy, which a human sets and takes back at any time.
	{name: "LD legacy", macros: ld + "E_LEGACY=1"},
	{name: "LDD legacy", macros: ldd + "E_PART=0 E_LEGACY=1", quick: calm, long: true},
	{name: "LD seal, legacy, back", macros: ld + "E_PART=0 E_SEAL=2 E_ROLL=1 E_LD=1 E_LEGACY=1", quick: calm},
	{name: "LDS sealed on the Lease first", macros: lds + "E_PART=0 E_TERM=2 PHASE=1 E_SEAL=2 REACH=4"},

	// Humans and late news: a candidate that knows must not go on beside a
	// legacy leader; or, where the leader is assumed to act first, nobody leads
	// beside it at all.
	{name: "LLD stale, CM deleted, known", macros: lld + "E_PART=0 V=1 E_CMDEL=1 CHECK=2"},
	{name: "LLD CM deleted, watch gaps, known", macros: lld + "E_PART=0 E_CMDEL=1 E_GAP=1 CHECK=2"},
	{name: "LDD stale, CM deleted, known", macros: ldd + "E_PART=0 V=1 E_CMDEL=1 CHECK=2", quick: calm},
	{name: "LLD notready, CM deleted, known", macros: lld + "E_PART=0 V=2 E_NR=2 M11=0 E_CMDEL=1 E_GAP=1 CHECK=2", long: true},
	{name: "LD sealed, CM deleted, known", macros: ld + "SEALED=1 E_CMDEL=1 CHECK=2"},
	{name: "LDD CM deleted, leader first", macros: ldd + "E_PART=0 E_CMDEL=2", quick: calm},
	{name: "LDD CM deleted, no leader", macros: ldd + "E_PART=0 E_CMDEL=3", quick: calm},
	{name: "LLD candidate force-deleted, known", macros: lld + "E_PART=0 E_FORCE=1 CHECK=2"},
	{name: "LLD candidate force-deleted, leader first", macros: lld + "E_PART=0 E_FORCE=3"},
	{name: "LLD stale, late delete, known", macros: lld + "E_PART=0 V=1 E_STRAY=1 CHECK=2"},
	{name: "LLD silent nodes, known", macros: lld + "E_PART=0 E_NR=2 CHECK=2", quick: calm},
	{name: "LDD silent nodes, known", macros: ldd + "E_PART=0 E_NR=2 CHECK=2", long: true},
	{name: "LLD silent nodes, seal, known", macros: lld + "E_PART=0 E_NR=2 E_SEAL=1 E_ROLL=1 CHECK=2", long: true},
	{name: "LLD stale, silent nodes, known", macros: lld + "E_PART=0 V=1 E_NR=2 CHECK=2", long: true},
	{name: "LLD notready, silent nodes, known", macros: lld + "E_PART=0 V=2 E_NR=2 CHECK=2", long: true},

	// No dead end, and no circle either.
	{name: "LLD no circle", macros: lld + "E_PART=0", live: true},
	{name: "LLD stale, no circle", macros: lld + "V=1 M11=0", live: true, long: true},
	{name: "LDD no circle", macros: ldd + "E_PART=0", live: true, long: true},
	{name: "LD seal, roll back, no circle", macros: ld + "E_PART=0 E_SEAL=1 E_ROLL=1 E_DS=1 E_LD=1", live: true},
}

// Known limits: documented overlaps that the model must still find, and states
// that show that it makes progress.
var limits = []world{
	{name: "human deletes the CM", macros: lld + "E_PART=0 E_CMDEL=1", expect: overlap},
	{name: "human deletes the CM, mode lease leads", macros: lds + "E_PART=0 SEALED=1 E_CMDEL=1", expect: overlap},
	{name: "legacy pod force-deleted, still running", macros: lld + "E_PART=0 E_FORCE=2", expect: overlap},
	{name: "candidate force-deleted, still running", macros: lld + "E_PART=0 E_FORCE=1", expect: overlap},
	{name: "M11 under a partition", macros: lld + "E_NR=1", expect: overlap},
	{name: "dead legacy program's delete lands late", macros: lld + "E_PART=0 V=1 E_STRAY=1", expect: overlap},
	{name: "mode lease before phase dual ever was", macros: lds + "E_PART=0", expect: overlap},
	{name: "all in mode dual go before they seal", macros: lds + "E_PART=0 PHASE=1 E_SEAL=2", expect: overlap},
	{name: "Lease deleted in a rollback, mode lease", macros: lds + "E_PART=0 SEALED=1 E_ROLL=1 E_LEASEDEL=1", expect: overlap},
	{name: "clean, selector astray, nobody was seen", macros: ld + "E_PART=0 E_SEAL=2 E_CLEAN=2 E_MISS=1", expect: overlap},
	{name: "images changed in place", macros: ld + "E_PART=0 E_INPLACE=1", expect: deadEnd},
	{name: "a candidate's node silent for ever", macros: ld + "E_PART=0 E_LD=3 E_POWER=2", expect: deadEnd},
	{name: "silent for ever, M11 off", macros: lld + "E_PART=0 E_POWER=1 M11=0", expect: deadEnd},

	{name: "a candidate leads", macros: lld + "REACH=1", expect: reached},
	{name: "one in mode lease leads", macros: ld + "E_SEAL=1 E_DS=1 REACH=2", expect: reached},
	{name: "a candidate leads in phase clean", macros: ld + "E_PART=0 E_SEAL=2 E_CLEAN=1 E_MISS=1 REACH=5", expect: reached},
	{name: "legacy leads again", macros: ld + "E_LD=1 REACH=3", expect: reached},
	{name: "legacy leads again, from sealed", macros: ld + "SEALED=1 E_ROLL=1 E_LD=1 REACH=3", expect: reached},
}

// The rules, each switched off in a world where that shows.
var variants = []variant{
	{"M1 presence not owned by the pod", "M1OWN=0", "LD there and back", deadEnd, false},
	{"M1 presence named as the pod", "M1NAME=0", "LD there and back, StatefulSet", overlap, false},
	{"M1 taken name not checked by UID", "M1UID=0", "LD there and back, StatefulSet", overlap, false},
	{"M2 only the maker is an owner", "M2=0", "LDD original", deadEnd, false},
	{"M3 any candidate's hand", "M3=0", "LDD CM deleted, leader first", overlap, false},
	{"M4 up while legacy pods are left", "M4LIST=0", "LLD no circle", circle, false},
	{"M4 presences matched by name", "M4UID=0", "LD there and back, StatefulSet", overlap, false},
	{"M4 terminating is gone", "M4TERM=0", "LLD original", overlap, false},
	{"M4 terminated container is gone", "M4CONT=0", "LLD original", overlap, false},
	{"M4 any Failed is gone", "M4FIN=0", "LD finished pods", overlap, false},
	{"M4 finished is not gone", "M4FIN=2", "LD finished pods", deadEnd, false},
	{"M5 armed without a list", "M5LIST=0", "LLD stale", overlap, false},
	{"M5 armed whatever the version", "M5CAS=0", "LDD stale, CM deleted, known", lasting, false},
	{"M5 armed whatever the version", "M5CAS=0", "LLDD stale", overlap, true},
	{"M5 not taken down", "M5DOWN=0", "LLD original", deadEnd, false},
	{"M6 led without arming", "M6ARMED=0", "LLD stale", overlap, false},
	{"M6 without this candidate's presence", "M6OWN=0", "LDD original", overlap, false},
	{"M6 not read after the Lease was won", "M6FRESH=0", "LDD CM deleted, no leader", overlap, false},
	{"M7 no settling", "M7=0", "LD, UID collector", overlap, false},
	{"M8 a legacy CM is ignored", "M8LOOK=0 M8EVENTS=0", "LLD stale, CM deleted, known", lasting, false},
	{"M8 the latest state alone", "M8EVENTS=0", "LLD stale, CM deleted, known", lasting, false},
	{"M8 not made again", "M8AGAIN=0", "LDD CM deleted, leader first", overlap, false},
	{"M8 events before the term ignored", "M8EVENTS=2", "LLD stale, CM deleted, known", lasting, false},
	{"M8 made again armed", "M8BARE=0", "LLD stale, CM deleted, known", lasting, false},
	{"M8 gaps ignored", "M8GAP=0", "LLD CM deleted, watch gaps, known", lasting, false},
	{"M8 goes on without its pod", "M8POD=0", "LLD candidate force-deleted, leader first", overlap, false},
	{"M9 sealed unarmed", "M9ARMED=0", "LLD stale, seal", overlap, false},
	{"M9 sealed with owners", "M9BARE=0", "LD seal, roll back, back", overlap, false},
	{"M9 the Lease's phase alone", "M9LATER=0", "LDS sealed, Lease deleted", overlap, false},
	{"M9 sealed leaders do not watch", "M9WATCH=0", "LD sealed, CM deleted, known", lasting, false},
	{"M9 a mismatch goes with its pod", "M9SEEN=0", "LD seal, clean, selector astray", overlap, false},
	{"M10 candidates go while sealed", "M10=0", "LD seal, roll back, back", deadEnd, false},
	{"M10 a left shield stays in phase legacy", "M10DOWN=0", "LD legacy", deadEnd, false},
	{"M10 the phase is not noted before work", "M10NOTE=0", "LDD legacy", overlap, false},
	{"M11 off", "M11=0", "LLD power loss", deadEnd, false},
	{"M11 silence heard while cut off", "M11GAP=0", "LLD candidate cut off", overlap, false},
	{"M12 off", "M12=0", "LDS phase dual", overlap, false},
	{"M12 an unsealed shield is not looked at", "M12SEAL=0", "LDS sealed on the Lease first", reached, false},

	// First versions of rules, with the faults that the model found.
	{"M4 any pod without a presence is legacy", "M4SAME=0", "LD there, a candidate never starts", deadEnd, false},
	{"M7 once in each process, not for each CM", "M7=2", "LDD, UID collector", overlap, true},
	{"M7 once written, not in each process", "M7=1", "LD, UID collector", overlap, false},
	{"M8 after a gap: only a foreign UID", "M8GAP=1", "LLD CM deleted, watch gaps, known", lasting, false},
	{"M10 the CM first, then the Lease", "M10LEASE=0", "LDS sealed, roll back", overlap, false},
	{"M10 a half-done rollback is led upon", "M10TOUCH=0", "LD seal, roll back, back", overlap, false},
	{"M11 once and for all", "M11=1", "LLD silent nodes, known", lasting, false},

	// Belt and braces: other rules hold without these.
	{"M4 no memory of legacy owners", "M4MEM=0", "LLD stale, UID collector", nothing, false},
	{"M4 no memory of legacy owners", "M4MEM=0", "LLD stale", nothing, true},
	{"M4 no memory of legacy owners", "M4MEM=0", "LLD notready", nothing, true},
	{"M4 no memory of legacy owners", "M4MEM=0", "LDD stale, CM deleted, known", nothing, true},
	{"M4 legacy CM updated (M7 waits it out)", "M4NEW=0", "LD, UID collector", nothing, false},
	{"M4 legacy CM updated (M7 waits it out)", "M4NEW=0", "LDD, UID collector", nothing, true},
}

// A run is one search.
type run struct {
	name, rule string
	macros     []string
	live       bool
	expect     string
}

// runs lists the searches, and with long also the long ones.
func runs(long bool) []run {
	byName := map[string]world{}
	var all []run
	for _, w := range slices.Concat(worlds, limits) {
		if !long {
			w.macros += " " + w.quick
		}
		byName[w.name] = w
		if w.expect == "" {
			w.expect = nothing
		}
		if long || !w.long {
			all = append(all, run{w.name, "", strings.Fields(w.macros), w.live, w.expect})
		}
	}
	for _, v := range variants {
		w, ok := byName[v.world]
		if !ok {
			panic("no world " + v.world)
		}
		if long || !v.long {
			macros := override(strings.Fields(w.macros), strings.Fields(v.macros))
			all = append(all, run{v.world, v.rule, macros, w.live, v.expect})
		}
	}
	return all
}

// override returns macros with those of the same names replaced.
func override(macros, by []string) []string {
	var out []string
	for _, m := range macros {
		name, _, _ := strings.Cut(m, "=")
		replaced := false
		for _, b := range by {
			replaced = replaced || strings.HasPrefix(b, name+"=")
		}
		if !replaced {
			out = append(out, m)
		}
	}
	return append(out, by...)
}
