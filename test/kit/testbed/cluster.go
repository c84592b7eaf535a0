// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is the Kubernetes API of a testbed: how to reach it, its pods, and
// the users whose requests it rejects.
type Cluster struct {
	*shared
	rejected  map[string]bool    // users whose requests apiservers reject
	vacateAll context.CancelFunc // ends the requests of the occupant
}

// Kubeconfig is the path of a kubeconfig for programs in a zone: admin, through
// the zone's virtual IP, with a verified certificate. To act as a user with
// fewer rights, the program can impersonate one.
func (c *Cluster) Kubeconfig(zone string) string {
	return filepath.Join(c.dir, zone, "kubeconfig")
}

// Server is the URL of a zone's virtual IP, as in its kubeconfig.
func (c *Cluster) Server(zone string) string { return c.fabric.vip(zone) }

// RESTConfig leads the test process straight to a zone's apiserver, as admin
// and without a rate limit. It works through partitions, and gets no answer
// while the zone has no power. Each call returns a new one, which the caller
// may change.
func (c *Cluster) RESTConfig(zone string) *rest.Config { return c.restConfig(zone) }

// EtcdURL leads the test process straight to a zone's etcd member, over plain
// HTTP and through any partition, for what no apiserver would tell.
func (c *Cluster) EtcdURL(zone string) string { return "http://" + c.fabric.site(zone).etcd }

// Living is RESTConfig for a zone whose apiserver runs and that is not
// partitioned from all others, or an error if there is none.
func (c *Cluster) Living() (*rest.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("find a living zone: the testbed is closed")
	}
	zone, ok := c.livingZone("")
	if !ok {
		return nil, errors.New("find a living zone: none has an apiserver that runs and reaches others; restore one or heal the partitions")
	}
	return c.restConfig(zone), nil
}

// livingClient is a client of a living zone.
func (c *Cluster) livingClient() (kubernetes.Interface, error) {
	config, err := c.Living()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// wellZones are the zones whose apiservers serve and are not cut off.
func (c *Cluster) wellZones() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var well []string
	for _, name := range c.config.Zones {
		if c.well(c.zones[name]) && !c.cutOff(name) {
			well = append(well, name)
		}
	}
	return well
}
