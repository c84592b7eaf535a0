// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is the path of a kubeconfig for programs in a zone: admin, by the
// zone's virtual IP, with a verified certificate. For a lesser user let the
// program impersonate one.
func (t *Testbed) Kubeconfig(zone string) string {
	return filepath.Join(t.dir, zone, "kubeconfig")
}

// Server is the URL of a zone's virtual IP, as in its kubeconfig.
func (t *Testbed) Server(zone string) string { return t.network.vip(zone) }

// RESTConfig leads the test process straight to a zone's apiserver, as admin
// and without a rate limit. It works through partitions, and is silence while
// the zone has no power. Each call returns a new one, the caller's to change.
func (t *Testbed) RESTConfig(zone string) *rest.Config { return t.restConfig(zone) }

// restConfig needs no lock: nothing that it reads changes after Start.
func (t *Testbed) restConfig(zone string) *rest.Config {
	return &rest.Config{
		Host:            t.network.observe(zone),
		BearerToken:     adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: t.pki.ca},
		QPS:             -1,
	}
}

// EtcdURL leads the test process straight to a zone's etcd member, plain HTTP,
// through any partition: for what no apiserver would tell.
func (t *Testbed) EtcdURL(zone string) string { return "http://" + t.network.site(zone).etcd }

// Living is RESTConfig for a zone whose apiserver runs and that is not
// partitioned from all others, or an error if there is none.
func (t *Testbed) Living() (*rest.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errors.New("find a living zone: the testbed is closed")
	}
	zone, ok := t.livingZone("")
	if !ok {
		return nil, errors.New("find a living zone: none has an apiserver that runs and reaches others; restore one or heal the partitions")
	}
	return t.restConfig(zone), nil
}

// writeKubeconfig writes a kubeconfig of the admin for this server.
func (t *Testbed) writeKubeconfig(file, server string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["testbed"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: t.pki.ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: adminToken}
	config.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: "admin"}
	config.CurrentContext = "testbed"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig %s: %w", file, err)
	}
	return nil
}
