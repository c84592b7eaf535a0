// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multilock makes one lock out of a Lease, which alone decides among candidates,
// and the lock of the programs that they replace, so that both kinds can run side by side
// and never lead together.
//
// Each lock has a package of its own; this one has what their configurations share:
//
//   - Package shield is for leader-for-life ConfigMaps. Its rules, M1 to M12, are in
//     docs/design-migration.md; shield/rules.go holds them as code, without any I/O.
//   - Package twin is for client-go's records on annotations, which expire. A candidate
//     holds both locks until the phase is clean.
//
// Programs that take no part in a migration, and must not lead beside those that do, use
// package operator.
//
// Both locks keep a presence object, which shows the candidate to people and to the
// other candidates. It is one more Lease. The candidate's pod owns it, so that it is
// deleted with the pod. The lock writes it at the start and on each change.
//
// SetUnhealthy of a lock has the presence object say why this candidate should not lead;
// empty means that it is healthy. The object says so at once, or within 15 s if it said something
// else less than a LeaseDuration ago. SetUnhealthy does no I/O.
//
// Peers of a lock reports which candidates have a presence object, in the form of
// election.Config. It costs nothing while nothing changes: Attend runs one watch for it.
// Peers knows no candidate while Attend does not run, or without permission to list and
// watch Leases.
//
// All locks need the permissions of package lease, and one to list the presences:
//
//	apiGroups: [coordination.k8s.io]
//	resources: [leases]
//	verbs: [list]
//
// They read their own pod before it becomes the owner of the presence. Without that there is a
// presence only since Kubernetes 1.28, if the pod's own token is used:
//
//	apiGroups: [""]
//	resources: [pods]
//	verbs: [get]
package multilock

// The goroutines
//
// These functions start goroutines; a test holds the list against the code. Attend and
// Watch wait for theirs.
//
//	shield/keeper.go                   keeper.run                   keeps the presence; until the end of Attend
//	shield/watch.go                    keeper.startWatch            one watch of the ConfigMap; until it ends, or the end of Attend
//	shield/keeper.go                   keeper.act                   the requests of one action; until their answers, or their limit
//	twin/lock.go                       Lock.Attend                  keeps the presence; until the end of Attend
//	twin/lock.go                       Lock.Attend                  looks up the pods of legacy holders; until the end of Attend
//	twin/watch.go                      twinWatch.run                the watch of one of the two locks; until either ends
//	../../internal/presence/keeper.go  Keeper.Keep                  follows the other candidates' presences; until the end of Attend
//	../../internal/presence/keeper.go  Keeper.Keep                  removes presences without a pod that are not renewed; the same
//	../../internal/presence/keeper.go  Keeper.Keep                  watches this candidate's pod; the same
//	../../internal/phase/guard.go      Guard.Attend                 keeps the presence; until the end of Attend

// Where to look
//
// A test checks that each function is in its file. docs/migration.md says what a person
// does in each phase.
//
// What a phase is, and who changes it:
//
//	../../migrate/step.go            Migration.move            writes the next phase on the Lease; nobody else moves a phase
//	../../internal/phase/tracker.go  Tracker.Annotate          keeps the phase on the Lease, and begins with phase dual
//	../../internal/phase/tracker.go  Tracker.Note              a candidate notes a later phase
//	internal/candidate/candidate.go  PermissionIn              who may campaign in which phase
//	../../internal/record/stage.go   Stage.Bars                the same for a program in mode lease
//
// A leader-for-life ConfigMap, from dual by sealed to clean:
//
//	shield/keeper.go  keeper.run          the loop, which owns the state
//	shield/rules.go   rules.next          what to do next: every case, by duty and phase
//	shield/rules.go   rules.underShield   phase dual: count the legacy pods, then lead
//	shield/rules.go   rules.underSeal     phase sealed: the ConfigMap has no owners
//	shield/rules.go   rules.inPhaseClean  phase clean: the leader deletes the ConfigMap
//	shield/keeper.go  keeper.job          what each action sends
//	shield/rules.go   rules.granted       when the work may begin; election/guardian.go begins it
//	shield/state.go   state.setRecord     from when M7's 5 s count
//	shield/state.go   state.lost          what ends a term
//
// A record on an annotation, from dual to clean:
//
//	twin/both.go   both.Write              writes both records, the legacy one first
//	twin/state.go  twinState.agreed        merges both records of one holder
//	twin/lock.go   Lock.leaseGovernsAlone  phase clean: the Lease counts alone
//	twin/lock.go   Lock.clearLegacyRecord  phase clean: removes the annotation and keeps its object
