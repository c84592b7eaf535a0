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

// TestTheVersionIsThatOfTheModule. A program that does not know it says so.
func TestTheVersionIsThatOfTheModule(t *testing.T) {
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "4711abc"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{info: &debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}}, want: "v0.4.0  "},
		{info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: checkout}, want: "devel 4711abc dirty"},
		{info: &debug.BuildInfo{}, want: "devel  "},
		{want: "devel  "},
		{info: &debug.BuildInfo{Main: debug.Module{Version: "v0.4.0"}, Settings: checkout}, want: "v0.4.0 4711abc dirty"},
	} {
		if v := ownVersion(c.info); v.GitVersion+" "+v.GitCommit+" "+v.GitTreeState != c.want || v.GoVersion == "" || v.Platform == "" {
			t.Errorf("%+v is %+v, want %s", c, v, c.want)
		}
	}
}

func TestTheVersionOfClientGoIsThatOfTheModuleInTheProgram(t *testing.T) {
	plain := &debug.Module{Path: clientGoModule, Version: "v0.37.2"}
	replaced := &debug.Module{Path: clientGoModule, Version: "v0.37.2", Replace: &debug.Module{Path: "example.org/fork", Version: "v0.38.0"}}
	for want, info := range map[string]*debug.BuildInfo{
		"v0.37.2": {Deps: []*debug.Module{{Path: "k8s.io/api", Version: "v0.1.0"}, plain}},
		"v0.38.0": {Deps: []*debug.Module{replaced}},
		"":        nil,
	} {
		if got := moduleVersion(info, clientGoModule); got != want {
			t.Errorf("%v is of client-go %q, want %q", info, got, want)
		}
	}
}

func TestTheVersionOfTheLibraryIsThatOfTheModuleOrOfTheCheckout(t *testing.T) {
	for want, library := range map[string]*debug.Module{
		"v0.3.9": {Path: libraryModule, Version: "v0.3.9"},
		"v0.4.0": {Path: libraryModule, Version: "(devel)"},
	} {
		if got := libraryVersion(&debug.BuildInfo{Deps: []*debug.Module{library}}, "v0.4.0"); got != want {
			t.Errorf("%v is %q, want %q", library, got, want)
		}
	}
	if got := libraryVersion(nil, devel); got != devel {
		t.Errorf("an unknown one is %q", got)
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
		if err := json.Unmarshal([]byte(r.out), &all); err != nil || all.Kind != "Versions" || all.Server.GitVersion != "v1.36.3" || all.Client.GoVersion == "" || all.ClientGo != moduleVersion(buildInfo(), clientGoModule) || all.Library == "" || all.Module != buildInfo().Main.Path {
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
