// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// stored is one event of a register, as etcd's gateway reports it.
func stored(t *testing.T, version int, data map[string]string) string {
	t.Helper()
	codec := scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	value, err := runtime.Encode(codec, &corev1.ConfigMap{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	stored := base64.StdEncoding.EncodeToString(key("chaos", "register"))
	return fmt.Sprintf(`{"kv":{"key":%q,"mod_revision":"%d","value":%s}}`, stored, version, encoded)
}

func TestARegisterIsReadUpToItsEnd(t *testing.T) {
	write := func(version, sequence int) string {
		return stored(t, version, map[string]string{"token": "7", "identity": "a", "sequence": fmt.Sprint(sequence)})
	}
	gone := func(version int) string {
		return fmt.Sprintf(`{"type":"DELETE","kv":{"mod_revision":"%d"}}`, version)
	}
	for name, c := range map[string]struct {
		messages []string // each of events
		want     int      // revisions
		fails    string
	}{
		"in one message":     {[]string{write(11, 1) + "," + write(12, 2) + "," + gone(20)}, 2, ""},
		"in several":         {[]string{"", write(11, 1), write(12, 2), gone(20)}, 2, ""},
		"recreated":          {[]string{write(11, 1), gone(12), write(13, 2), gone(20)}, 2, ""},
		"it breaks off":      {[]string{write(11, 1)}, 0, "EOF"},
		"it is no ConfigMap": {[]string{`{"kv":{"mod_revision":"11","value":"bm9uc2Vuc2U="}}`}, 0, "revision 11"},
		"a hand wrote":       {[]string{stored(t, 11, map[string]string{"token": "x"}), gone(20)}, 1, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, events := range c.messages {
				fmt.Fprintf(w, `{"result":{"events":[%s]}}`, events)
			}
		}))
		all, err := etcd{server.URL}.history(t.Context(), "chaos", "register", 10, 20)
		server.Close()
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want an error with %q", name, err, c.fails)
			}
			continue
		}
		if err != nil || len(all) != c.want || all[0].Version != 11 {
			t.Errorf("%s: read %+v and %v, want %d revisions", name, all, err, c.want)
		}
	}
}

func TestAHistoryThatIsGoneIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"result":{"canceled":true,"compact_revision":"15","cancel_reason":"compacted"}}`)
	}))
	defer server.Close()
	_, err := etcd{server.URL}.history(t.Context(), "chaos", "register", 10, 20)
	if err == nil || !strings.Contains(err.Error(), "compacted at 15") {
		t.Errorf("read with %v", err)
	}
}
