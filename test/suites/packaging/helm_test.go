// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/zonelect/zonelect/test/kit/manifests"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// Paths from this directory.
const (
	chart  = "../../../charts/zonelect"
	config = "../../../config"
)

// image makes a chart complete.
const image = "image.repository=example.com/my-operator,image.tag=v1"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// built is Helm's program.
var built = sync.OnceValues(func() (string, error) {
	return testbed.BuildModule(context.Background(), "test/programs/helm", os.Stderr)
})

// helm runs Helm, and returns what it printed, and what it said if it failed.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("Helm takes minutes to build: make packaging")
	}
	program, err := built()
	must(t, err)
	command := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := command.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return string(out), err
}

// values are of the form key=value, as for helm template --set.
func values(all ...string) (args []string) {
	for _, v := range all {
		args = append(args, "--set", v)
	}
	return args
}

// render renders a chart as release my-operator in namespace my-operator.
func render(t *testing.T, dir string, args ...string) manifests.Objects {
	t.Helper()
	return renderAs(t, "my-operator", "my-operator", dir, args...)
}

func renderAs(t *testing.T, release, namespace, dir string, args ...string) manifests.Objects {
	t.Helper()
	out, err := helm(t, append([]string{"template", release, dir, "--namespace", namespace}, args...)...)
	must(t, err)
	var all manifests.Objects
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if must(t, err); len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// one returns the only object of a kind.
func one[T any](t *testing.T, all manifests.Objects, kind string) *T {
	t.Helper()
	picked := manifests.Pick[T](t, all, kind)
	if len(picked) != 1 {
		t.Fatalf("there are %d objects of kind %s, want one", len(picked), kind)
	}
	return picked[0]
}

// environment sets the variables that a container has, as a kubelet does.
func environment(t *testing.T, c corev1.Container) {
	t.Helper()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "LEADER_ELECT") {
			t.Setenv(name, "") // restores it afterwards
			must(t, os.Unsetenv(name))
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			t.Setenv(e.Name, e.Value)
		}
	}
}

// copied copies directories into a new one.
func copied(t *testing.T, from map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for to, dir := range from {
		must(t, os.CopyFS(filepath.Join(root, to), os.DirFS(dir)))
	}
	return root
}
