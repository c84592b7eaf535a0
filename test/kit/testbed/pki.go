// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// adminToken is the bearer token of an admin (group system:masters). It is no
// secret: it opens a testbed on loopback or in private namespaces.
const adminToken = "zonelect-testbed-admin"

// pki is the files of the API servers' TLS and tokens. etcd's members make
// certificates of their own.
type pki struct {
	ca      []byte // PEM
	cert    string
	key     string
	account string // key of service account tokens
	tokens  string
}

// newPKI makes a certificate for these hosts, its authority, and the token file
// in dir.
func newPKI(dir string, hosts []net.IP) (*pki, error) {
	p := &pki{
		cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"),
		account: filepath.Join(dir, "account.key"), tokens: filepath.Join(dir, "tokens.csv"),
	}
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", hosts, []string{"localhost", "kubernetes.default.svc"})
	if err != nil {
		return nil, fmt.Errorf("make the serving certificate: %w", err)
	}
	account, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("make the key of service accounts: %w", err)
	}
	p.ca = chain
	tokens := []byte(adminToken + `,admin,admin,"system:masters"` + "\n")
	for file, data := range map[string][]byte{p.cert: chain, p.key: key, p.account: account, p.tokens: tokens} {
		err = errors.Join(err, os.WriteFile(file, data, 0o600))
	}
	return p, err
}
