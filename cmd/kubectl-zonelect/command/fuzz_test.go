// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
)

// FuzzArguments runs any command line, one argument in each line, without a cluster: it fails
// with advice, or needs no cluster.
func FuzzArguments(f *testing.F) {
	for _, line := range []string{
		"", "--help", "status", "status a -A", "status -o go-template={{", "status --observe=-1s", "status --nonsense", "status -w --observe x",
		"handover op --to a --to-zone b", "handover op --to=", "handover --timeout 0s op", "evacuate za -A --until nonsense", "evacuate", "restore za --lock a",
		"migrate plan op", "migrate advance op --to nowhere", "migrate rollback",
		"completion bash", "__complete status ", "nonsense", "-n", "--", "-o=",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, lines string) {
		args := strings.Split(lines, "\n")
		for _, arg := range args {
			if strings.ContainsAny(arg, "/\x00") || strings.Contains(arg, "kubeconfig") || strings.Contains(arg, "cache") {
				t.Skip("files are not for fuzzing")
			}
		}
		var out, errOut strings.Builder
		env := newEnvironment(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		env.terminal = func() bool { return false }
		env.config.KubeConfig = ptr.To("testdata/kubeconfig.yaml")
		connected := false
		env.connect = func() (clients, error) {
			connected = true
			return clients{}, errors.New("no cluster")
		}
		code := run(t.Context(), env, args)
		completing := strings.HasPrefix(args[0], "__complete")
		version := slices.Contains(args, "version") // it needs no cluster
		switch {
		case code < exitOK || code > exitRefused:
			t.Errorf("%q ends with %d", args, code)
		case code == exitOK && connected && !completing && !version:
			t.Errorf("%q is well without a cluster: %s", args, &out)
		case code != exitOK && !strings.Contains(errOut.String(), "error: "):
			t.Errorf("%q ends with %d, and says %q", args, code, &errOut)
		case code == exitUsage && !strings.Contains(errOut.String(), "See 'kubectl zonelect"):
			t.Errorf("%q makes no sense, and there is no advice: %q", args, &errOut)
		case faultOf(strings.ReplaceAll(out.String()+errOut.String(), "\t", "")) != "": // scripts have tabs
			t.Errorf("%q prints more than texts: %q and %q", args, &out, &errOut)
		}
	})
}
