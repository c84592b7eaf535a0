// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/test/kit/events"
	"github.com/zonelect/zonelect/test/kit/register"
)

// noted notes the resourceVersion of the last write of a Lease. client-go has
// no fencing token: this is the one that its leaders could have. It is larger
// than that of every earlier term as long as nobody restores etcd.
type noted struct {
	typedcoordinationv1.LeasesGetter
	token atomic.Uint64
}

// Leases returns the Leases of a namespace.
func (n *noted) Leases(namespace string) typedcoordinationv1.LeaseInterface {
	return notedLeases{n.LeasesGetter.Leases(namespace), &n.token}
}

type notedLeases struct {
	typedcoordinationv1.LeaseInterface
	token *atomic.Uint64
}

func (n notedLeases) Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return n.note(n.LeaseInterface.Create(ctx, l, o))
}

func (n notedLeases) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return n.note(n.LeaseInterface.Update(ctx, l, o))
}

func (n notedLeases) note(l *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil {
		version, _ := strconv.ParseUint(l.ResourceVersion, 10, 64) // etcd's revision number
		n.token.Store(version)
	}
	return l, err
}

// work is what the leader does: it writes the register, if there is one.
type work struct {
	printer *events.Printer
	ledger  *register.Register
}

// newWork writes the register over connections like those of the candidate
// program's work, so that comparing the writes of the two compares only their
// electors.
func newWork(cfg *rest.Config, p *events.Printer, namespace, name string) (*work, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	wire, err := transport.New(cfg, transport.Options{})
	if err != nil {
		return nil, err
	}
	cfg.Wrap(func(http.RoundTripper) http.RoundTripper { return wire })
	ledger, err := register.New(cfg, namespace, name, register.Pace{})
	return &work{p, ledger}, err
}

func (w *work) lead(ctx context.Context, token uint64) {
	w.printer.Print(events.Event{Event: "leading", Token: token})
	w.ledger.Keep(ctx, token, w.printer.Identity, func(x register.Write) {
		w.printer.Print(events.Wrote(token, x))
	})
	w.printer.Print(events.Event{Event: "stopping"})
	w.printer.Print(events.Event{Event: "stopped"})
}
