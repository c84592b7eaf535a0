// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestTheServersVersionIsShownIfItAnswers(t *testing.T) {
	own := "Client Version: " + ownVersion().GitVersion
	inABubble(t, func(t *testing.T, w *world) {
		if r := w.run("version"); r.code != exitOK || !strings.HasPrefix(r.out, own) || !strings.HasSuffix(r.out, "\nServer Version: v1.36.3\n") || r.errors != "" {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		if r := w.run("version", "--client"); r.code != exitOK || !strings.HasPrefix(r.out, own) || strings.Contains(r.out, "Server") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		var all Versions
		r := w.run("version", "-o", "json")
		if err := json.Unmarshal([]byte(r.out), &all); err != nil || all.Kind != "Versions" || all.Server.GitVersion != "v1.36.3" || all.Client.GoVersion == "" {
			t.Errorf("exit code %d: %s%s, %v", r.code, r.out, r.errors, err)
		}
		if r := w.run("version", "-o", "yaml"); !strings.Contains(r.out, "\nserverVersion:\n") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
		w.absent = errors.New("connection refused")
		if r := w.run("version"); r.code != exitOK || !strings.HasPrefix(r.out, own) || !strings.Contains(r.errors, "note: cannot tell the server's version: connection refused") {
			t.Errorf("exit code %d: %s%s", r.code, r.out, r.errors)
		}
	})
}
