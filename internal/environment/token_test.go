// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/presence"
)

// bound is a token with those claims.
func bound(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
}

// claims are those of a token that is bound to pod-7.
const claims = `{"sub":"system:serviceaccount:ns-7:op","kubernetes.io":{"namespace":"ns-7","node":{"name":"node-7","uid":"n"},` +
	`"pod":{"name":"pod-7","uid":"77777777-7777"},"serviceaccount":{"name":"op","uid":"s"}}}`

var pod7 = presence.Sender{Namespace: "ns-7", Pod: presence.Pod{Name: "pod-7", UID: "77777777-7777"}, Node: "node-7"}

// review is what the API server says of a sender with those extras.
func review(user, extra string) string {
	return fmt.Sprintf(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":%q,"extra":{%s}}}}`, user, extra)
}

const extra7 = `"authentication.kubernetes.io/pod-name":["pod-7"],"authentication.kubernetes.io/pod-uid":["77777777-7777"],"authentication.kubernetes.io/node-name":["node-7"]`

// server answers SelfSubjectReviews, and counts them. Nothing else is asked.
func server(t *testing.T, code int, body string) (cfg *rest.Config, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}, asked
}

func TestATokenSaysItsPod(t *testing.T) {
	for name, tc := range map[string]struct {
		token string
		want  presence.Sender
	}{
		"since 1.30":        {bound(claims), pod7},
		"before":            {bound(`{"kubernetes.io":{"namespace":"ns-7","pod":{"name":"pod-7","uid":"77777777-7777"}}}`), presence.Sender{Namespace: pod7.Namespace, Pod: pod7.Pod}},
		"a line's end":      {bound(claims) + "\n", pod7},
		"of no pod":         {bound(`{"kubernetes.io":{"namespace":"ns-7","serviceaccount":{"name":"op"}}}`), presence.Sender{}},
		"of a node alone":   {bound(`{"kubernetes.io":{"namespace":"ns-7","node":{"name":"node-7"}}}`), presence.Sender{}},
		"a pod without UID": {bound(`{"kubernetes.io":{"namespace":"ns-7","pod":{"name":"pod-7"}}}`), presence.Sender{}},
		"empty":             {"", presence.Sender{}},
		"opaque":            {"31ada4fd-adec-460c-809a-9e56ceb75269", presence.Sender{}},
		"no base64":         {"a.%%%.c", presence.Sender{}},
		"no JSON":           {bound("}{"), presence.Sender{}},
		"other types":       {bound(`{"kubernetes.io":[1,2]}`), presence.Sender{}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, tc.token)
			if got := fromToken(&rest.Config{BearerTokenFile: path}); got != tc.want {
				t.Errorf("from a file %+v, want %+v", got, tc.want)
			}
			if got := fromToken(&rest.Config{BearerToken: tc.token}); got != tc.want {
				t.Errorf("from a text %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestAPodIsNamedByTheFirstThatKnows, and the log says which.
func TestAPodIsNamedByTheFirstThatKnows(t *testing.T) {
	inCluster := map[string]string{envInCluster: "10.0.0.1"}
	env := map[string]string{envInCluster: "10.0.0.1", envPodName: "pod-1", envPodUID: "11111111", envNode: "node-1", envNamespace: "ns-1"}
	both := func(name Source) Found { return Found{Pod: name, PodUID: name, Node: name} }
	for name, tc := range map[string]struct {
		env   map[string]string
		known Known
		token string
		code  int
		body  string
		want  Self // without identity and zone
		asked int32
		says  string
	}{
		"the token": {
			env: inCluster, token: bound(claims),
			want: Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-7", Node: "node-7", Found: both(FromToken)},
		},
		"the token, not the environment, but for the namespace of the lock": {
			env: env, token: bound(claims),
			want: Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-1", Node: "node-7", Found: both(FromToken)},
			says: "the environment names another pod",
		},
		"the token for the UID, where the environment has another": {
			env: map[string]string{envPodName: "pod-7", envPodUID: "11111111"}, token: bound(claims),
			want: Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-7", Node: "node-7", Found: both(FromToken)},
			says: "the environment names another pod",
		},
		"the program, not the token": {
			env: inCluster, known: Known{PodName: "pod-9", PodUID: "9", Namespace: "ns-9", Node: "node-9"}, token: bound(claims),
			want: Self{PodName: "pod-9", PodUID: "9", Namespace: "ns-9", Node: "node-9", Found: both(FromOption)},
		},
		"the program's name never gets the token's UID": {
			env: inCluster, known: Known{PodName: "pod-9"}, token: bound(claims),
			want: Self{PodName: "pod-9", Found: Found{Pod: FromOption}},
			says: "UID is not known",
		},
		"the API server": {
			env: inCluster, token: "opaque", code: 201, body: review("system:serviceaccount:ns-7:op", extra7),
			want:  Self{PodName: "pod-7", PodUID: "77777777-7777", Namespace: "ns-7", Node: "node-7", Found: both(FromServer)},
			asked: 1,
		},
		"an API server that knows a user": {
			env: inCluster, code: 201, body: review("jane", extra7),
			want:  Self{PodName: "host-1", Found: Found{Pod: FromHost}},
			asked: 1, says: "nothing names the pod",
		},
		"an API server before 1.28": {
			env: map[string]string{envPodName: "pod-1"}, code: 404, body: "{}",
			want:  Self{PodName: "pod-1", Found: Found{Pod: FromEnvironment}},
			asked: 1, says: "UID is not known",
		},
		"an API server that says nonsense": {
			env: map[string]string{envPodName: "pod-1"}, code: 201, body: "}{",
			want:  Self{PodName: "pod-1", Found: Found{Pod: FromEnvironment}},
			asked: 1,
		},
		"the environment, without a question": {
			env: env, token: "opaque", code: 201, body: review("system:serviceaccount:ns-7:op", extra7),
			want: Self{PodName: "pod-1", PodUID: "11111111", Namespace: "ns-1", Node: "node-1", Found: both(FromEnvironment)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, tc.env)
			cfg, asked := server(t, tc.code, tc.body)
			cfg.BearerTokenFile = writeFile(t, cmp.Or(tc.token, "opaque"))
			logger, logs := logbook()
			got, err := WhoAmI(t.Context(), cfg, logger, tc.known)
			if err != nil {
				t.Fatal(err)
			}
			if got.Identity = ""; got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
			if n := asked.Load(); n != tc.asked {
				t.Errorf("the API server was asked %d times, want %d", n, tc.asked)
			}
			if !strings.Contains(logs(), tc.says) || tc.says == "" && strings.Contains(logs(), "the environment names another pod") {
				t.Errorf("want %q in\n%s", tc.says, logs())
			}
			if !strings.Contains(logs(), fmt.Sprintf(`"podFrom"=%q`, got.Found.Pod)) {
				t.Errorf("the log does not say whence the pod is known:\n%s", logs())
			}
		})
	}
}

// TestATokenSaysNothingOutsideOfPods: whoever copied it is another process.
func TestATokenSaysNothingOutsideOfPods(t *testing.T) {
	bare(t)
	got, err := WhoAmI(t.Context(), &rest.Config{BearerToken: bound(claims)}, quiet(), Known{})
	if err != nil || got.PodName != "" || got.PodUID != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestATokenOfAnotherPodThanTheMountsIsACopy: the UID would prove this process's death by another's.
func TestATokenOfAnotherPodThanTheMountsIsACopy(t *testing.T) {
	setenv(t, full)
	mountsFile = writeFile(t, "1 2 0:1 /var/lib/kubelet/pods/12345678-90ab/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n")
	logger, logs := logbook()
	got, err := WhoAmI(t.Context(), &rest.Config{BearerToken: bound(claims)}, logger, Known{})
	if err != nil || got.PodName != "pod-1" || got.PodUID != "12345678-90ab" || got.Node != "node-1" {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(logs(), "another pod than it runs in") {
		t.Errorf("the log says\n%s", logs())
	}
	mountsFile = writeFile(t, "1 2 0:1 /var/lib/kubelet/pods/77777777-7777/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n")
	if got, err = WhoAmI(t.Context(), &rest.Config{BearerToken: bound(claims)}, logger, Known{}); err != nil || got.PodName != "pod-7" {
		t.Errorf("with its own mounts %+v, %v", got, err)
	}
}
