// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestClientGosAuthenticationIsKept(t *testing.T) {
	header := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get(name)) }
	}
	credential := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}`
	for name, tc := range map[string]struct {
		header string
		set    func(*rest.Config)
		want   string
	}{
		"token":       {"Authorization", func(c *rest.Config) { c.BearerToken = "abc" }, "Bearer abc"},
		"token file":  {"Authorization", func(c *rest.Config) { c.BearerTokenFile = writeFile(t, "token", []byte("def")) }, "Bearer def"},
		"basic":       {"Authorization", func(c *rest.Config) { c.Username, c.Password = "u", "p" }, "Basic dTpw"},
		"impersonate": {"Impersonate-User", func(c *rest.Config) { c.Impersonate.UserName = "jane" }, "jane"},
		"user agent":  {"User-Agent", func(c *rest.Config) { c.UserAgent = "my-operator" }, "my-operator"},
		"wrapper": {"X-Wrapped", func(c *rest.Config) {
			c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return stamp{rt} })
		}, "yes"},
		"exec plugin": {"Authorization", func(c *rest.Config) {
			c.ExecProvider = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "echo", Args: []string{credential},
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		}, "Bearer from-plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, true, 0, header(tc.header))
			cfg := s.config()
			tc.set(cfg)
			if got := mustGet(t, t.Context(), mustNew(t, cfg, calm()), s.URL); got != tc.want {
				t.Errorf("%s is %q, want %q", tc.header, got, tc.want)
			}
		})
	}
}

type stamp struct{ next http.RoundTripper }

func (s stamp) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Wrapped", "yes")
	return s.next.RoundTrip(r)
}

func TestAClientCertificateIsShown(t *testing.T) {
	s := serve(t, true, 0, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.TLS.PeerCertificates)) })
	s.TLS.ClientAuth = tls.RequestClientCert
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	must(t, err)
	cfg := s.config()
	cfg.CertFile = writeFile(t, "cert", s.ca())
	cfg.KeyFile = writeFile(t, "key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	if got := mustGet(t, t.Context(), mustNew(t, cfg, calm()), s.URL); got != "1" {
		t.Errorf("the server saw %s certificates, want 1", got)
	}
}

func TestARotatedCAIsReadAtTheNextDial(t *testing.T) {
	s := serve(t, true, 0, peer)
	cfg := s.config()
	cfg.CAData, cfg.CAFile = nil, writeFile(t, "ca", otherCA(t))
	tr := mustNew(t, cfg, calm())
	if _, err := get(t.Context(), tr, s.URL); err == nil {
		t.Fatal("a stranger's certificate was accepted")
	}
	must(t, os.WriteFile(cfg.CAFile, s.ca(), 0o600))
	mustGet(t, t.Context(), tr, s.URL)
}

// otherCA makes a certificate that signed nothing.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
