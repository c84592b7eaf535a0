// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// adminToken is the bearer token of an admin (group system:masters). It is no
// secret: it opens a testbed on loopback or in private namespaces.
const adminToken = "zonelect-testbed-admin"

// certificateLife is far longer than any testbed lives.
const certificateLife = 30 * 24 * time.Hour

// pki is the files of the control plane's TLS and tokens.
type pki struct {
	ca      []byte // PEM
	caFile  string
	cert    string // one serving and client certificate for all parts
	key     string
	account string // key of service account tokens
	tokens  string
}

// newPKI makes a certificate authority, a certificate for these hosts and the
// token file in dir.
func newPKI(dir string, hosts []string) (*pki, error) {
	p := &pki{
		caFile: filepath.Join(dir, "ca.crt"), cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"),
		account: filepath.Join(dir, "account.key"), tokens: filepath.Join(dir, "tokens.csv"),
	}
	authority, authorityKey, err := newAuthority()
	if err != nil {
		return nil, err
	}
	p.ca = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: authority.Raw})
	leaf, leafKey, err := newLeaf(authority, authorityKey, hosts)
	if err != nil {
		return nil, err
	}
	accountKey, err := newKey()
	if err != nil {
		return nil, err
	}
	return p, errors.Join(
		writeFile(p.caFile, p.ca),
		writeFile(p.cert, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: leaf})),
		writeKey(p.key, leafKey),
		writeKey(p.account, accountKey),
		writeFile(p.tokens, []byte(adminToken+`,admin,admin,"system:masters"`+"\n")),
	)
}

// newKey makes a private key.
func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a private key: %w", err)
	}
	return key, nil
}

// newAuthority makes a self-signed certificate authority.
func newAuthority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	// Programs whose wall clocks are stepped back must find its certificates valid,
	// too.
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "zonelect-testbed", NotBefore: time.Now().Add(-certificateLife)}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return authority, key, nil
}

// newLeaf makes a certificate for these names and addresses, and loopback.
func newLeaf(authority *x509.Certificate, authorityKey *ecdsa.PrivateKey, hosts []string) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "controlplane"},
		NotBefore:    authority.NotBefore,
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range append([]string{"127.0.0.1", "localhost", "kubernetes.default.svc"}, hosts...) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("make the serving certificate: %w", err)
	}
	return leaf, key, nil
}

// writeKey writes a private key as PEM.
func writeKey(file string, key *ecdsa.PrivateKey) error {
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fmt.Errorf("encode the key for %s: %w", file, err)
	}
	return writeFile(file, data)
}

// writeFile writes a file that only this user may read.
func writeFile(file string, data []byte) error {
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write the control plane's files: %w", err)
	}
	return nil
}
