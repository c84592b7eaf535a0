// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func other(server string) string {
	return strings.ReplaceAll(kubeconfigText, "server.example", server)
}

// home puts a kubeconfig in the place of ~/.kube/config.
func home(t *testing.T, path string) {
	old := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = path
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = old })
}

func TestTheWayToTheAPIIsTheFirstThatThereIs(t *testing.T) {
	explicit, env, homely := writeFile(t, other("explicit")), writeFile(t, other("env")), writeFile(t, other("home"))
	for name, tc := range map[string]struct{ path, env, inCluster, host string }{
		"explicit":                      {explicit, env, "", "https://explicit:6443"},
		"environment":                   {"", env, "", "https://env:6443"},
		"home":                          {"", "", "", "https://home:6443"},
		"pod without service account":   {"", "", "10.0.0.1", "https://home:6443"},
		"the environment beats a pod's": {"", env, "10.0.0.1", "https://env:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, map[string]string{"KUBECONFIG": tc.env, envInCluster: tc.inCluster})
			home(t, homely)
			cfg, err := RESTConfig(tc.path)
			must(t, err)
			if cfg.Host != tc.host || cfg.BearerToken != "t" {
				t.Errorf("host %s, token %q", cfg.Host, cfg.BearerToken)
			}
		})
	}
}

func TestNoWayToTheAPISaysWhereWasLooked(t *testing.T) {
	for name, tc := range map[string]struct {
		path, env, inCluster string
		says                 string
	}{
		"explicit":    {"/absent/config", "", "", `kubeconfig "/absent/config"`},
		"environment": {"", "/absent/env", "", `KUBECONFIG="/absent/env"`},
		"nothing":     {"", "", "", "~/.kube/config"},
		"pod":         {"", "", "10.0.0.1", "as a pod"},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, map[string]string{"KUBECONFIG": tc.env, envInCluster: tc.inCluster})
			home(t, "/absent/home")
			const hint = "set KUBECONFIG to a file that exists, or"
			_, err := RESTConfig(tc.path)
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), hint) {
				t.Errorf("%v: want an error that says %q", err, tc.says)
			}
		})
	}
}

func TestAPodsServiceAccountIsTheWayIfThereIsNoKUBECONFIG(t *testing.T) {
	env := writeFile(t, other("env"))
	setenv(t, map[string]string{"KUBECONFIG": "", envInCluster: "10.0.0.1"})
	home(t, "/absent/home")
	inClusterConfig = func() (*rest.Config, error) { return &rest.Config{Host: "https://10.0.0.1:443"}, nil }
	if cfg, err := RESTConfig(""); err != nil || cfg.Host != "https://10.0.0.1:443" {
		t.Errorf("%+v, %v", cfg, err)
	}
	t.Setenv("KUBECONFIG", env)
	if cfg, err := RESTConfig(""); err != nil || cfg.Host != "https://env:6443" {
		t.Errorf("with one: %+v, %v", cfg, err)
	}
}
