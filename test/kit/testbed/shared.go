// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// shared is the state that all parts of a testbed work on. Its lock is held for
// every change.
type shared struct {
	config   Config
	dir      string
	fabric   fabric
	pki      *pki
	store    *store // of an embedded API server; nil without
	launcher *launcher

	ctx        context.Context // ends at Close
	cancel     context.CancelFunc
	background sync.WaitGroup // goroutines that end with ctx or with a program

	mu     sync.Mutex
	closed bool
	zones  map[string]*zone
	state  state

	progress sync.Mutex // for Config.Progress
}

// restConfig needs no lock: nothing that it reads changes after Start.
func (s *shared) restConfig(zone string) *rest.Config {
	return &rest.Config{
		Host:            s.fabric.observe(zone),
		BearerToken:     adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.pki.ca},
		QPS:             -1,
	}
}

// writeKubeconfig writes a kubeconfig of the admin for this server.
func (s *shared) writeKubeconfig(file, server string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["testbed"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: s.pki.ca}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: adminToken}
	config.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: "admin"}
	config.CurrentContext = "testbed"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig %s: %w", file, err)
	}
	return nil
}

// livingZone returns a zone whose apiserver runs and that at least one other
// zone, if there is one, can reach. It returns the preferred zone if that
// qualifies. The caller holds mu.
func (s *shared) livingZone(preferred string) (string, bool) {
	if z, ok := s.zones[preferred]; ok && s.well(z) && !s.cutOff(preferred) {
		return preferred, true
	}
	for _, name := range s.config.Zones {
		if s.well(s.zones[name]) && !s.cutOff(name) {
			return name, true
		}
	}
	return "", false
}

// cutOff reports whether a zone is partitioned from all others. One direction
// is enough, because then no connection works. The caller holds mu.
func (s *shared) cutOff(zone string) bool {
	for _, other := range s.config.Zones {
		if other != zone && !s.state.severed[pair{zone, other}] && !s.state.severed[pair{other, zone}] {
			return false
		}
	}
	return len(s.config.Zones) > 1
}

// cutOffZones are the zones that are partitioned from all others.
func (s *shared) cutOffZones() []string {
	var cut []string
	for _, name := range s.config.Zones {
		if s.cutOff(name) {
			cut = append(cut, name)
		}
	}
	return cut
}

// well reports whether a zone's apiserver serves, as far as the testbed
// controls that. The caller holds mu.
func (s *shared) well(z *zone) bool {
	return z.ready && z.parts[APIServer].runs() && (z.parts[Etcd].runs() || s.config.Programs.Embedded())
}

// client is an HTTP client that trusts the testbed's authority and keeps no
// connections, because the far end may be dead by the next time.
func (s *shared) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.pki.ca)
	trust := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}}
}

// say reports progress.
func (s *shared) say(format string, args ...any) {
	s.progress.Lock()
	defer s.progress.Unlock()
	// Progress is a courtesy: a writer that fails stops nothing.
	_, _ = fmt.Fprintf(s.config.Progress, "testbed: "+format+"\n", args...)
}

// poweredZone finds a zone that has power. The caller holds mu.
func (s *shared) poweredZone(name string) (*zone, error) {
	z, err := s.zone(name)
	if err == nil && z.dark {
		return nil, fmt.Errorf("zone %s has no power: restore it first", name)
	}
	return z, err
}

// zone finds a zone. The caller holds mu.
func (s *shared) zone(name string) (*zone, error) {
	z, ok := s.zones[name]
	switch {
	case s.closed:
		return nil, errors.New("the testbed is closed")
	case !ok:
		return nil, fmt.Errorf("there is no zone %q: the zones are %s", name, strings.Join(s.config.Zones, ", "))
	}
	return z, nil
}
