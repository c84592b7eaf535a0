// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !core

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/zonelect/zonelect/test/kit/testbed"
	"github.com/zonelect/zonelect/test/kit/trial"
)

// hangingPlugin gives a token for 10 s, as often as its second argument says. Later calls hang.
const hangingPlugin = `#!/bin/sh
echo $$ >>$1/pids
if [ $(wc -l <$1/pids) -gt $2 ]; then exec sleep 120 2>/dev/null; fi
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$3'","expirationTimestamp":"'$(date -u -d '+10 seconds' +%FT%TZ)'"}}'
`

// withPlugin returns the path of a kubeconfig with that plugin, and a directory with its process IDs.
func withPlugin(t *testing.T, b *testbed.Testbed, calls int) (kubeconfig, dir string) {
	dir = t.TempDir()
	plugin := filepath.Join(dir, "plugin")
	must(t, os.WriteFile(plugin, []byte(hangingPlugin), 0o700))
	config, err := clientcmd.LoadFromFile(b.Cluster.Kubeconfig("za"))
	must(t, err)
	for _, user := range config.AuthInfos {
		user.Exec = &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: plugin, Args: []string{dir, strconv.Itoa(calls), user.Token},
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
		user.Token = ""
	}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, kubeconfig))
	t.Cleanup(func() {
		for _, pid := range hung(t, dir, calls) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return kubeconfig, dir
}

// hung returns the IDs of the plugin's processes that hang.
func hung(t *testing.T, dir string, calls int) (pids []int) {
	text, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		return nil
	}
	for i, line := range bytes.Fields(text) {
		pid, err := strconv.Atoi(string(line))
		must(t, err)
		if i >= calls {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestAProcessEndsThoughItsCredentialPluginHangs: the plugin does not obey the contexts of
// requests. Nobody knows what a request does that was given up, so the lock is not released.
func TestAProcessEndsThoughItsCredentialPluginHangs(t *testing.T) {
	b := trial.Bed(t, plain)
	client, err := kubernetes.NewForConfig(b.Cluster.RESTConfig("za"))
	must(t, err)
	atOnce(t, map[string]struct {
		calls int
		args  []string
		event string // to wait for
	}{
		"a-leader":           {1, nil, "stopped"},
		"a-leader-at-once":   {1, nil, "leading"},
		"before-it-begins":   {0, nil, ""},
		"looks-up-its-zone":  {0, []string{"--node-name", "none"}, ""},
		"many-locks":         {1, []string{"--locks", "3", "--shared"}, "stopped"},
		"a-heartbeat":        {1, []string{"--locks", "3", "--heartbeat", "--stop-timeout", "4s"}, "stopped"},
		"with-a-legacy-lock": {1, []string{"--mode", "dual", "--legacy-kind", "configmap"}, "stopped"},
	}, func(t *testing.T, row struct {
		calls int
		args  []string
		event string
	}) {
		ctx, lock := patience(t, 3*time.Minute), nameOf(t)
		kubeconfig, dir := withPlugin(t, b, row.calls)
		seat := start(t, b, "za", lock, lock, append([]string{
			"--kubeconfig", kubeconfig, "--stop-timeout", "10s",
			"--lease-duration", "6s", "--renew-deadline", "4s", "--renew-interval", "1s",
		}, row.args...)...)
		t.Cleanup(func() { _ = seat.Kill() })
		if row.event != "" {
			_, err := seat.Await(ctx, row.event, time.Time{})
			must(t, err)
		}
		for len(hung(t, dir, row.calls)) == 0 {
			time.Sleep(50 * time.Millisecond)
			must(t, ctx.Err())
		}
		time.Sleep(time.Second) // requests wait for the plugin
		asked := time.Now()
		must(t, seat.Terminate())
		err := seat.Wait(ctx)
		t.Logf("SIGTERM to exit: %v (%v)", time.Since(asked).Round(10*time.Millisecond), err)
		log, readErr := os.ReadFile(seat.Log())
		must(t, readErr)
		if row.event != "" && !strings.Contains(string(log), "that does not obey its context") {
			t.Errorf("the log names no plugin:\n%s", log)
		}
		if took := time.Since(asked); took > 30*time.Second {
			t.Errorf("the process ended after %v", took)
		}
		lease, err := client.CoordinationV1().Leases("default").Get(ctx, lock, metav1.GetOptions{})
		if row.event == "stopped" && len(row.args) == 0 && (err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			t.Errorf("the lock was released: %v, %v", fmt.Sprint(lease.Spec), err)
		}
	})
}
