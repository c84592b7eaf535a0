// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"path/filepath"
	"strings"
)

// serviceRange is where the apiservers' services have their addresses; the
// first one is the API's own.
const serviceRange = "10.96.0.0/16"

// etcdFlags are the flags of a zone's etcd member.
func (t *Testbed) etcdFlags(zone string) []string {
	place := t.network.site(zone)
	var cluster []string
	for _, member := range t.config.Zones {
		cluster = append(cluster, member+"="+t.network.site(member).peerURL)
	}
	flags := []string{
		"--name=" + zone,
		"--data-dir=" + filepath.Join(t.dir, zone, "etcd"),
		"--listen-client-urls=http://" + place.etcd,
		"--advertise-client-urls=http://" + place.etcd,
		"--listen-peer-urls=https://" + place.peer,
		"--initial-advertise-peer-urls=" + place.peerURL,
		"--initial-cluster=" + strings.Join(cluster, ","),
		"--peer-cert-file=" + t.pki.cert,
		"--peer-key-file=" + t.pki.key,
		"--peer-trusted-ca-file=" + t.pki.caFile,
		"--log-level=warn",
	}
	if !t.config.SyncToDisk {
		flags = append(flags, "--unsafe-no-fsync")
	}
	if place.shared {
		flags = append(flags, "--socket-reuse-port")
	}
	return flags
}

// apiserverFlags are the flags of a zone's apiserver. There are no service
// accounts in pods, for no pod runs, and no endpoints of the API's Service, for
// the testbed plays it.
func (t *Testbed) apiserverFlags(zone string) []string {
	place := t.network.site(zone)
	host, port, _ := strings.Cut(place.apiserver, ":")
	flags := []string{
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--etcd-servers=" + strings.Join(t.members(zone), ","),
		"--tls-cert-file=" + t.pki.cert,
		"--tls-private-key-file=" + t.pki.key,
		"--cert-dir=" + filepath.Join(t.dir, zone),
		"--token-auth-file=" + t.pki.tokens,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + t.pki.account,
		"--service-account-signing-key-file=" + t.pki.account,
		"--service-cluster-ip-range=" + serviceRange,
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount",
		"--profiling=false",
	}
	if place.shared {
		flags = append(flags, "--permit-port-sharing")
	}
	return append(flags, t.config.APIServerFlags...)
}

// members are the URLs of the etcd members that a zone's apiserver talks to.
func (t *Testbed) members(zone string) []string {
	own := []string{"http://" + t.network.site(zone).etcd}
	if t.config.Topology == Stacked {
		return own
	}
	for _, other := range t.config.Zones {
		if other != zone {
			own = append(own, t.network.etcdURL(zone, other))
		}
	}
	return own
}

// controllers are those that matter to elections: who collects a lock whose
// owner is gone, who finds a node dead, who removes its pods.
var controllers = []string{
	"garbage-collector-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"pod-garbage-collector-controller", "namespace-controller", "deployment-controller", "replicaset-controller",
}

// controllerFlags are the flags of the kube-controller-manager.
func (t *Testbed) controllerFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--controllers=" + strings.Join(controllers, ","),
		"--secure-port=0",
		"--profiling=false",
	}
}
