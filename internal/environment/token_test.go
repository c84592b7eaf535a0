// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// tokenOf is a token with those claims.
func tokenOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
}

// nobody is where no API server answers.
const nobody = "http://127.0.0.1:1"

// claims are those of a token that is bound to pod-7.
const claims = `{"sub":"system:serviceaccount:ns-7:op","kubernetes.io":{"namespace":"ns-7","node":{"name":"node-7","uid":"n"},` +
	`"pod":{"name":"pod-7","uid":"77777777-7777"},"serviceaccount":{"name":"op","uid":"s"}}}`

func TestATokenSaysItsPod(t *testing.T) {
	const before = `{"kubernetes.io":{"namespace":"ns-7","pod":{"name":"pod-7","uid":"77777777-7777"}}}`
	for name, tc := range map[string]struct {
		token string
		want  string // namespace, pod and node
	}{
		"since 1.30":        {tokenOf(claims), "ns-7 pod-7 77777777-7777 node-7"},
		"before":            {tokenOf(before), "ns-7 pod-7 77777777-7777 "},
		"a line's end":      {tokenOf(claims) + "\n", "ns-7 pod-7 77777777-7777 node-7"},
		"of no pod":         {tokenOf(`{"kubernetes.io":{"namespace":"ns-7","serviceaccount":{"name":"op"}}}`), "   "},
		"of a node alone":   {tokenOf(`{"kubernetes.io":{"namespace":"ns-7","node":{"name":"node-7"}}}`), "   "},
		"a pod without UID": {tokenOf(`{"kubernetes.io":{"namespace":"ns-7","pod":{"name":"pod-7"}}}`), "   "},
		"empty":             {"", "   "},
		"opaque":            {"31ada4fd-adec-460c-809a-9e56ceb75269", "   "},
		"no base64":         {"a.%%%.c", "   "},
		"no JSON":           {tokenOf("}{"), "   "},
		"other types":       {tokenOf(`{"kubernetes.io":[1,2]}`), "   "},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, tc.token)
			for from, cfg := range map[string]*rest.Config{"a file": {BearerTokenFile: file}, "a text": {BearerToken: tc.token}} {
				is := fromToken(cfg)
				if got := strings.Join([]string{is.Namespace, is.Pod.Name, is.Pod.UID, is.Node.Name}, " "); got != tc.want {
					t.Errorf("from %s %q, want %q", from, got, tc.want)
				}
			}
		})
	}
}

func TestAPodIsNamedByTheFirstThatKnows(t *testing.T) {
	inCluster := map[string]string{envInCluster: "10.0.0.1"}
	env := map[string]string{envInCluster: "10.0.0.1", envPodName: "pod-1", envPodUID: "11111111", envNode: "node-1", envNamespace: "ns-1"}
	for name, tc := range map[string]struct {
		env   map[string]string
		known Self
		token string
		want  Self // without identity and zone
		says  string
	}{
		"the token": {
			env: inCluster, token: tokenOf(claims),
			want: Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-7", Node: "node-7"},
		},
		"the token, not the environment, but for the namespace of the lock": {
			env: env, token: tokenOf(claims),
			want: Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-1", Node: "node-7"},
			says: "names another pod than the token does",
		},
		"the token for the UID, where the environment has another": {
			env: map[string]string{envPodName: "pod-7", envPodUID: "11111111"}, token: tokenOf(claims),
			want: Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-7", Node: "node-7"},
			says: "names another pod than the token does",
		},
		"the program, not the token": {
			env: inCluster, known: Self{PodName: "pod-9", PodUID: "9", Namespace: "ns-9", Node: "node-9"}, token: tokenOf(claims),
			want: Self{PodName: "pod-9", PodUID: "9", Namespace: "ns-9", Node: "node-9"},
		},
		"the program's name never gets the token's UID": {
			env: inCluster, known: Self{PodName: "pod-9"}, token: tokenOf(claims),
			want: Self{PodName: "pod-9"},
			says: "UID is not known",
		},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, tc.env)
			logger, logs := logbook()
			got, err := WhoAmI(t.Context(), &rest.Config{Host: nobody, BearerToken: tc.token}, logger, tc.known)
			must(t, err)
			if got.Identity = ""; got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
			if !strings.Contains(logs(), tc.says) || tc.says == "" && strings.Contains(logs(), "names another pod than the token does") {
				t.Errorf("want %q in\n%s", tc.says, logs())
			}
		})
	}
}

// TestATokenSaysNothingOutsideOfPods: whoever copied it is another process.
func TestATokenSaysNothingOutsideOfPods(t *testing.T) {
	bare(t)
	got, err := WhoAmI(t.Context(), &rest.Config{BearerToken: tokenOf(claims)}, logr.Discard(), Self{})
	if err != nil || got.PodName != "" || got.PodUID != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestATokenOfAnotherPodThanTheMountsIsACopy: the UID would prove this process's death by another's.
func TestATokenOfAnotherPodThanTheMountsIsACopy(t *testing.T) {
	setenv(t, full)
	mountsFile = writeFile(t, "1 2 0:1 /var/lib/kubelet/pods/12345678-90ab/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n")
	logger, logs := logbook()
	got, err := WhoAmI(t.Context(), &rest.Config{BearerToken: tokenOf(claims)}, logger, Self{})
	if err != nil || got.PodName != "pod-1" || got.PodUID != "12345678-90ab" || got.Node != "node-1" {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(logs(), "another pod than the one this process runs in") {
		t.Errorf("the log says\n%s", logs())
	}
	mountsFile = writeFile(t, "1 2 0:1 /var/lib/kubelet/pods/77777777-7777/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n")
	if got, err = WhoAmI(t.Context(), &rest.Config{BearerToken: tokenOf(claims)}, logger, Self{}); err != nil || got.PodName != "pod-7" {
		t.Errorf("with its own mounts %+v, %v", got, err)
	}
}
