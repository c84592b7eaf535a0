// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
)

// unmounted is a pod without a service account, or no pod, wherever the test runs.
func unmounted(t *testing.T) {
	t.Helper()
	file, mounts, config, host := namespaceFile, mountsFile, inClusterConfig, hostName
	t.Cleanup(func() { namespaceFile, mountsFile, inClusterConfig, hostName = file, mounts, config, host })
	hostName = func() (string, error) { return "host-1", nil }
	namespaceFile = filepath.Join(t.TempDir(), "absent")
	mountsFile = namespaceFile
	inClusterConfig = func() (*rest.Config, error) {
		if os.Getenv(envInCluster) == "" {
			return nil, rest.ErrNotInCluster
		}
		return nil, os.ErrNotExist
	}
}

// bare clears what the test's machine says about itself.
func bare(t *testing.T) {
	t.Helper()
	unmounted(t)
	for _, name := range []string{envPodName, envPodUID, envNamespace, envNode, envZone, envInCluster, "KUBERNETES_SERVICE_PORT"} {
		t.Setenv(name, "")
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
}

func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	bare(t)
	for name, value := range env {
		t.Setenv(name, value)
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// logbook is a logger that keeps its messages.
func logbook() (logr.Logger, func() string) {
	var lines []string
	l := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	return l, func() string { return strings.Join(lines, "\n") }
}

const kubeconfigText = `
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "https://server.example:6443"}}]
users: [{name: "jane@example.com", user: {token: t}}]
contexts: [{name: c, context: {cluster: k, user: "jane@example.com", namespace: team}}]
`

var full = map[string]string{
	envPodName: "pod-1", envPodUID: "12345678-90ab", envNamespace: "ns-1",
	envNode: "node-1", envZone: "z1",
}

func TestAProcessKnowsItself(t *testing.T) {
	for name, tc := range map[string]struct {
		env      map[string]string
		options  Self
		mounted  string // the namespace that a service account says
		want     Self   // except for the identity
		identity string
		logs     []string
	}{
		"all by the downward API": {
			env:      full,
			want:     Self{PodName: "pod-1", PodUID: "12345678-90ab", Namespace: "ns-1", Node: "node-1", Zone: "z1"},
			identity: `^pod-1_12345678_[0-9a-f]{8}$`,
		},
		"explicit values win": {
			env:      full,
			options:  Self{Identity: "me", PodName: "p", PodUID: "u", Namespace: "n", Node: "o", Zone: "z"},
			want:     Self{PodName: "p", PodUID: "u", Namespace: "n", Node: "o", Zone: "z"},
			identity: `^me$`,
		},
		"pod without the downward API": {
			env:      map[string]string{envInCluster: "10.0.0.1"},
			mounted:  "ns-2\n",
			want:     Self{PodName: "host-1", Namespace: "ns-2"},
			identity: `^host-1_[0-9a-f]{8}$`,
			logs:     []string{"the pod's name is not known", "the pod's UID is not known", "NODE_NAME by the downward API"},
		},
		"pod without a namespace": {
			env:      map[string]string{envPodName: "pod-1", envPodUID: "123"},
			want:     Self{PodName: "pod-1", PodUID: "123"},
			identity: `^pod-1_123_[0-9a-f]{8}$`,
			logs:     []string{"set POD_NAMESPACE"},
		},
		"pod whose UID alone is named": {
			env:      map[string]string{envInCluster: "10.0.0.1", envPodUID: "123", envNamespace: "ns-1", envNode: "node-1"},
			want:     Self{PodName: "host-1", PodUID: "123", Namespace: "ns-1", Node: "node-1"},
			identity: `^host-1_123_[0-9a-f]{8}$`,
			logs:     []string{"the pod's name is not known"},
		},
		"outside a cluster": {
			env:      map[string]string{"KUBECONFIG": writeFile(t, kubeconfigText)},
			want:     Self{Namespace: "team"},
			identity: `^host-1_jane-example\.com_[0-9a-f]{8}$`,
			logs:     []string{"not in a pod", "jane@example.com"},
		},
		"outside, without a kubeconfig": {
			want:     Self{},
			identity: `^host-1_[0-9a-f]{8}$`,
			logs:     []string{"not in a pod"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, tc.env)
			if tc.mounted != "" {
				namespaceFile = writeFile(t, tc.mounted)
			}
			logger, logs := logbook()
			got, err := WhoAmI(t.Context(), &rest.Config{Host: nobody}, logger, tc.options)
			must(t, err)
			if !regexp.MustCompile(tc.identity).MatchString(got.Identity) {
				t.Errorf("identity %q, want %s", got.Identity, tc.identity)
			}
			got.Identity = ""
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
			for _, want := range tc.logs {
				if !strings.Contains(logs(), want) {
					t.Errorf("the log does not say %q:\n%s", want, logs())
				}
			}
		})
	}
}

func TestNoTwoStartsHaveOneIdentity(t *testing.T) {
	setenv(t, full)
	seen := map[string]bool{}
	for range 100 {
		s, err := WhoAmI(t.Context(), &rest.Config{Host: nobody}, logr.Logger{}, Self{})
		if err != nil || seen[s.Identity] {
			t.Fatalf("identity %q again, or %v", s.Identity, err)
		}
		seen[s.Identity] = true
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheZoneIsTheNodesOrNone(t *testing.T) {
	node := `{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"7","labels":{"topology.kubernetes.io/zone":"z9"}}}`
	bald := `{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`
	forbidden := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
		`"message":"nodes \"node-1\" is forbidden: User cannot get resource"}`
	for name, tc := range map[string]struct {
		code       int
		body, zone string
		log        string
	}{
		"labeled":       {200, node, "z9", ""},
		"no label":      {200, bald, "", "the node has no zone label"},
		"no permission": {403, forbidden, "", `needs verb \"get\" on nodes`},
		"no answer":     {0, "", "", "continuing without a zone"},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, map[string]string{envPodName: "pod-1", envPodUID: "1", envNode: "node-1"})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.code == 0 {
					panic(http.ErrAbortHandler)
				}
				if r.URL.Path != "/api/v1/nodes/node-1" || r.Header.Get("Authorization") != "Bearer t" {
					t.Errorf("%s with %q", r.URL.Path, r.Header.Get("Authorization"))
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer s.Close()
			logger, logs := logbook()
			self, err := WhoAmI(t.Context(), &rest.Config{Host: s.URL, BearerToken: "t"}, logger, Self{})
			if err != nil || self.Zone != tc.zone {
				t.Errorf("zone %q, %v: want %q", self.Zone, err, tc.zone)
			}
			if !strings.Contains(logs(), tc.log) || strings.Contains(logs(), "without a zone") != (tc.zone == "") {
				t.Errorf("log: %s\nwant %q", logs(), tc.log)
			}
		})
	}
}
