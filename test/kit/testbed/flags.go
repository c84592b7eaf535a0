// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"path/filepath"
	"strings"
)

// serviceRange is where the apiservers' services have their addresses; the
// first one belongs to the API itself.
const serviceRange = "10.96.0.0/16"

// etcdFlags are the flags of a zone's etcd member.
func (p *Parts) etcdFlags(zone string) []string {
	place := p.fabric.site(zone)
	var cluster []string
	for _, member := range p.config.Zones {
		cluster = append(cluster, member+"="+p.fabric.site(member).peerURL)
	}
	flags := []string{
		"--name=" + zone,
		"--data-dir=" + filepath.Join(p.dir, zone, "etcd"),
		"--listen-client-urls=http://" + place.etcd,
		"--advertise-client-urls=http://" + place.etcd,
		"--listen-peer-urls=https://" + place.peer,
		"--initial-advertise-peer-urls=" + place.peerURL,
		"--initial-cluster=" + strings.Join(cluster, ","),
		"--peer-auto-tls",
		"--log-level=warn",
		"--unsafe-no-fsync", // the machine keeps running when a member is killed, so nothing is lost
	}
	if place.shared {
		flags = append(flags, "--socket-reuse-port")
	}
	return flags
}

// apiserverFlags are the flags of a zone's apiserver. There are no service
// accounts in pods, because no pod runs, and no endpoints of the API's Service,
// because the testbed plays that.
func (p *Parts) apiserverFlags(zone string) []string {
	place := p.fabric.site(zone)
	host, port, _ := strings.Cut(place.apiserver, ":")
	flags := []string{
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--etcd-servers=http://" + place.etcd,
		"--tls-cert-file=" + p.pki.cert,
		"--tls-private-key-file=" + p.pki.key,
		"--cert-dir=" + filepath.Join(p.dir, zone),
		"--token-auth-file=" + p.pki.tokens,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.pki.account,
		"--service-account-signing-key-file=" + p.pki.account,
		"--service-cluster-ip-range=" + serviceRange,
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount",
		"--profiling=false",
	}
	if place.shared {
		flags = append(flags, "--permit-port-sharing")
	}
	return append(flags, p.config.APIServerFlags...)
}
