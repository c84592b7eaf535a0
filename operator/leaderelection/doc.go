// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaderelection has the names of client-go's package of that name, for programs that call
// RunOrDie or NewLeaderElector today: the move is one line of their imports. The lock stays the Lease
// that client-go's resourcelock describes, so replicas of the old and the new version elect one leader
// among them.
//
// # What is kept
//
//   - OnStartedLeading gets a goroutine and a context, which ends with the leadership. It may return
//     before that. OnStoppedLeading is called whenever Run ends, also if this process never led. Run
//     leads once.
//   - OnStoppedLeading is called at once when leadership is lost. It may end the process.
//   - With ReleaseOnCancel the lock is released when the context of Run ends. By it a program promises, as
//     with client-go, that its work has stopped when it ends that context.
//   - Events are recorded by the lock's EventRecorder.
//   - The kubeconfig of the flag --kubeconfig counts, as in client-go's examples.
//
// # What differs
//
//   - A follower watches the Lease. It takes over when the lease has expired, when it is released, or when
//     the holder's process is proven dead. RetryPeriod is how often the leader renews. For work that goes
//     on without its process, set Options.WorkOutlivesProcess.
//   - RenewDeadline counts from when the last acknowledged renewal was sent.
//   - With ReleaseOnCancel, Run waits for OnStartedLeading to return before it releases: for a
//     RetryPeriod, or Options.Timing.StopTimeout if that is set. client-go releases while it runs.
//   - Leadership ends in good order too: by kubectl zonelect handover, or because this zone is evacuated.
//     Without ReleaseOnCancel the lease is left to run out. With it, the lock is released if
//     OnStartedLeading returns in that time, after the end of its context: that counts as the end of all
//     work that it began. If it returned before, the lease is left to run out.
//   - A LeaderElector that runs again waits until its former OnStartedLeading has returned.
//   - A process that starts with the identity of the holder waits for the lease, or for the proof that the
//     former process is dead. With client-go it leads at once.
//   - In one Run, OnNewLeader is called for one leader after another, not at the same time, and not with an
//     empty identity after a release.
//   - The election has connections of its own. The client of the lock sends nothing. Each candidate keeps a
//     Lease of its own, by which the others know it.
//   - Its rights are those of config/operator/lease: list and watch of Leases beside get, create and
//     update, and get of its own pod.
//   - Events are about a Lease without a UID.
//
// # What is refused
//
// NewLeaderElector returns [ErrConfig] for
//
//   - a lock that is not a *resourcelock.LeaseLock, or whose client belongs to another API server than
//     the rest.Config that is found: set Options.Config;
//   - a client that is not one of a clientset with a server, such as a fake: set Options.Disabled in tests;
//   - Coordinated, because a coordinator of Kubernetes would choose the leader;
//   - Options that say again what the LeaderElectionConfig says, and Options.ExitOnOverrun;
//   - a timing in which others could lead beside the work, such as a LeaseDuration of the same length as
//     RenewDeadline, and a LeaseDuration that is not in whole seconds.
//
// What else [operator.New] refuses ends Run, which logs it and calls OnStoppedLeading.
//
// SetProvider, LeaseCandidate and what belongs to them are missing: Options.MeterProvider gets the metrics.
package leaderelection

// The goroutines
//
// These functions start goroutines; a test checks the list against the code.
//
//	elector.go  start                  OnStartedLeading; until it returns, and Run does not always wait for that
//	elector.go  leadership.run         OnNewLeader; until it returns after the end of the election, and Run does not wait for that
//	elector.go  LeaderElector.elect    the election; until it is over, and Run does not wait for that when leadership is lost
