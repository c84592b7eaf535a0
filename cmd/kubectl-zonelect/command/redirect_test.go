// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
)

// TestNoCommandFollowsARedirect, which would take the token to another host.
func TestNoCommandFollowsARedirect(t *testing.T) {
	const token = "s3cr3t.token"
	astray := make(chan string, 1000)
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { astray <- r.Header.Get("Authorization") }))
	defer plain.Close()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/login", http.StatusFound)
	}))
	defer s.Close()
	ca := t.TempDir() + "/ca"
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"status", "status op", "doctor op", "handover op", "evacuate za", "migrate plan op", "version"} {
		var out, errOut buffer
		env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		env.terminal = func() bool { return false }
		env.config.KubeConfig = ptr.To("testdata/kubeconfig.yaml")
		env.config.APIServer, env.config.BearerToken, env.config.CAFile = &s.URL, ptr.To(token), &ca
		code := run(t.Context(), env, strings.Fields(line))
		text := out.String() + errOut.String()
		if line != "version" && code == exitOK || !strings.Contains(text, "redirects to") || strings.Contains(text, token) {
			t.Errorf("%s ends with %d: %s", line, code, text)
		}
	}
	if len(astray) > 0 {
		t.Errorf("%d requests went astray, the first with %q", len(astray), <-astray)
	}
}
