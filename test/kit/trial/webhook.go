// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Webhook returns an address on which nobody listens, for a manager's webhook, the directory of a
// certificate for it, and that certificate as PEM, which who calls the webhook trusts.
func Webhook(t *testing.T) (address, dir string, ca []byte) {
	t.Helper()
	s := httptest.NewTLSServer(nil) // its certificate is for 127.0.0.1
	defer s.Close()
	pair := s.TLS.Certificates[0]
	key, keyErr := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	dir = t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(keyErr, err,
		os.WriteFile(filepath.Join(dir, "tls.crt"), ca, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String(), dir, ca
}
