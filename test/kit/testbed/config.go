// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// EndpointLease is how long a virtual IP keeps sending new connections to an
// apiserver that is gone, as a Service does until the apiserver's endpoint
// lease has run out.
const EndpointLease = 15 * time.Second

// NetworkKind says what carries the traffic between the zones.
type NetworkKind int

const (
	// Auto is Namespaces where that is possible, else Links. The default.
	Auto NetworkKind = iota
	// Namespaces is one Linux network namespace per zone. Needs root, ip and nft.
	Namespaces
	// Links is TCP relays on loopback, inside the test process. Needs nothing.
	Links
)

// String returns the network's name, for test names and logs.
func (n NetworkKind) String() string {
	switch n {
	case Namespaces:
		return "namespaces"
	case Links:
		return "links"
	default:
		return "auto"
	}
}

// Config describes a testbed. The zero value is three zones on the best
// network that is available.
type Config struct {
	// Kubernetes is the version of the control plane, as v1.33.13: one for which
	// test/programs/controlplane has a VERSION.mod. Default: that of its go.mod.
	Kubernetes string
	// Programs are those of the control plane. Default: those that Build makes of Kubernetes. If they
	// have no kube-controller-manager, it is left out. If they are embedded, nodes are, too.
	Programs Programs
	// Zones are the zones' names: DNS labels of at most 20 characters, each another.
	// Default za, zb, zc. One zone makes a plain, fast apiserver.
	Zones []string
	// NetworkKind says what carries the traffic between the zones.
	Network NetworkKind
	// WithoutControllers leaves the kube-controller-manager out: nothing is
	// garbage-collected, no node is ever found dead, and the start is faster.
	WithoutControllers bool
	// WithoutNodes leaves nodes and kubelets out; Cluster.AddPod then fails.
	WithoutNodes bool
	// APIServerFlags are passed to every apiserver, after the testbed's own:
	// --runtime-config=coordination.k8s.io/v1=false takes Leases away.
	APIServerFlags []string
	// Dir holds state and logs: an absolute path. It is created if need be, and
	// stays after Close, but must not hold an earlier testbed's state. Default: a
	// temporary directory that Close removes.
	Dir string
	// Progress gets a line for each step. Default: none.
	Progress io.Writer
}

// withDefaults returns the configuration with defaults filled in, or an error
// that says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if len(c.Zones) == 0 {
		c.Zones = []string{"za", "zb", "zc"}
	}
	c.Zones, c.APIServerFlags = slices.Clone(c.Zones), slices.Clone(c.APIServerFlags)
	if c.Programs.apiserver != nil {
		c.WithoutControllers = c.WithoutControllers || c.Programs.controllers == nil
		c.WithoutNodes = c.WithoutNodes || c.Programs.Embedded()
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	impossible := NamespacesPossible()
	if impossible != nil && c.Network == Namespaces {
		return c, fmt.Errorf("network namespaces are not possible here, use Links: %w", impossible)
	}
	if c.Network == Auto && impossible != nil {
		c.Network = Links
	} else if c.Network == Auto {
		c.Network = Namespaces
	}
	return c, nil
}
