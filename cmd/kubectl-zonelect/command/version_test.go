// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
)

// TestTheVersionIsThatOfTheModuleAndItsCommit, if the compiler knew them.
func TestTheVersionIsThatOfTheModuleAndItsCommit(t *testing.T) {
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "4711abc"}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]*debug.BuildInfo{
		"v0.4.0  ":              {Main: debug.Module{Version: "v0.4.0"}},
		"(devel) 4711abc dirty": {Main: debug.Module{Version: "(devel)"}, Settings: checkout},
		"(unknown)  ":           nil,
	} {
		if v := ownVersion(info); v.GitVersion+" "+v.GitCommit+" "+v.GitTreeState != want || v.GoVersion == "" || v.Platform == "" {
			t.Errorf("%v is %+v, want %s", info, v, want)
		}
	}
}

func TestTheServersVersionIsShownIfItAnswers(t *testing.T) {
	own := "Client Version: " + ownVersion(buildInfo()).GitVersion
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
