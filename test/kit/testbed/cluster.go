// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"path/filepath"

	"k8s.io/client-go/rest"
)

// Cluster is the Kubernetes API of a testbed: how to reach it, and its pods.
type Cluster struct{ *shared }

// Kubeconfig is the path of a kubeconfig for programs in a zone: admin, through
// the zone's virtual IP, with a verified certificate. To act as a user with
// fewer rights, the program can impersonate one.
func (c *Cluster) Kubeconfig(zone string) string {
	return filepath.Join(c.dir, zone, "kubeconfig")
}

// RESTConfig leads the test process straight to a zone's apiserver, as admin
// and without a rate limit. It works through partitions, and gets no answer
// while the zone has no power. Each call returns a new one, which the caller
// may change.
func (c *Cluster) RESTConfig(zone string) *rest.Config { return c.restConfig(zone) }

// EtcdURL leads the test process straight to a zone's etcd member, over plain
// HTTP and through any partition, for what no apiserver would tell.
func (c *Cluster) EtcdURL(zone string) string { return "http://" + c.fabric.site(zone).etcd }
