// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/heartbeat"
	"github.com/zonelect/zonelect/operator"
)

// operator returns the options of package operator. Nobody posts Events, because client-go's
// electors do not either.
func (o options) operator() operator.Options {
	return operator.Options{
		Config: o.config, Namespace: o.namespace, NoEvents: true,
		Timing: election.Timing{LeaseDuration: o.lease, RenewDeadline: o.deadline, RenewInterval: o.retry},
		Self:   operator.SelfOptions{Identity: o.identity, PodName: o.podName, PodUID: o.podUID, Namespace: o.namespace, Zone: o.zone, Node: "node-" + o.zone},
		Logger: logr.FromSlogHandler(slog.DiscardHandler),
	}
}

// own makes elections that share nothing.
func own(o options) (maker, error) {
	return func(identity, lock string, lead func(context.Context)) (elector, error) {
		these := o
		these.identity = identity
		if o.locks > 1 {
			these.identity += "-" + lock
		}
		e, err := operator.New(context.Background(), lock, these.operator())
		return elected(e, identity, lock, lead), err
	}, nil
}

func shared(o options) (maker, error) { return among(operator.NewGroup, o.operator(), o.lock) }

func beating(o options) (maker, error) {
	these := o.operator()
	these.Timing.Exclusive = true
	return among(heartbeat.NewGroup, these, o.lock)
}

// among makes the elections of one Group.
func among(newGroup func(context.Context, string, operator.Options) (*operator.Group, error), o operator.Options, name string) (maker, error) {
	all, err := newGroup(context.Background(), name, o)
	return func(identity, lock string, lead func(context.Context)) (elector, error) {
		e, err := all.New(lock)
		return elected(e, identity, lock, lead), err
	}, err
}

func elected(e *operator.Election, identity, lock string, lead func(context.Context)) elector {
	return elector{
		identity: identity, lock: lock,
		run: func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context, _ election.Term) error {
				lead(ctx)
				return ctx.Err()
			})
		},
		leader: func() string { return e.Status().Holder },
	}
}

// clientGo makes electors of client-go that share one client without a rate limit, and so one
// HTTP/2 connection: the least that they can cost.
func clientGo(o options) (maker, error) {
	cfg := rest.CopyConfig(o.config)
	cfg.QPS = -1
	cfg.Timeout = o.deadline / 2 // as controller-runtime
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return func(identity, lock string, lead func(context.Context)) (elector, error) {
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: lock},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: o.lease, RenewDeadline: o.deadline, RetryPeriod: o.retry,
			ReleaseOnCancel: true,
			Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
		})
		if err != nil {
			return elector{}, err
		}
		return elector{identity: identity, lock: lock, leader: e.GetLeader, run: func(ctx context.Context) error {
			for ctx.Err() == nil {
				e.Run(logr.NewContext(ctx, logr.Discard()))
			}
			return nil
		}}, nil
	}, nil
}
